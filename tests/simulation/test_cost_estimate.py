"""What a run will take is told before it begins; what would never end is refused."""

import tracemalloc

import pytest
from support.small_network import SECTION
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.scenario.scenario import checked
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import cost_estimate
from netfl.streams import Streams
from netfl.types import RoundProgress

DIRECT = {"access": {"kind": "bernoulli", "probability": 0.5}, "users": 20, "rounds": 30}
PACKETS = {
    "kind": "network",
    "topology": {"kind": "star", "radius": "200 m"},
    "traffic": {"kind": "poisson", "rate": 20, "enters": "towers"},
}
NETWORK = {key: SECTION[key] for key in SECTION if key != "compute"} | {
    "mac": "tdma", "compute": {"speed": 100, "samples": 1}, "update_size": "1 kbit",
}  # fmt: skip


def made(**said):
    return checked(ScenarioDocument({"name": "x"} | said, "x"))


def test_what_is_foretold_is_what_comes(tmp_path):
    """Each update of a direct access has one fate; a round of a network has one of each who may try, at most."""
    scenario = made(**DIRECT)
    run, told = netfl.trace(scenario, tmp_path / "direct"), cost_estimate.estimate_workload(scenario, learning=False)
    fates = run.events["kind"].isin(["delivered", "superseded", "unfinished"]).sum()
    assert told.updates == fates == 600
    scenario = made(users=10, rounds=3, access=NETWORK, replicas=2)
    run, told = netfl.trace(scenario, tmp_path / "network"), cost_estimate.estimate_workload(scenario, learning=False)
    assert told.updates == 60
    assert len(run.deliveries) <= 60


def test_the_packets_of_updates_are_counted(tmp_path):
    """5 kB are three frames of Wi-Fi, each of which is sent once at least."""
    access = {key: NETWORK[key] for key in ("kind", "topology", "compute", "broadcast_rate", "round")}
    wifi = made(users=10, rounds=3, access=access | {"mac": "csma_ca", "update_size": "5 kB"}, record="all")
    told, whole = (
        cost_estimate.estimate_workload(wifi, learning=False),
        cost_estimate.estimate_workload(made(users=10, rounds=3, access=NETWORK), learning=False),
    )
    assert told.updates == 3 * whole.updates == 90
    assert told.seconds == whole.seconds
    sent = (netfl.trace(wifi, tmp_path / "wifi").events["kind"] == "sent").sum()
    assert sent >= 90


BLOBS = {"kind": "blobs", "centers": [[0, 0], [3, 3]]}
LEARNING = {
    "data": BLOBS, "partition": "iid", "model": "logistic",
    "learners": {"a": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 5}},
}  # fmt: skip


def test_rows_and_steps_are_counted():
    base = cost_estimate.estimate_workload(made(**DIRECT))
    assert cost_estimate.estimate_workload(made(**DIRECT, record="none")).disk < base.disk
    assert cost_estimate.estimate_workload(made(**DIRECT, record={"users": 10})).disk < base.disk
    assert cost_estimate.estimate_workload(made(**DIRECT, replicas=3)).disk == 3 * base.disk
    assert cost_estimate.estimate_workload(made(**DIRECT, **LEARNING)).seconds == pytest.approx(
        base.seconds + 30 * 5 * 1e-5
    )
    assert cost_estimate.estimate_workload(made(**DIRECT, **LEARNING), learning=False).seconds == base.seconds


def test_what_was_played_counts_in_place_of_bounds():
    """A fifth of the users is heard, where all might be: memory for as many updates at once, and rows on the disk."""
    scenario = made(**DIRECT, **LEARNING)
    played = cost_estimate.DryRun(seconds=90.0, rounds=7, deliveries=4.0, max_deliveries=6)
    told, bound = cost_estimate.estimate_workload(scenario, played=played), cost_estimate.estimate_workload(scenario)
    assert told.seconds == 90.0
    assert bound.disk - told.disk == pytest.approx(24 * 30 * (20 - 4))
    assert bound.memory - told.memory == pytest.approx(3 * 4 * 6 * (20 - 6))  # three models of six float32 for each
    assert "1.5 min of processor time (45 s to 3 min, estimated from 7 rounds)" in str(told)
    assert "at least" not in str(told)
    cut = cost_estimate.estimate_workload(scenario, played=cost_estimate.DryRun(90.0, cut=RoundProgress(1, 2.0, 3, 4)))
    assert "at least 1.5 min of processor time, " in str(cut)


def test_what_takes_a_year_by_what_was_played_is_refused():
    year = 365.25 * 86400
    assert (
        cost_estimate.check(made(**DIRECT), learning=False, played=cost_estimate.DryRun(0.9 * year, 2)).seconds
        == 0.9 * year
    )
    with pytest.raises(ScenarioError, match=r"rounds: the run would not end in a year: .*, 1.1 years of processor"):
        cost_estimate.check(made(**DIRECT), learning=False, played=cost_estimate.DryRun(1.1 * year, 2))


@pytest.mark.parametrize(
    ("said", "key"),
    [
        (DIRECT | {"users": 200, "rounds": 10**12, "record": "none"}, "rounds"),
        ({"access": PACKETS, "users": 2, "duration": 1e300}, "duration"),
        (DIRECT | {"users": 10**7, "rounds": 1, "replicas": 10**6, "record": "none"}, "users"),
    ],
)
def test_what_would_never_end_is_refused_before_it_starts(said, key):
    with pytest.raises(ScenarioError) as told:
        cost_estimate.check(made(**said), learning=False)
    assert key in {fault.key for fault in told.value.faults}


@pytest.mark.parametrize(
    "data",
    [BLOBS | {"samples": 10**12}, {"kind": "synthetic", "users": 10**11}, {"kind": "synthetic", "users": 10**10}],
)
def test_made_up_examples_that_no_memory_holds_are_refused_before_it_starts(data):
    scenario = made(**DIRECT, **LEARNING | {"data": data})
    with pytest.raises(ScenarioError, match=r"data: they need [\d.,]+ [TP]B of memory, and .* are there.*make fewer"):
        cost_estimate.check(scenario, learning=True)
    cost_estimate.check(scenario, learning=False)


def test_made_up_examples_take_the_memory_that_is_told():
    for data in (BLOBS | {"samples": 1000}, {"kind": "synthetic", "users": 60, "sigma": 1}):
        family = made(**DIRECT, **LEARNING | {"data": data}).data
        family.load(Streams(0))  # imports what it needs
        tracemalloc.start()
        family.load(Streams(0))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.5 * most < family.memory < 2 * most


OUTAGE = {"kind": "renewal", "nodes": "users", "up": {"law": "fixed", "mean": 3}, "down": {"law": "fixed", "mean": 2}}
REGION = {key: OUTAGE[key] for key in ("up", "down")} | {"kind": "regional", "center": [0, 0], "radius": 100}


def test_who_goes_down_and_comes_up_is_counted(tmp_path):
    access = PACKETS | {"outages": [OUTAGE]}
    scenario = made(users=20, duration=500, access=access)
    told, base = (
        cost_estimate.estimate_workload(scenario),
        cost_estimate.estimate_workload(made(users=20, duration=500, access=PACKETS)),
    )
    changes = netfl.trace(scenario, tmp_path / "run").events["kind"].isin(["down", "up"]).sum()
    assert changes == pytest.approx(4000, rel=0.02)
    assert (told.seconds - base.seconds, told.disk - base.disk) == pytest.approx((4000 * 3e-7, 8 * 4000))
    silent = cost_estimate.estimate_workload(made(users=20, duration=500, access=access, record="none"))
    assert (silent.seconds - base.seconds, silent.disk) == pytest.approx((4000 * 3e-7, 0))
    access = NETWORK | {"outages": [OUTAGE | {"nodes": [1, 3]}, OUTAGE | {"nodes": "towers"}, REGION]}
    airtime_s = 1000 / 50e3
    broken, sound = (
        made(users=20, rounds=100, access=spec).access.estimate_cost(20, 100, None, counted=False)
        for spec in (access, NETWORK)
    )
    assert broken.outage_changes == pytest.approx(4 * 0.4 * 100 * airtime_s)
    assert sound.outage_changes == 0


def test_outages_too_quick_for_any_time_are_refused_before_they_start():
    quick = OUTAGE | {"up": {"law": "fixed", "mean": "1 us"}, "down": {"law": "fixed", "mean": "1 us"}}
    with pytest.raises(ScenarioError, match="would not end in a year"):
        cost_estimate.check(made(users=20, duration=1e7, access=PACKETS | {"outages": [quick]}), learning=False)


@pytest.mark.parametrize("key", ["users", "rounds", "replicas"])
def test_numbers_beyond_all_machines_are_faults_at_once(key):
    with pytest.raises(ScenarioError, match=f"{key}: should be less than"):
        made(**DIRECT | {key: 10**30})


def test_a_large_run_is_warned_of(tmp_path, monkeypatch):
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nusers: 3\nrounds: 4\naccess: {kind: bernoulli, probability: 0.5}\n")

    def traced(*words):
        result = CliRunner().invoke(app, ["trace", str(path), "--out", str(tmp_path / f"run{len(words)}"), *words])
        assert result.exit_code == 0
        return result.output

    assert "large: " not in traced()
    monkeypatch.setattr(cost_estimate, "LONG_S", 1e-9)
    assert "large: about 12 updates or packets, 150 MB of memory" in traced("--seed", "1")
    assert "large: " not in traced("--quiet")


def test_an_endless_run_is_refused_and_not_warned_of_too(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nusers: 3\nrounds: 4\naccess: {kind: bernoulli, probability: 0.5}\n")
    settings = ("users=1000000", "rounds=1000000000", "record=none")
    words = [word for setting in settings for word in ("--set", setting)]
    result = CliRunner().invoke(app, ["trace", str(path), "--out", str(tmp_path / "run"), *words])
    assert result.exit_code == 2
    assert "large: " not in result.output
    assert "the run would not end in a year: about 1e+15 updates or packets, at least 31.7 years" in result.output


def test_rounds_that_are_only_counted_are_told_as_the_little_that_they_take():
    said = {"access": {"kind": "stationary", "rho": {"zipf": 1}}, "users": 10**6, "rounds": 10**6, "record": "none"}
    assert not cost_estimate.estimate_workload(made(**said), learning=False).is_large
    assert cost_estimate.estimate_workload(made(**said | {"record": {"users": 1000}}), learning=False).is_large
    held_back = {"kind": "adversarial", "of": said["access"], "users": [1], "every": 2}
    assert cost_estimate.estimate_workload(made(**said | {"access": held_back}), learning=False).is_large
