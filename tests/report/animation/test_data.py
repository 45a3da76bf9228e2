"""What a replay takes from the tables of a run, against the tables."""

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
    """The arrays of packed data, by name, as a page reads them."""
    told = json.loads(text)
    raw, at, found = zlib.decompress(base64.b64decode(told["block"])), 0, {}
    for name, kind, length in told["arrays"]:
        assert at % int(kind[1]) == 0
        found[name] = np.frombuffer(raw, f"<{kind}", length, at)
        at += found[name].nbytes
    return told, found


def test_arrays_come_back_as_they_were():
    arrays = {"a": np.array([1, 2, 3], np.uint8), "b": np.array([1.5, np.nan], np.float32), "c": np.zeros(0, np.uint16)}
    told, found = unpacked(pack_data({"name": "n"}, arrays))
    assert told["name"] == "n"
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_packed_data_cannot_end_their_element():
    text = pack_data({"learners": ["</script><script>alert(1)</script>"]}, {})
    assert "<" not in text
    assert json.loads(text)["learners"] == ["</script><script>alert(1)</script>"]


def test_times_are_kept_to_a_tick():
    times = np.array([0.0, 0.1, 0.1, 7.3, 50.0])
    back = np.cumsum(tick_differences(times, 50.0).astype(np.int64)) * 50.0 / TICKS
    np.testing.assert_allclose(back, times, atol=50.0 / TICKS)


def test_a_film_that_is_cut_says_so_and_ends_there(make, monkeypatch):
    monkeypatch.setattr(events, "MAX_EVENTS", 30)
    view = RunData(make(users=8, rounds=40, replicas=2))
    film = AnimationData(view)
    assert film.end_s < view.end_s
    said = page.caption("replay", film)
    assert "Shown: replica 0 of 2." in said
    assert "left out" in said
    assert f"of {clock(view.end_s)}: a page has no room for more events" in said
    _, arrays = unpacked(pack_data(film.header(), film.arrays()))
    assert arrays["event_time"].sum(dtype=np.int64) <= TICKS


def test_its_rounds_and_deliveries_are_those_of_the_tables(make):
    run = make(users=8, rounds=40, replicas=2)
    film = AnimationData(RunData(run))
    _, arrays = unpacked(pack_data(film.header(), film.arrays()))
    own = run.rounds[run.rounds["replica"] == 0]
    back = {
        name: np.cumsum(arrays[name].astype(np.int64)) * film.end_s / TICKS
        for name in film.arrays()
        if name in {"round_open", "round_close", "score_time", "user_score_time"}
    }
    np.testing.assert_allclose(back["round_open"], own["opened_s"], atol=1e-4)
    np.testing.assert_allclose(back["round_close"], own["closed_s"], atol=1e-4)
    events = run.events[(run.events["replica"] == 0) & (run.events["kind"] == "delivered")]
    assert arrays["delivered_user"].tolist() == events["user"].tolist()
    metrics = run.metrics[(run.metrics["replica"] == 0) & (run.metrics["metric"] == "accuracy")]
    whole = metrics[(metrics["group"] == "") & (metrics["learner"] == "FedAvg")].sort_values("time_s")
    np.testing.assert_allclose(back["score_time"], whole["time_s"], atol=1e-4)
    np.testing.assert_allclose(arrays["score"][: len(whole)], whole["value"], rtol=1e-6)
    last = metrics[(metrics["round"] == 40) & (metrics["learner"] == "FED-CVaR-AVG")].set_index("group")["value"]
    shares = arrays["user_score"].reshape(-1, 2, 8)[-1, 1] / 200
    np.testing.assert_allclose(shares, [last[f"user:{user}"] for user in range(8)], atol=0.0026)


def test_accuracies_are_thinned_where_there_are_too_many(make, monkeypatch):
    monkeypatch.setattr(data, "MAX_USER_VALUES", 50)
    film = AnimationData(RunData(make(users=8, rounds=40, replicas=1)))
    assert f"one evaluation in {film.scores.stride}" in page.caption("replay", film)
    assert film.arrays()["user_score"].size <= 50 + 16


def test_without_events_rounds_and_deliveries_tell(make):
    run = make(users=8, rounds=40, replicas=1, network=False)
    film = AnimationData(RunData(run))
    assert film.events["kind"].value_counts().to_dict() == {"broadcast": 40, "delivered": 40}
    assert film.paths["user"].tolist() == run.deliveries["user"].tolist()
    assert "Users have no positions in this run" in page.caption("replay", film)


@pytest.mark.parametrize("users", [1, 8, 60, 61, 10_000])
def test_users_without_places_stand_apart_around_the_server(users):
    places = circular_positions(users)
    assert places.shape == (users, 2)
    reach = np.hypot(*places.T)
    assert (reach > 0.15).all()
    assert (reach <= 1.0 + 1e-12).all()
    assert len(np.unique(np.round(places, 6), axis=0)) == users


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    """A finished trace of users who move."""
    folder = tmp_path_factory.mktemp("walkers")
    (folder / "walkers.yaml").write_text(WALKERS)
    return netfl.trace(netfl.load(folder / "walkers.yaml"), folder / "run")


def test_links_and_moving_users_are_those_of_the_scenario(walkers):
    places = AnimationData(RunData(walkers)).layout
    assert places.has_scenario_links
    assert {frozenset(places.names[end] for end in link) for link in places.links} == {
        frozenset(link) for link in [("server", "router:0"), ("router:0", "tower:0"), ("router:0", "tower:1")]
    }
    ways = {name: places.names[to] for name, to in zip(places.names, places.next_hops, strict=True)}
    assert ways == {"server": "server", "router:0": "server", "tower:0": "router:0", "tower:1": "router:0"}
    frames = places.frames(100.0)
    np.testing.assert_allclose(frames[0], walkers.users[["x_m", "y_m"]])
    steps = np.hypot(*(frames[1:] - frames[:-1]).transpose(2, 0, 1)) / (100.0 / (len(frames) - 1))
    assert steps.max() <= 3.0 + 1e-9
    assert steps.max() > 1.0


def test_a_scenario_that_is_no_use_any_more_leaves_what_the_tables_tell(walkers):
    (walkers.folder / "scenario.yaml").write_text("name: walkers\nusers: 3\nrounds: 5\n")
    film = AnimationData(RunData(netfl.open_run(walkers.folder)))
    assert not film.layout.has_scenario_links
    assert {places for link in film.layout.links for places in link} == set(range(4))
    assert "no longer matches this network" in page.caption("replay", film)


def test_a_run_in_which_nothing_happened_has_no_replay(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    assert animation.animation_section(RunData(netfl.open_run(tmp_path))) is None
