"""Invariants of every run, checked on shortened shipped scenarios and on random scenarios.

``NETFL_EXAMPLES=2000 pytest tests/test_invariants.py`` increases the number of random scenarios.
"""

import copy
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from golden import EXPONENTIAL, NETWORK, NETWORKS
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support import random_scenarios
from support.recorders import Memory
from support.run_invariants import check_run, check_tables, tables_of_recorder, watched

import netfl
from netfl.access.network import NetworkAccess
from netfl.core.kinds import kind_of
from netfl.errors import ModelError, ScenarioError
from netfl.learning.data._download import SOURCES
from netfl.scenario import examples
from netfl.scenario.scenario import validate
from netfl.scenario.validation import nested_faults
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.types import AccessContext, RunObserver, ScenarioFacts

EXAMPLES = int(os.environ.get("NETFL_EXAMPLES", "40"))
SEED = int(os.environ.get("NETFL_SEED", "0"))
SHIPPED = [name for name in examples.example_names() if not name.startswith(("learning/", "paper/"))]
"""The others use data sets that are slow to partition, and give the access directly."""
ENERGY = {"per_training": 1.0, "per_sample": 0.02, "efficiency": 0.5, "receive": 0.3, "idle": 0.01}
PARTS = [
    *NETWORKS.values(),
    {"on_new_version": "finish"}, {"on_new_version": "ignore"}, {"staleness": 1},
    {"round": {"kind": "quorum", "quorum": 0.5, "deadline": 60}}, {"round": {"kind": "available", "deadline": 60}},
    {"round": {"kind": "first", "deadline": 45}},
    {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}},
    {"broadcast_rate": None, "downlink": {"mode": "unicast"}},
    {"selection": {"kind": "uniform", "m": 4}}, {"selection": {"kind": "oldest", "m": 3}},
    {"mac": {"kind": "pure_aloha", "backoff": "3 s", "max_attempts": 3}}, {"mac": {"kind": "priority"}},
    {"mac": {"kind": "multichannel_aloha", "channels": 2, "probability": 0.2}},
    {"interference": {"kind": "capture", "margin": "6 dB"}},
    {"interference": "sinr"}, {"mac": {"kind": "slotted_aloha", "probability": 0.4, "max_attempts": 2}},
    {"queue": {"kind": "red", "min_threshold": 1, "max_threshold": 4, "capacity": 5}},
    {"queue": {"kind": "drop_tail", "capacity": 0}}, {"queue": {"kind": "drr", "quantum": "500 B", "capacity": 3}},
    {"queue": {"kind": "relay", "flow_capacity": 1}}, {"queue": {"kind": "drop_tail", "capacity_bytes": "3 kB"}},
    {"topology": {"kind": "tree", "fanout": [2], "ring": "800 m", "radius": "700 m", "rate": "8 kbps", "delay": "1 s"}},
    {"traffic": {"kind": "poisson", "rate": 0.1, "size": {"mean": "100 B"}}},
    {"outages": [{"kind": "battery", "capacity": "600 J", "restart": 0.3, "charger": {"power": "3 W"}}],
     "energy": {"per_training": 30.0, "per_sample": 0.2, "transmit": "50 W", "idle": 1}},
    {"outages": [{"kind": "renewal", "nodes": nodes, "up": EXPONENTIAL, "down": EXPONENTIAL | {"mean": 20},
                  "spares_uploads": nodes == "users"} for nodes in ("users", "towers", "routers")]},
]  # fmt: skip
"""Overrides of `NETWORK`."""


@st.composite
def networks(draw):
    """Draw a network with several sources of failures, its number of users and its number of rounds."""
    settings_ = copy.deepcopy(NETWORK | {"energy": ENERGY})
    for part in draw(st.lists(st.sampled_from(PARTS), max_size=5)):
        settings_ |= part
    users, rounds = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    try:
        network = NetworkAccess.model_validate({key: value for key, value in settings_.items() if key != "kind"})
    except ValidationError:
        reject()
    if [*nested_faults(network, "", ScenarioFacts(users, rounds))]:
        reject()
    return network, users, rounds


def run_network(network, users, rounds, seed_number):
    """Run a network under `watched`; return its rounds and its recorder."""
    log, streams = Memory(), Streams(seed_number).at("access", 0)
    context = AccessContext(
        users, rounds, 0, streams, np.full(users, 50.0), 1e4, 1e4, log, held=np.arange(1.0, users + 1)
    )
    try:
        with watched():
            return list(network.rounds(context)), log
    except (ModelError, ScenarioError):  # nothing can happen any more, or parts do not fit the topology
        return reject()


class StopAfter(RunObserver):
    """Stops a run after a number of rounds."""

    def __init__(self, rounds):
        self.stop, self._rounds = False, rounds

    def on_round(self, progress):
        self.stop = progress.round >= self._rounds


def record_of(access_kind):
    """Return the section `record` that stores all that an access of this kind has."""
    return {"events": "all", "attempts": access_kind == "network"}


LONGER = {"rounds": 8, "duration": None}


def shortened(name):
    """Return a shortened version of a shipped scenario."""
    whole = netfl.load(examples.examples_folder() / f"{name}.yaml")
    overrides = {"replicas": 1, "record": record_of(kind_of(type(whole.access)))}
    if not whole.has_rounds:
        return whole.at(overrides | {"duration": whole.duration / 1000, "warmup": whole.warmup / 1000})
    overrides["duration"] = None
    overrides["rounds"] = 25 if "adversarial" in name else 4
    return whole.at(
        overrides
        | ({"access.energy": ENERGY} if whole.access.info.has_positions and whole.access.energy is None else {})
    )


def use_data(scenario, real_data):
    """Skip a test whose network needs the data of *scenario*, if they are not here."""
    kind = kind_of(type(scenario.data)) if scenario.data else None
    if scenario.access.info.needs_data and kind in SOURCES:
        real_data(kind)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_keep_invariants(name, tmp_path, real_data):
    scenario = shortened(name)
    use_data(scenario, real_data)
    with watched() as watch:
        run = (netfl.run if name == "closed_loop" else netfl.trace)(scenario, tmp_path / "run")
    check_run(run, scenario)
    assert scenario.access.info.has_positions == (watch.finished > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_attempts_of_shipped_scenarios_add_up(name, tmp_path, real_data):
    """Events, attempts, users and summary agree, also after a warm-up, in runs with many attempts."""
    whole = netfl.load(examples.examples_folder() / f"{name}.yaml")
    use_data(whole, real_data)
    if not whole.access.info.is_networked:
        pytest.skip("nothing is sent over the air")
    scenario = whole.at(
        {"replicas": 2, "record": record_of("network")}
        | (LONGER if whole.has_rounds else {"duration": min(whole.duration, whole.warmup + 2.0)})
    )
    run = (netfl.run if name == "closed_loop" else netfl.trace)(scenario, tmp_path / "run")
    check_run(run, scenario)


ONCE = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": [*HealthCheck]}


@seed(SEED)
@settings(max_examples=EXAMPLES, **ONCE)
@given(networks(), st.integers(0, 99))
@pytest.mark.slow
def test_networks_with_failures_keep_invariants(case, seed_number):
    network, users, rounds = case
    tables = tables_of_recorder(*run_network(network, users, rounds, seed_number))
    check_tables(tables, users, rounds, network.model_dump(mode="json"))


@seed(SEED)
@settings(max_examples=EXAMPLES // 5, **ONCE)
@given(
    random_scenarios.valid_scenarios(
        [base for base in random_scenarios.BASES if base[0].startswith(("access", "network"))]
    ),
    st.integers(0, 4),
)
@pytest.mark.slow
def test_random_scenarios_of_all_models_keep_invariants(data, repeat):
    scenario = validate(ScenarioDocument(data | {"record": record_of(data["access"]["kind"])}, "random"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            with watched():
                run = netfl.trace(scenario, Path(folder, "run"))
        except (ModelError, ScenarioError):
            reject()
        check_run(run, scenario)
        if not repeat and scenario.steps > 1:
            check_repeated_run(run, scenario, Path(folder))


def check_repeated_run(run, scenario, folder):
    """A second run, and one that is stopped and resumed, have the same tables."""
    again = netfl.trace(scenario, folder / "again")
    netfl.trace(scenario, folder / "parts", observer=StopAfter(scenario.steps // 2))
    for other in (again, netfl.resume(folder / "parts")):
        assert other.manifest["digests"] == run.manifest["digests"]
