"""Direct accesses have no delays: an arrival only has a place within ``round_length``."""

import pytest
from support.small_network import SECTION

import netfl
from netfl.access import Access
from netfl.access._direct import DirectAccess
from netfl.core.family_members import find_model
from netfl.core.kinds import list_kinds
from netfl.report.run_data import RunData
from netfl.report.sections import delays

DIRECT = {"name": "direct", "users": 5, "rounds": 6, "access": {"kind": "bernoulli", "probability": 0.5}}


NETWORK = SECTION | {"update_size": "10 kB", "compute": {"speed": 100, "samples": 20}}


def has_delays(summary):
    return [name for name in summary if "delay" in name]


def trace(folder, scenario):
    return netfl.trace(netfl.load(scenario), folder, progress=False)


def test_delays_of_a_direct_access_are_left_out(tmp_path):
    run = trace(
        tmp_path / "run", DIRECT | {"access": {"kind": "bernoulli", "probability": 0.5, "round_length": "10 min"}}
    )
    assert not has_delays(run.summary)
    assert run.summary["simulated_s"] == pytest.approx(3600.0)
    assert not [*delays(RunData(run))]


def test_replay_has_the_delays_of_its_recording(tmp_path):
    for name, access in (("direct", DIRECT["access"]), ("network", NETWORK)):
        run = trace(tmp_path / name, DIRECT | {"access": access})
        replay = {"kind": "replay", "run": str(run.folder)}
        again = trace(tmp_path / f"{name}-again", DIRECT | {"access": replay})
        assert has_delays(again.summary) == has_delays(run.summary)
    assert has_delays(run.summary) == ["delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s"]


def test_all_accesses_without_own_times_are_direct():
    models = {kind: find_model(Access, kind) for kind in list_kinds(Access)}
    assert {kind for kind, model in models.items() if not issubclass(model, DirectAccess)} == {
        "adversarial",
        "network",
        "replay",
    }
