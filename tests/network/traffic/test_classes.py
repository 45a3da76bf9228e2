"""Several classes of traffic: their names, and their metrics."""

import pytest
from support.error_messages import assert_messages

import netfl
from netfl.errors import ScenarioError
from netfl.simulation.setup import warnings

VIDEO = {"name": "video", "kind": "poisson", "rate": 0.5, "size": {"mean": "500 B"}, "destination": "tower"}
METER = {"kind": "constant", "every": 5, "size": {"mean": "50 B"}}
TOWERS = {"kind": "poisson", "rate": 0.2, "source": "towers", "size": {"mean": "100 B"}}
NETWORK = {
    "kind": "network",
    "topology": {"kind": "star", "radius": "300 m", "rate": "100 kbps"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "10 dB", "rate": "50 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.1, "max_attempts": 3},
}
ROUNDS = {
    "round": {"kind": "first", "m": 2},
    "compute": {"speed": 10, "samples": 5},
    "broadcast_rate": "1 Mbps",
    "update_size": "1 kB",
}
SUMS = ("delivered", "throughput_bps", "offered_bps", "lost.given_up")


def scenario(*traffic, **overrides):
    access = NETWORK | {"traffic": [*traffic]}
    return {"name": "classes", "users": 6, "duration": 60.0, "warmup": 10.0, "access": access} | overrides


def trace(tmp_path, *traffic, **overrides):
    return netfl.trace(netfl.load(scenario(*traffic, **overrides)), tmp_path / "run", progress=False)


def test_metrics_of_classes_add_up(tmp_path):
    run = trace(tmp_path, VIDEO, METER, TOWERS, record={"events": "all", "attempts": True})
    for name in SUMS:
        classes = [run.summary[f"{name}.{each}"] for each in ("video", "constant", "poisson:1")]
        assert sum(classes) == pytest.approx(run.summary[name]), name
        assert name == "lost.given_up" or min(classes) > 0
    delivered = run.events[(run.events["kind"] == "delivered") & (run.events["time_s"] >= 10.0)]
    counts = delivered.groupby("traffic", observed=True).size()
    assert {f"delivered.{name}": count for name, count in counts.items()} == {
        name: value for name, value in run.summary.items() if name.startswith("delivered.") and "ci95" not in name
    }
    assert set(run.attempts["traffic"]) == {"video", "constant"}
    assert (run.attempts.groupby("traffic", observed=True)["bits"].unique().map(list) == [[400.0], [4000.0]]).all()
    assert (run.attempts["base"] == -1).all()
    forwarded = run.events[run.events["kind"] == "forwarded"]
    assert set(forwarded["traffic"]) == {"constant", "poisson:1"}
    assert (forwarded.loc[forwarded["traffic"] == "poisson:1", "user"] == -1).all()


def test_one_class_has_no_metrics_of_its_own(tmp_path):
    run = trace(tmp_path, VIDEO)
    assert not [name for name in run.summary if "video" in name]
    assert set(run.events["traffic"]) == {"video"}


@pytest.mark.slow
def test_classes_without_events_have_the_same_metrics(tmp_path):
    """Traffic of towers is simulated without events; the metrics of its classes are those with events."""
    second = TOWERS | {"name": "alarms", "rate": 1.0}
    access = {"kind": "network", "topology": NETWORK["topology"], "traffic": [TOWERS, second]}
    fast = trace(tmp_path / "fast", access=access, record="none")
    events = trace(tmp_path / "events", access=access, record="all")
    assert {name: pytest.approx(value) for name, value in events.summary.items()} == fast.summary
    assert fast.summary["delivered.alarms"] > 2 * fast.summary["delivered.poisson"]
    assert fast.summary["jain.alarms"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("source", ["users", "towers"])
@pytest.mark.parametrize(
    "model", [{"kind": "poisson", "load": 1e300}, {"kind": "on_off", "every": 1, "on": 1e-12, "off": 1e-12}]
)
def test_too_many_packets_per_second_are_refused_before_the_run(tmp_path, model, source):
    with pytest.raises(ScenarioError, match=r"access\.traffic\.1: \S+ packets per second .* lower its load or rate"):
        trace(tmp_path, VIDEO, model | {"source": source})


def test_outcomes_of_many_packets_are_recorded_within_a_window(tmp_path, monkeypatch):
    """As many as are kept at most, so that no window needs more memory than another; the tables are the same."""
    without_events = netfl.load("validation/finite_tandem", {"duration": 10, "record": ["delivered", "dropped"]})
    whole = trace(tmp_path / "whole", VIDEO, METER, TOWERS)
    whole_stretches = netfl.trace(without_events, tmp_path / "stretches", progress=False)
    monkeypatch.setattr("netfl.network.event_log._MAX_PACKET_VALUES", 6)
    parts = trace(tmp_path / "parts", VIDEO, METER, TOWERS)
    part_stretches = netfl.trace(without_events, tmp_path / "part_stretches", progress=False)
    assert parts.manifest["digests"] == whole.manifest["digests"]
    assert part_stretches.manifest["digests"] == whole_stretches.manifest["digests"]


def test_classes_beside_updates(tmp_path):
    access = NETWORK | ROUNDS | {"traffic": [VIDEO, METER]}
    overrides = {"duration": None, "warmup": 0.0, "rounds": 8}
    run = trace(tmp_path, access=access, record={"events": "all", "attempts": True}, **overrides)
    assert set(run.attempts["traffic"]) == {"", "video", "constant"}
    assert ((run.attempts["base"] >= 0) == (run.attempts["traffic"] == "")).all()
    assert run.summary["traffic.delivered"] == sum(
        run.summary[f"traffic.delivered.{name}"] for name in ("video", "constant")
    )


def test_names_are_distinct():
    with pytest.raises(ScenarioError) as error:
        netfl.load(scenario(VIDEO, METER | {"name": "video"}))
    assert_messages(str(error.value).splitlines(), ["access.traffic.1.name: … traffic.0 … video … name of its own"])


def test_overload_of_all_classes_together():
    """Each class alone fits into the frames that the cell can carry; both do not."""
    half = {"kind": "poisson", "size": {"mean": "500 B"}, "rate": 1.3}
    for traffic, is_overloaded in (([half], False), ([half, half], True)):
        access = NETWORK | ROUNDS | {"mac": {"kind": "tdma"}, "update_size": "500 B", "traffic": traffic}
        network = netfl.load({"name": "x", "users": 6, "rounds": 2, "access": access})
        assert any("overloaded" in text for text in warnings(network)) == is_overloaded
