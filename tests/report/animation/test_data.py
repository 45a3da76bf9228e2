"""The data of a replay compared with the tables of the run."""

import base64
import json
import zlib

import numpy as np
import pytest

import netfl
from netfl.report import animation, page
from netfl.report.animation import data, events
from netfl.report.animation.data import TICKS, AnimationData, pack_data, tick_differences
from netfl.report.animation.layout import circular_positions
from netfl.report.run_data import RunData
from netfl.results.formatting import clock

WALKERS = """
name: walkers
seed: 4
users: 3
rounds: 5
record: all
access:
  kind: network
  topology: {kind: tree, fanout: [1, 2], ring: 400 m, radius: 600 m, rate: 200 kbps, delay: 20 ms}
  radio: {power: 14 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
  channel: [{kind: log_distance, exponent: 3.0, reference_distance: 100 m, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: -7.5 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.2}
  motion: {kind: random_waypoint, radius: 600 m, speed: [1, 3], pause: [0, 1 min]}
  round: {kind: first, m: 1}
  compute: {speed: 100, samples: 200}
  broadcast_rate: 50 kbps
  update_size: 40 kbit
"""


def unpacked(text):
    """Return the header and the arrays of packed data, as a page reads them."""
    header = json.loads(text)
    raw, at, found = zlib.decompress(base64.b64decode(header["block"])), 0, {}
    for name, kind, length in header["arrays"]:
        assert at % int(kind[1]) == 0
        found[name] = np.frombuffer(raw, f"<{kind}", length, at)
        at += found[name].nbytes
    return header, found


def test_arrays_survive_packing():
    arrays = {"a": np.array([1, 2, 3], np.uint8), "b": np.array([1.5, np.nan], np.float32), "c": np.zeros(0, np.uint16)}
    header, found = unpacked(pack_data({"name": "n"}, arrays))
    assert header["name"] == "n"
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_packed_data_is_escaped():
    text = pack_data({"learners": ["</script><script>alert(1)</script>"]}, {})
    assert "<" not in text
    assert json.loads(text)["learners"] == ["</script><script>alert(1)</script>"]


def test_times_are_accurate_to_a_tick():
    times = np.array([0.0, 0.1, 0.1, 7.3, 50.0])
    back = np.cumsum(tick_differences(times, 50.0).astype(np.int64)) * 50.0 / TICKS
    np.testing.assert_allclose(back, times, atol=50.0 / TICKS)


def test_truncated_replay_is_marked(make, monkeypatch):
    monkeypatch.setattr(events, "MAX_EVENTS", 30)
    view = RunData(make(users=8, rounds=40, replicas=2))
    replay = AnimationData(view)
    assert replay.end_s < view.end_s
    caption = page.caption("replay", replay)
    assert "Shown: replica 0 of 2." in caption
    assert "left out" in caption
    assert f"of {clock(view.end_s)}: a page has no room for more events" in caption
    _, arrays = unpacked(pack_data(replay.header(), replay.arrays()))
    assert arrays["event_time"].sum(dtype=np.int64) <= TICKS


def test_rounds_and_deliveries_match_tables(make):
    run = make(users=8, rounds=40, replicas=2)
    replay = AnimationData(RunData(run))
    _, arrays = unpacked(pack_data(replay.header(), replay.arrays()))
    rounds_ = run.rounds[run.rounds["replica"] == 0]
    back = {
        name: np.cumsum(arrays[name].astype(np.int64)) * replay.end_s / TICKS
        for name in replay.arrays()
        if name in {"round_open", "round_close", "score_time", "user_score_time"}
    }
    np.testing.assert_allclose(back["round_open"], rounds_["opened_s"], atol=1e-4)
    np.testing.assert_allclose(back["round_close"], rounds_["closed_s"], atol=1e-4)
    events = run.events[(run.events["replica"] == 0) & (run.events["kind"] == "delivered")]
    assert arrays["delivered_user"].tolist() == events["user"].tolist()
    metrics = run.metrics[(run.metrics["replica"] == 0) & (run.metrics["metric"] == "accuracy")]
    whole = metrics[(metrics["group"] == "") & (metrics["learner"] == "FedAvg")].sort_values("time_s")
    np.testing.assert_allclose(back["score_time"], whole["time_s"], atol=1e-4)
    np.testing.assert_allclose(arrays["score"][: len(whole)], whole["value"], rtol=1e-6)
    last = metrics[(metrics["round"] == 40) & (metrics["learner"] == "FED-CVaR-AVG")].set_index("group")["value"]
    shares = arrays["user_score"].reshape(-1, 2, 8)[-1, 1] / 200
    np.testing.assert_allclose(shares, [last[f"user:{user}"] for user in range(8)], atol=0.0026)


def test_accuracies_are_thinned(make, monkeypatch):
    monkeypatch.setattr(data, "MAX_USER_VALUES", 50)
    replay = AnimationData(RunData(make(users=8, rounds=40, replicas=1)))
    assert f"one evaluation in {replay.scores.stride}" in page.caption("replay", replay)
    assert replay.arrays()["user_score"].size <= 50 + 16


def test_replay_without_events_uses_rounds_and_deliveries(make):
    run = make(users=8, rounds=40, replicas=1, network=False)
    replay = AnimationData(RunData(run))
    assert replay.events["kind"].value_counts().to_dict() == {"broadcast": 40, "delivered": 40}
    assert replay.paths["user"].tolist() == run.deliveries["user"].tolist()
    assert "Users have no positions in this run" in page.caption("replay", replay)


@pytest.mark.parametrize("users", [1, 8, 60, 61, 10_000])
def test_users_without_positions_are_on_a_circle(users):
    places = circular_positions(users)
    assert places.shape == (users, 2)
    reach = np.hypot(*places.T)
    assert (reach > 0.15).all()
    assert (reach <= 1.0 + 1e-12).all()
    assert len(np.unique(np.round(places, 6), axis=0)) == users


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    """A finished trace of moving users."""
    folder = tmp_path_factory.mktemp("walkers")
    (folder / "walkers.yaml").write_text(WALKERS)
    return netfl.trace(netfl.load(folder / "walkers.yaml"), folder / "run")


def test_links_and_motion_match_scenario(walkers):
    places = AnimationData(RunData(walkers)).layout
    assert places.has_scenario_links
    assert {frozenset(places.names[end] for end in link) for link in places.links} == {
        frozenset(link) for link in [("server", "router:0"), ("router:0", "tower:0"), ("router:0", "tower:1")]
    }
    next_hops = {name: places.names[to] for name, to in zip(places.names, places.next_hops, strict=True)}
    assert next_hops == {"server": "server", "router:0": "server", "tower:0": "router:0", "tower:1": "router:0"}
    frames = places.frames(100.0)
    np.testing.assert_allclose(frames[0], walkers.users[["x_m", "y_m"]])
    steps = np.hypot(*(frames[1:] - frames[:-1]).transpose(2, 0, 1)) / (100.0 / (len(frames) - 1))
    assert steps.max() <= 3.0 + 1e-9
    assert steps.max() > 1.0


def test_replay_without_usable_scenario_uses_tables(walkers):
    (walkers.folder / "scenario.yaml").write_text("name: walkers\nusers: 3\nrounds: 5\n")
    replay = AnimationData(RunData(netfl.open_run(walkers.folder)))
    assert not replay.layout.has_scenario_links
    assert {places for link in replay.layout.links for places in link} == set(range(4))
    assert "no longer matches this network" in page.caption("replay", replay)


def test_empty_run_has_no_replay(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    assert animation.animation_section(RunData(netfl.open_run(tmp_path))) is None
