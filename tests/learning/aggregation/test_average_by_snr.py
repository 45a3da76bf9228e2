"""The average by SNR, and the links that it reads: in all lanes, after a restore, from a network and from a replay."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from support import paper_algorithms as papers
from support.error_messages import assert_messages
from support.learner_factory import DATA, SPLIT, a_round, draw_batches, learner, spec

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_by_snr import AverageBySnr
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.streams import Streams
from netfl.types import LinkReport

STREAMS = Streams(5).at(0)
EXAMPLES = [(DATA.train_x[rows].astype(float), DATA.train_y[rows]) for rows in SPLIT]
TRACE = [[(0, 0), (3, 0)], [], [(1, 2), (0, 1), (0, 2)], [(2, 3)], [(3, 2), (3, 2), (1, 4)]]
"""Deliveries as (user, base): an empty round, a repeated user, repeated and old bases."""


def snr_db(number, place):
    """Return the SNR of a delivery of round *number*, other for each."""
    return 10.0 * np.sin(3.0 * number + place)


def linked_rounds(trace=TRACE):
    for index, deliveries in enumerate(trace, start=1):
        current = a_round(index, *deliveries)
        linked = [
            replace(
                each,
                link=LinkReport(
                    snr_db=snr_db(index, place), gain_db=-90.0, mode=2, airtime_s=0.5 + place, energy_j=1.5
                ),
            )
            for place, each in enumerate(current.deliveries)
        ]
        yield replace(current, deliveries=tuple(linked))


class PlainAverageBySnr:
    """The rule in NumPy, with the SNR of each delivery in the order of the trace."""

    def __init__(self, limit_db, eta, *, by_size):
        self.limit_db, self.eta, self.by_size = limit_db, eta, by_size
        self.number = 0

    def step(self, x, updates):
        self.number += 1
        if not updates:
            return x
        total, weights = np.zeros_like(x), 0.0
        for place, update in enumerate(updates):
            weight = 10.0 ** (min(snr_db(self.number, place), self.limit_db) / 10.0)
            weight *= update.samples**self.by_size
            total, weights = total + weight * update.model, weights + weight
        return x + self.eta * (total / weights - x)


def batches(user, base, repeat):
    x, y = EXAMPLES[user]
    drawn = draw_batches(BatchSampler([STREAMS]), [(0, user, base, len(y))], LocalWork(8, 2, None), np.array([repeat]))
    return [
        (x[places[:count]], y[places[:count]]) for places, count in zip(drawn.places[0], drawn.counts[0], strict=True)
    ]


RULES = {
    "plain": (AverageBySnr(), (np.inf, 1.0, True)),
    "limited": (AverageBySnr(max_snr=2.0, weights="equal", server_lr=0.7), (2.0, 0.7, False)),
}


@pytest.mark.parametrize("name", RULES)
def test_versions_equal_numpy(name):
    """With stale and repeated users, beside a lane of another rule."""
    rule, (limit_db, eta, by_size) = RULES[name]
    made = learner({"other": spec(lr=0.3), "this": spec(aggregation=rule, lr=0.3)})
    versions = [made.version(1)]
    for current in linked_rounds():
        made.step([current])
        versions.append(made.version(1))
    expected = papers.play(
        PlainAverageBySnr(limit_db, eta, by_size=by_size),
        papers.Local(papers.erm, 0.3),
        versions[0],
        TRACE,
        data=EXAMPLES,
        batches=batches,
    )
    assert np.array(versions) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_a_limit_below_all_snrs_is_the_average():
    made = learner({"average": spec(aggregation=Average()), "by_snr": spec(aggregation=AverageBySnr(max_snr=-40.0))})
    for current in linked_rounds():
        made.step([current])
        assert made.version(1) == pytest.approx(made.version(0), rel=1e-12, abs=1e-14)


def test_a_restored_learner_continues_as_before():
    specs = {"this": spec(aggregation=AverageBySnr())}
    whole, restored = learner(specs), learner(specs)
    rounds = [*linked_rounds()]
    for current in rounds[:2]:
        whole.step([current])
    restored.restore(whole.state())
    for current in rounds[2:]:
        whole.step([current])
        restored.step([current])
    assert (whole.version(0) == restored.version(0)).all()


class Spying(Aggregation):
    """Keeps the links that it is given."""

    reads_links: ClassVar[frozenset[str]] = frozenset({"airtime_s", "mode"})
    seen: ClassVar[list] = []

    def step(self, state, current, updates):
        self.seen.append({name: values.tolist() for name, values in updates.links.items()})
        return current, state


def test_a_rule_gets_what_it_names_and_no_more():
    made = learner({"by_snr": spec(aggregation=AverageBySnr()), "spy": spec(aggregation=Spying())})
    Spying.seen.clear()
    made.step([next(linked_rounds())])
    assert Spying.seen == [{"airtime_s": [0.5, 1.5], "mode": [2.0, 2.0]}]


LEARNER = {"objective": "erm", "aggregation": "average_by_snr", "lr": 0.1, "batch_size": 8, "local_steps": 2}
NETWORK = {
    "kind": "network", "topology": {"kind": "star", "radius": "1 km"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "-30 dB", "rate": "50 kbps"}, "mac": "round_robin",
    "compute": {"speed": 100}, "broadcast_rate": "50 kbps", "round": {"kind": "first", "m": 3},
}  # fmt: skip
SCENARIO = {
    "name": "by_snr", "users": 4, "rounds": 6, "access": NETWORK,
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60}, "partition": "iid", "model": "logistic",
    "learners": {"plain": LEARNER}, "record": {"links": True},
}  # fmt: skip
DIRECT = {"kind": "bernoulli", "probability": 0.9}


def errors_of(**changes):
    with pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO | changes)
    return [str(fault) for fault in error.value.faults]


def test_accesses_without_links_are_refused():
    needed = "learners.plain.aggregation: needs snr_db … 'bernoulli' … ('average_by_snr') … replay"
    assert_messages(errors_of(access=DIRECT, record="all"), [needed])
    plain = {"plain": LEARNER | {"aggregation": "average"}}
    assert_messages(errors_of(access=DIRECT, learners=plain), ["record.links: the access 'bernoulli' does not state"])
    without_radio = {name: value for name, value in NETWORK.items() if name not in {"radio", "channel", "reception"}}
    assert_messages(
        errors_of(access=without_radio | {"mac": "csma_ca"}), ["learners.plain.aggregation: needs snr_db … 'network'"]
    )


@pytest.mark.slow
def test_a_replay_of_links_learns_as_the_network_did(tmp_path):
    live = netfl.run(netfl.load(SCENARIO), tmp_path / "live", device="cpu")
    links = live.table("links")
    assert len(links) == len(live.deliveries) > 10
    assert links[["round", "user", "base", "arrived_s"]].equals(live.deliveries[["round", "user", "base", "arrived_s"]])
    assert links["energy_J"].isna().all()
    silent = netfl.run(netfl.load(SCENARIO | {"record": "all"}), tmp_path / "silent", device="cpu")
    assert not (tmp_path / "silent/links.parquet").exists()
    assert silent.metrics["value"].equals(live.metrics["value"])

    replay = SCENARIO | {"access": {"kind": "replay", "run": str(tmp_path / "live")}}
    replayed = netfl.run(netfl.load(replay), tmp_path / "replay", device="cpu")
    assert replayed.metrics["value"].equals(live.metrics["value"])
    assert replayed.table("links").equals(links)
    unrecorded = {"access": {"kind": "replay", "run": str(tmp_path / "silent")}, "record": "all"}
    assert_messages(errors_of(**unrecorded), ["learners.plain.aggregation: needs snr_db … 'replay'"])

    path = tmp_path / "live/links.parquet"
    for change, message in (
        (links.iloc[1:], "no row for this delivery"),
        (links.assign(user=0), "no such delivery|it occurs twice"),
        (links.assign(airtime_s=-1.0), "column airtime_s: not a duration from 0"),
    ):
        pd.DataFrame(change).to_parquet(path)
        with pytest.raises(ScenarioError, match=message):
            netfl.load(replay)
