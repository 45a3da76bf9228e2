"""What the network did: networks in which it is known which cause costs a user its deliveries."""

import copy
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.diagnosis.loss_attribution import explain
from netfl.errors import ScenarioError
from netfl.scenario import yaml_document as documents
from netfl.types import OUTCOMES

PLAIN = {
    "name": "known",
    "seed": 5,
    "users": 6,
    "rounds": 120,
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 Gbps", "delay": 0},
        "mac": {"kind": "tdma"},
        "radio": {"power": "0 dBm", "bandwidth": "125 kHz"},
        "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 kbps"},
        "compute": {"speed": 1.0, "samples": 1},
        "broadcast_rate": "1000 Gbps",
        "update_size": 1000.0,
        "round": {"kind": "first", "deadline": 20.0},
    },
}
"""Users send 1 s each, in a frame of 6 s; everybody is heard in every round of 20 s."""


def run(tmp_path, name="run", **said):
    """A trace of the plain world, some keys of its access said otherwise; those in capitals are the scenario's."""
    data = copy.deepcopy(PLAIN)
    data |= {key.lower(): said.pop(key) for key in [*said] if key.isupper()}
    data["access"] |= said
    path = tmp_path / f"{name}.yaml"
    path.write_text(documents.dump(data))
    return netfl.trace(netfl.load(path), tmp_path / name)


@pytest.mark.slow
def test_nothing_costs_anything(tmp_path):
    told = explain(run(tmp_path), rare=2)
    assert [one.deliveries for one in told.users] == [120, 120]
    assert told.causes == ("contention", "fading", "queue")
    assert set(told.inactive) == {"outage", "compute"}
    assert told.users[0].sentence.endswith("no cause costs it more deliveries than chance explains")
    assert told.notes == ()


def far(tmp_path):
    """Users at 100 m, and user 3 at 700 m, where every second attempt fades; each has one."""
    fades = [*PLAIN["access"]["channel"], {"kind": "rayleigh", "coherence": "1 s"}]
    topology = PLAIN["access"]["topology"] | {"distances": [100, 100, 100, 1500, 100, 100]}
    del topology["radius"]
    return {"topology": topology, "channel": fades, "mac": {"kind": "tdma", "max_attempts": 1}}


def slow(tmp_path):
    """User 3 trains for 18 s of 20, the others for 1 s."""
    return {"compute": {"speed": [1, 1, 1, 1 / 18.5, 1, 1], "samples": 1}}


def away(tmp_path):
    """User 3 is cut off for 50 of every 60 s."""
    file = tmp_path / "away.csv"
    rows = [f"3,{start},{start + 50}" for start in range(0, 2400, 60)]
    file.write_text("node,start_s,end_s\n" + "\n".join(rows) + "\n")
    return {"outages": [{"kind": "calendar", "file": str(file)}]}


def narrow(tmp_path):
    """User 3 has a tower of its own, whose link takes 1 s for a packet, and one comes every 0.8 s; one may wait."""
    at = {"server": [0, 0], "near": [0, 0], "narrow": [5000, 0]}
    nodes = {name: {"role": "server" if name == "server" else "tower", "position": xy} for name, xy in at.items()}
    links = [{"between": [name, "server"], "rate": rate} for name, rate in (("near", "1 Gbps"), ("narrow", "1 kbps"))]
    placement = {"kind": "listed", "positions": [[0, 50]] * 3 + [[5000, 50]] + [[0, 50]] * 2}
    return {
        "topology": {"kind": "inline", "nodes": nodes, "links": links, "placement": placement},
        "traffic": {
            "kind": "poisson",
            "source": "towers",
            "rate": 5.0,
            "size": {"distribution": "fixed", "mean": 1000},
        },
        "queue": {"kind": "drop_tail", "capacity": 1},
    }


def crowd(tmp_path):
    """Everybody sends in each slot with p = 0.4 in rounds of 8 s: ALOHA with too many users."""
    return {"mac": {"kind": "slotted_aloha", "probability": 0.6}, "round": {"kind": "first", "deadline": 8.0}}


@pytest.mark.parametrize(
    ("world", "cause"), [(far, "fading"), (slow, "compute"), (away, "outage"), (narrow, "queue"), (crowd, "contention")]
)
@pytest.mark.slow
def test_the_cause_is_named(tmp_path, world, cause):
    found = run(tmp_path, **world(tmp_path))
    told = explain(found, rare=1)
    assert told.notes == ()
    one = told.users[0]
    assert one.user == 3 or cause == "contention"
    assert one.main == cause
    assert one.shares[cause] > 0.8
    heard = Counter(found.deliveries["user"])
    assert one.deliveries == heard[one.user] == min(heard[user] for user in range(6))
    assert one.fair == pytest.approx(sum(heard.values()) / 6)
    own = found.events[(found.events["user"] == one.user) & found.events["kind"].isin(OUTCOMES)]
    assert dict(one.outcomes) == dict(Counter(own["kind"].astype(str)))
    assert f"{cause} (" in one.sentence
    assert f"without {cause}, it would have delivered {one.without[cause]} updates" in one.sentence


@pytest.mark.slow
def test_more_replicas_and_named_users(tmp_path):
    found = run(tmp_path, **slow(tmp_path), REPLICAS=3)
    every, second = explain(found, [3, 0]), explain(found, [3], replica=1)
    assert [one.user for one in every.users] == [3, 0]
    assert (every.users[0].rounds, second.users[0].rounds) == (360, 120)
    counts = Counter(found.deliveries[found.deliveries["replica"] == 1]["user"])
    assert second.users[0].deliveries == counts[3]
    assert every.notes == ("The table below counts the deliveries of all replicas together.",)
    assert second.notes == ()


@pytest.mark.slow
def test_the_same_again(tmp_path):
    found = run(tmp_path, **crowd(tmp_path))
    assert explain(found) == explain(found)


@pytest.mark.slow
def test_causes_of_which_each_is_enough(tmp_path):
    """User 3 is slow and cut off: to be spared one of both does not help."""
    found = run(tmp_path, **slow(tmp_path) | away(tmp_path) | {"round": {"kind": "first", "deadline": 15.0}})
    one = explain(found, [3]).users[0]
    assert one.main is None or one.without_all > max(one.without.values())


@pytest.mark.slow
def test_a_run_that_is_a_what_if_itself(tmp_path):
    found = run(tmp_path, **slow(tmp_path), exempt={"compute": [3]})
    one = explain(found, [3]).users[0]
    assert one.deliveries == 120
    assert one.gains["compute"] == 0


@pytest.mark.slow
def test_what_is_recorded_may_be_less_than_what_is_told(tmp_path):
    found = run(tmp_path, **far(tmp_path), RECORD="none")
    assert found.events.empty
    assert explain(found, [3]).users[0].outcomes["faded"] > 20


@pytest.mark.slow
def test_another_network_than_the_recorded_one_is_told(tmp_path):
    found = run(tmp_path)
    path = found.folder / "scenario.yaml"
    path.write_text(path.read_text().replace("seed: 5", "seed: 6").replace("deadline: 20.0", "deadline: 5.0"))
    assert explain(found).notes[0].startswith("The replayed network does not reproduce the deliveries of the run")


@pytest.mark.slow
def test_a_server_that_chooses_is_told(tmp_path):
    told = explain(run(tmp_path, selection={"kind": "uniform", "m": 2}))
    assert told.notes == ("The server does not select all users in every round, which also costs deliveries.",)


@pytest.mark.slow
def test_causes_that_cost_nothing_are_not_named(tmp_path):
    """Users who train for next to the same time, and contend: without that little the plays part, by chance alone."""
    alike = {
        "mac": {"kind": "slotted_aloha", "probability": 0.3},
        "round": {"kind": "first", "m": 2},
        "compute": {"speed": 1.0, "samples": 1, "spread": 0.002},
    }
    named, beyond = Counter(), 0
    for seed in range(6):
        told = explain(run(tmp_path, f"run{seed}", **alike, SEED=seed, USERS=8))
        named.update(cause for one in told.users for cause in one.named)
        beyond += any(one.gains["compute"] > 2 * (one.deliveries + 1) ** 0.5 for one in told.users)
    assert beyond >= 2
    assert named["contention"] >= 2
    assert named.total() - named["contention"] <= 1


def refused(found, **how):
    with pytest.raises(ScenarioError) as error:
        explain(found, **how)
    return str(error.value)


@pytest.mark.slow
def test_what_cannot_be_explained(tmp_path):
    direct = {"kind": "stationary", "rho": "random_simplex"}
    whole = run(tmp_path)
    data = {key: PLAIN[key] for key in ("seed", "users", "rounds")}

    def of(name, access):
        path = tmp_path / f"{name}.yaml"
        path.write_text(documents.dump(data | {"name": name, "access": access}))
        return netfl.trace(netfl.load(path), tmp_path / name)

    assert "is a direct access without a network" in refused(of("direct", direct))
    assert "replays the deliveries" in refused(of("again", {"kind": "replay", "run": str(whole.folder)}))
    assert "no such users" in refused(whole, users=[2, 9])
    assert "no such replica" in refused(whole, replica=1)
    (whole.folder / "manifest.json").write_text('{"status": "interrupted"}')
    assert "netfl resume" in refused(netfl.open_run(whole.folder))


def test_traffic_alone_and_closed_loops_cannot_be_explained(tmp_path):
    packets = {"kind": "poisson", "rate": 1.0, "size": {"distribution": "fixed", "mean": 1000}}
    nothing = dict.fromkeys(("round", "compute", "broadcast_rate", "update_size"))
    timed = run(tmp_path, "timed", ROUNDS=None, DURATION=50.0, traffic=packets, **nothing)
    assert "has a duration instead of rounds" in refused(timed)
    path = timed.folder / "scenario.yaml"
    path.write_text(netfl.load("scenarios/closed_loop.yaml").to_yaml())
    assert "depend on the training" in refused(timed)


def shown(folder, *options, width=80):
    """What ``netfl ram`` prints, or why it refuses, and how it ends."""
    told = CliRunner().invoke(app, ["ram", str(folder), *options], env={"COLUMNS": str(width)})
    return told.exit_code, told.stdout or told.stderr


@pytest.mark.slow
def test_the_command_line(tmp_path):
    found = run(tmp_path, **far(tmp_path) | crowd(tmp_path))
    code, plain = shown(found.folder)
    assert code == 0
    code, narrow = shown(found.folder, "--explain", "--rare", "2")
    assert code == 0
    assert narrow.startswith(plain.splitlines()[0])
    assert "deliveries in 120 rounds, without one cause for this user" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert (
        "%)" in shown(found.folder, "--explain", "--rare", "2", width=120)[1].split("for this user")[1].split("User")[0]
    )
    flat = json.loads(shown(found.folder, "--explain", "--rare", "2", "--json")[1])
    assert flat["explain.main"] == ["contention", "contention"]
    assert flat["explain.user"][0] == found.deliveries["user"].value_counts().idxmin()
    assert not [name for name in json.loads(shown(found.folder, "--json")[1]) if name.startswith("explain")]


@pytest.mark.slow
def test_all_replicas_are_explained_together_unless_one_is_named(tmp_path):
    found = run(tmp_path, **slow(tmp_path), REPLICAS=2)
    code, told = shown(found.folder, "--explain", "--rare", "1")
    assert code == 0
    words = " ".join(told.split())
    assert "This is replica 0 of 2 replicas" in words
    assert "User 3 delivered no update in 240 rounds" in words
    assert "of all replicas together" in words
    words = " ".join(shown(found.folder, "--explain", "--rare", "1", "--replica", "1")[1].split())
    assert "in 120 rounds" in words
    assert "of all replicas together" not in words


def test_a_table_cannot_be_explained(tmp_path):
    table = tmp_path / "heard.csv"
    table.write_text("round,user\n" + "\n".join(f"{one},{one % 3}" for one in range(1, 60)) + "\n")
    code, told = shown(table, "--explain")
    assert code == 2
    assert "--explain: a table of deliveries has no network to replay" in told


@pytest.mark.slow
def test_a_user_is_explained_alike_whoever_is_explained_beside_it(tmp_path):
    """Under TDMA one of several users who are all spared contention wins each round, and the others gain nothing."""
    found = run(tmp_path, round={"kind": "first", "m": 1}, compute={"speed": 1.0, "samples": 1, "jitter": 0.3})
    alone, others = explain(found, rare=1), explain(found, rare=3)
    assert alone.users[0] == others.users[0]
    assert [one.main for one in others.users] == ["contention"] * 3
    assert explain(found, [alone.users[0].user]).users[0].without == alone.users[0].without


def crowded_csma(tmp_path):
    """12 users by CSMA/CA, of whom the first ends a round, after some 2.4 s; user 7 trains for 3.5 s."""
    speeds = [1 / 2.47] * 12
    speeds[7] = 1 / 3.5
    changes = {
        "radio": None,
        "channel": [],
        "reception": None,
        "mac": {"kind": "csma_ca"},
        "compute": {"speed": speeds, "samples": 1, "jitter": 0.02},
        "round": {"kind": "first", "m": 1},
        "update_size": 12_000.0,
    }
    return run(tmp_path, **changes, USERS=12, ROUNDS=50, RECORD="all")


@pytest.mark.slow
def test_a_user_that_never_gets_to_send_trains_for_too_long(tmp_path):
    """To train as the fastest brings it a fair share, which is no more than chance may bring to the rarest user."""
    found = crowded_csma(tmp_path)
    one = explain(found, rare=4).users[0]
    kinds = Counter(found.events[found.events["user"] == 7]["kind"])
    assert (one.user, one.deliveries, kinds["received"], kinds["trained"], kinds["sent"]) == (7, 0, 50, 0, 0)
    assert one.main == "compute"
    assert one.p["compute"] > 0.05
    assert (one.training.begun, one.training.finished, one.training.train_s) == (50, 0, pytest.approx(3.5))
    assert one.training.round_s == pytest.approx(2.4, rel=0.02)
    assert f"it trains for 3.5 s and rounds close after {one.training.round_s:.3g} s (median)" in one.sentence


def test_what_is_played_is_told_before_it_is(tmp_path):
    told = []
    found = run(tmp_path, **slow(tmp_path), ROUNDS=3)  # contention, fading, queue, compute, and all of them
    explain(found, [3, 1, 3], on_progress=lambda *progress: told.append(progress))
    assert [done for done, _, _ in told] == [*range(11)]
    assert {plays for _, plays, _ in told} == {11}
    assert [what for _, _, what in told][:3] == ["unchanged", "user 3 without contention", "user 3 without fading"]
    assert told[-1][2] == "user 1 without all causes"


def test_the_command_line_explains_the_users_that_are_named(tmp_path):
    found = run(tmp_path, **slow(tmp_path), ROUNDS=20)
    told = CliRunner().invoke(app, ["ram", str(found.folder), "--explain", "--user", "3", "--user", "1"])
    assert told.exit_code == 0
    assert "replaying the network 11 times: once unchanged" in " ".join(told.stderr.split())
    assert "play" not in told.stdout
    words = " ".join(told.stdout.split())
    assert words.index("User 3 delivered") < words.index("User 1 delivered")
    assert "trainings finished: 20 of 20, 18.5 s each; a round lasts" in words
    code, told = shown(found.folder, "--explain", "--user", "6")
    assert (code, "no such users" in told) == (2, True)
    code, told = shown(found.folder, "--user", "3")
    assert (code, told) == (2, "--user: has no effect without --explain ([3]); add --explain\n")
