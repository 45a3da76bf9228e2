"""Loss attribution in networks with a known cause of lost deliveries."""

import copy
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.core.formats import FORMAT
from netfl.diagnosis.explanation import Standing, explain
from netfl.diagnosis.explanation.rarity import rarity_of
from netfl.diagnosis.explanation.replays import Evidence, Replays
from netfl.errors import ScenarioError
from netfl.report.run_data import read_run_data
from netfl.report.summary_text import participation_sentences
from netfl.scenario import yaml_document as documents
from netfl.simulation.setup import prepare_run
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
        "round": {"kind": "first", "deadline": 20.0, "losses": "unknown"},
    },
}
"""Each user sends for 1 s in a frame of 6 s, so all users are delivered in every round of 20 s."""


def run(tmp_path, name="run", **overrides):
    """Trace the plain scenario with overrides of its access; keys in capitals override the scenario."""
    data = copy.deepcopy(PLAIN)
    data |= {key.lower(): overrides.pop(key) for key in [*overrides] if key.isupper()}
    data["access"] |= overrides
    path = tmp_path / f"{name}.yaml"
    path.write_text(documents.dump(data))
    return netfl.trace(netfl.load(path), tmp_path / name)


@pytest.mark.slow
def test_lossless_network_names_no_cause(tmp_path):
    report = explain(run(tmp_path), rare=2)
    assert [user.deliveries for user in report.users] == [120, 120]
    assert set(report.inactive) == {"outage", "selection", "compute"}
    assert report.users[0].sentence == "user 0 delivered 120 updates in 120 rounds, exactly its fair share"
    assert report.users[0].gains == {}
    assert report.notes == ()


def distant_user(tmp_path):
    """User 3 is far away and fades often; all others are at 100 m. Each update has one attempt."""
    fades = [*PLAIN["access"]["channel"], {"kind": "rayleigh", "coherence": "1 s"}]
    topology = PLAIN["access"]["topology"] | {"distances": [100, 100, 100, 1500, 100, 100]}
    del topology["radius"]
    return {"topology": topology, "channel": fades, "mac": {"kind": "tdma", "max_attempts": 1}}


def slow_user(tmp_path):
    """User 3 trains for 18.5 s of 20 s, the others for 1 s."""
    return {"compute": {"speed": [1, 1, 1, 1 / 18.5, 1, 1], "samples": 1}}


def user_with_outages(tmp_path, away_s=50):
    """User 3 has an outage for *away_s* of every 60 s."""
    file = tmp_path / "away.csv"
    rows = [f"3,{start},{start + away_s}" for start in range(0, 2400, 60)]
    file.write_text("node,start_s,end_s\n" + "\n".join(rows) + "\n")
    return {"outages": [{"kind": "calendar", "file": str(file)}]}


def slow_link(tmp_path):
    """User 3 has its own tower with a slow link (1 s per packet), overloaded by traffic; the queue holds one packet."""
    positions = {"server": [0, 0], "near": [0, 0], "narrow": [5000, 0]}
    nodes = {
        name: {"role": "server" if name == "server" else "tower", "position": xy} for name, xy in positions.items()
    }
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


@pytest.mark.slow
def test_user_that_a_sum_leaves_out_is_told_of_fading(tmp_path):
    """A user of a sum cannot be alone, be late, or send shorter frames: these causes are not tried."""
    sums = {
        "topology": {"kind": "star", "distances": [100, 100, 100, 100, 100, 800]},
        "mac": "simultaneous",
        "interference": "over_the_air",
        "reception": "analogue",
        "radio": {"power": "10 dBm", "bandwidth": "1 MHz"},
        "channel": [*PLAIN["access"]["channel"], {"kind": "rayleigh", "coherence": "100 ms"}],
        "power_control": {"kind": "truncated_inversion", "target": "10 dB", "threshold": "0 dB"},
        "round": {"kind": "available", "deadline": "2 s"},
    }
    report = explain(run(tmp_path, **sums), rare=1)
    (user,) = report.users
    assert user.user == 5
    assert {"airtime", "contention", "deadline"} <= set(report.inactive)
    assert user.gains.keys() == {"fading", "backhaul", "downlink"}
    assert user.single_causes == ("fading",)


def contending_users(tmp_path):
    """Slotted ALOHA with too many users in rounds of 8 s."""
    return {"mac": {"kind": "slotted_aloha", "probability": 0.6}, "round": {"kind": "first", "deadline": 8.0}}


@pytest.mark.parametrize(
    ("make_overrides", "cause"),
    [
        (distant_user, "fading"),
        (slow_user, "compute"),
        (user_with_outages, "outage"),
        (slow_link, "backhaul"),
        (contending_users, "contention"),
    ],
)
@pytest.mark.slow
def test_known_cause_is_named(tmp_path, make_overrides, cause):
    recorded = run(tmp_path, **make_overrides(tmp_path))
    report = explain(recorded, rare=1)
    assert report.notes == ()
    user = report.users[0]
    assert user.user == 3 or cause == "contention"
    assert user.main == cause
    assert user.share(cause) > 0.8
    counts = Counter(recorded.deliveries["user"])
    assert user.deliveries == counts[user.user] == min(counts[user] for user in range(6))
    assert user.fair == pytest.approx(sum(counts.values()) / 6)
    outcomes = recorded.events[(recorded.events["user"] == user.user) & recorded.events["kind"].isin(OUTCOMES)]
    assert dict(user.outcomes) == dict(Counter(outcomes["kind"].astype(str)))
    assert f"without {cause}, it would have delivered {user.gains[cause].after} updates" in user.sentence


@pytest.mark.slow
def test_replicas_and_users_can_be_chosen(tmp_path):
    recorded = run(tmp_path, **slow_user(tmp_path), REPLICAS=3)
    all_replicas, second = explain(recorded, [3, 0]), explain(recorded, [3], replica=1)
    assert [user.user for user in all_replicas.users] == [3, 0]
    assert (all_replicas.users[0].rounds, second.users[0].rounds) == (360, 120)
    counts = Counter(recorded.deliveries[recorded.deliveries["replica"] == 1]["user"])
    assert second.users[0].deliveries == counts[3]
    assert all_replicas.notes == ("The table below counts the deliveries of all replicas together.",)
    assert second.notes == ()


@pytest.mark.slow
def test_explanation_is_reproducible(tmp_path):
    recorded = run(tmp_path, **contending_users(tmp_path))
    assert explain(recorded) == explain(recorded)


@pytest.mark.slow
def test_each_of_two_causes_suffices(tmp_path):
    """User 3 is slow and has outages; removing one of the two causes does not help."""
    recorded = run(
        tmp_path,
        **slow_user(tmp_path) | user_with_outages(tmp_path, 59) | {"round": {"kind": "first", "deadline": 15.0}},
    )
    user = explain(recorded, [3]).users[0]
    assert {*user.sufficient} == {"outage", "compute"}
    assert user.named == user.sufficient
    assert "of which either suffices; without both" in user.sentence
    assert user.together.after > max(gain.after for gain in user.gains.values())


@pytest.mark.slow
def test_run_with_exempt_users_is_explained(tmp_path):
    recorded = run(tmp_path, **slow_user(tmp_path), exempt={"compute": [3]})
    user = explain(recorded, [3]).users[0]
    assert user.deliveries == 120
    assert user.standing is Standing.WITHIN_CHANCE


@pytest.mark.slow
def test_explanation_does_not_need_recorded_events(tmp_path):
    recorded = run(tmp_path, **distant_user(tmp_path), RECORD="none")
    assert recorded.events.empty
    assert explain(recorded, [3]).users[0].outcomes["faded"] > 20


@pytest.mark.slow
def test_replay_that_differs_from_the_run_gives_a_note(tmp_path):
    recorded = run(tmp_path)
    path = recorded.folder / "scenario.yaml"
    path.write_text(path.read_text().replace("seed: 5", "seed: 6").replace("deadline: 20.0", "deadline: 5.0"))
    assert explain(recorded).notes[0].startswith("The replayed network does not reproduce the deliveries of the run")


@pytest.mark.slow
def test_causes_without_effect_are_not_named(tmp_path):
    """Users contend alike: who is rarest is chance."""
    overrides = {
        "mac": {"kind": "slotted_aloha", "probability": 0.3},
        "round": {"kind": "first", "m": 2},
    }
    named = Counter()
    for seed in range(6):
        report = explain(run(tmp_path, f"run{seed}", **overrides, SEED=seed, USERS=8))
        named.update(cause for user in report.users for cause in user.named)
        assert {user.standing for user in report.users} <= {Standing.WITHIN_CHANCE, Standing.ABOVE}
    assert not named


EQUAL = {"mac": {"kind": "slotted_aloha", "probability": 0.3}, "round": {"kind": "first", "m": 1}}
"""Equal users that contend: whoever is the rarest is it by chance."""


@pytest.mark.slow
def test_equal_users_are_told_that_chance_explains_the_rarest(tmp_path):
    """Of 200 runs, 1 may name a cause (4 by chance of 1e-3), and 10 have a doubtful user, who needs more rounds."""
    data = copy.deepcopy(PLAIN) | {"users": 5, "rounds": 30}
    data["access"] |= EQUAL
    standings = Counter()
    for seed in range(200):
        scenario = netfl.load(documents.dump(data | {"seed": seed}))
        setup = prepare_run(scenario, learning=False, replicas=range(1))
        rarity = rarity_of(Replays(setup, scenario.access).unchanged(Evidence()).by_round())
        standings.update({rarity.standing(user) for user in range(5)})
    assert standings[Standing.RARE] <= 4
    assert standings[Standing.DOUBTFUL] <= 22  # the 99.9 % quantile of 10 of 200


def user_with_battery(tmp_path):
    """User 3 has energy for one training, and needs 100 s for the next; the others have no battery."""
    return {
        "energy": {"per_sample": "1 J"},
        "outages": [{"kind": "battery", "nodes": [3], "capacity": "1.2 J", "restart": 0.9, "charger": {"power": 0.01}}],
    }


@pytest.mark.slow
def test_report_terminal_and_exemption_have_one_number(tmp_path):
    """A battery is named so, and what it costs is what a run has whose user is exempt from outages."""
    recorded = run(tmp_path, **user_with_battery(tmp_path))
    user = explain(recorded, [3]).users[0]
    assert user.main == "outage"
    assert "battery; without battery, it would have delivered" in user.sentence
    assert "outage" not in user.sentence

    # the numbers of the explanation are those of runs
    exempt = run(tmp_path, "exempt", **user_with_battery(tmp_path), exempt={"outage": [3]})
    delivered, of_exempt = ((table["user"] == 3).sum() for table in (recorded.deliveries, exempt.deliveries))
    assert user.deliveries == delivered < 40
    assert user.gains["outage"].after == of_exempt > 100

    # the terminal has them
    code, text = run_command(recorded.folder, "--explain", "--user", "3")
    assert code == 0
    rows = {line.split()[0]: line.split()[1] for line in text.splitlines() if " ± " in line}
    assert int(rows["battery"]) == of_exempt
    assert f"(as it is) {delivered}" in " ".join(text.split())

    # and so have the first sentences of the reports
    for run_of, number, user_text in ((recorded, delivered, "user 3 had the fewest"), (exempt, of_exempt, "user")):
        (sentence,) = [line for line in participation_sentences(read_run_data(run_of)) if "deliveries" in line]
        assert user_text in sentence
        assert f"{number} " in sentence


def explain_error(recorded, **options):
    with pytest.raises(ScenarioError) as error:
        explain(recorded, **options)
    return str(error.value)


@pytest.mark.slow
def test_runs_that_cannot_be_explained_raise_an_error(tmp_path):
    direct = {"kind": "stationary", "rho": "random_simplex"}
    complete = run(tmp_path)
    data = {key: PLAIN[key] for key in ("seed", "users", "rounds")}

    def trace_access(name, access):
        path = tmp_path / f"{name}.yaml"
        path.write_text(documents.dump(data | {"name": name, "access": access}))
        return netfl.trace(netfl.load(path), tmp_path / name)

    assert "is a direct access without a network" in explain_error(trace_access("direct", direct))
    assert "replays the deliveries" in explain_error(
        trace_access("again", {"kind": "replay", "run": str(complete.folder)})
    )
    assert "no such users" in explain_error(complete, users=[2, 9])
    assert "no such replica" in explain_error(complete, replica=1)
    (complete.folder / "manifest.json").write_text(f'{{"format": {FORMAT}, "status": "interrupted"}}')
    assert "netfl.resume(" in explain_error(netfl.open_run(complete.folder))


def test_traffic_alone_and_closed_loops_cannot_be_explained(tmp_path):
    packets = {"kind": "poisson", "rate": 1.0, "size": {"distribution": "fixed", "mean": 1000}}
    unset = dict.fromkeys(("round", "compute", "broadcast_rate", "update_size"))
    timed = run(tmp_path, "timed", ROUNDS=None, DURATION=50.0, traffic=packets, **unset)
    assert "is one of traffic" in explain_error(timed)
    path = timed.folder / "scenario.yaml"
    path.write_text(netfl.load("scenarios/closed_loop.yaml").to_yaml())
    assert "depend on the training" in explain_error(timed)


def run_command(folder, *options):
    """Run ``netfl ram`` and return its exit code and its output or error message."""
    report = CliRunner().invoke(app, ["ram", str(folder), *options], env={"COLUMNS": "80"})
    return report.exit_code, report.stdout or report.stderr


@pytest.mark.slow
def test_command_line_explains_a_run(tmp_path):
    recorded = run(tmp_path, **distant_user(tmp_path))
    code, plain = run_command(recorded.folder)
    assert code == 0
    code, table = run_command(recorded.folder, "--explain", "--rare", "2")
    assert code == 0
    assert table.startswith(plain.splitlines()[0])
    assert "updates delivered, without one cause for one user" in " ".join(table.split())
    assert max(map(len, table.splitlines())) <= 80
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines() if " ± " in line}
    assert int(rows["fading"][0]) > 100  # of 120 rounds
    assert {"contention", "fading", "all"} <= {*rows}
    flat = json.loads(run_command(recorded.folder, "--explain", "--rare", "2", "--json")[1])
    assert flat["explain.main"][0] == "fading"
    assert flat["explain.user"][0] == recorded.deliveries["user"].value_counts().idxmin()
    assert not [name for name in json.loads(run_command(recorded.folder, "--json")[1]) if name.startswith("explain")]


@pytest.mark.slow
def test_all_replicas_are_explained_together_by_default(tmp_path):
    recorded = run(tmp_path, **slow_user(tmp_path), REPLICAS=2)
    code, report = run_command(recorded.folder, "--explain", "--rare", "1")
    assert code == 0
    words = " ".join(report.split())
    assert "This is replica 0 of 2 replicas" in words
    assert "User 3 delivered no update in 240 rounds" in words
    assert "of all replicas together" in words
    words = " ".join(run_command(recorded.folder, "--explain", "--rare", "1", "--replica", "1")[1].split())
    assert "in 120 rounds" in words
    assert "of all replicas together" not in words


def test_table_cannot_be_explained(tmp_path, monkeypatch):
    """The error comes before the diagnosis, which takes long for a large table."""
    monkeypatch.setattr("netfl.diagnosis.diagnose", None)
    table = tmp_path / "heard.csv"
    table.write_text("round,user\n" + "\n".join(f"{round_},{round_ % 3}" for round_ in range(1, 60)) + "\n")
    code, report = run_command(table, "--explain")
    assert code == 2
    assert "--explain: a table of deliveries has no network to replay" in report


@pytest.mark.slow
def test_explanation_of_a_user_does_not_depend_on_other_users(tmp_path):
    """However a user is asked for, the answer is the same, multiplicity included."""
    recorded = run(
        tmp_path, **slow_user(tmp_path) | {"compute": {"speed": [1, 1, 1 / 18.5, 1 / 18.5, 1, 1], "samples": 1}}
    )
    alone = explain(recorded, rare=1).users[0]
    of_three = explain(recorded, rare=3).users[0]
    by_number = explain(recorded, [0, alone.user]).users[1]
    assert alone == of_three == by_number
    assert alone.main == "compute"


def crowded_csma(tmp_path):
    """Run 12 users with CSMA/CA; the first delivery closes a round after about 2.4 s; user 7 trains for 3.5 s."""
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
def test_user_that_never_finishes_training_names_compute(tmp_path):
    """Faster training gives user 7 a fair share, which alone is not significant for the rarest user."""
    recorded = crowded_csma(tmp_path)
    user = explain(recorded, rare=4).users[0]
    kinds = Counter(recorded.events[recorded.events["user"] == 7]["kind"])
    assert (user.user, user.deliveries, kinds["received"], kinds["trained"], kinds["sent"]) == (7, 0, 50, 0, 0)
    assert user.named == user.bound_causes == ("compute", "deadline")
    bound = user.least_time
    assert (bound.trainings, bound.finished, bound.train_s) == (50, 0, pytest.approx(3.5))
    assert f"it trains for 3.5 s, and rounds close after at most {bound.round_s:.3g} s" in user.sentence


@pytest.mark.slow
def test_progress_is_reported_before_each_replay(tmp_path):
    report = []
    recorded = run(tmp_path, **slow_user(tmp_path), ROUNDS=60)
    user = explain(recorded, [3, 1, 3], on_progress=lambda *progress: report.append(progress)).users[0]
    names = [name for _, _, name in report]
    assert [done for done, _, _ in report] == [*range(len(report))]
    assert names[:2] == ["unchanged", "user 3 without all causes"]
    assert [name for name in names if name.startswith("user 3 without")][1:] == [
        f"user 3 without {cause}" for cause in user.gains
    ]
    assert all(done < expected for done, expected, _ in report)


def test_command_line_explains_given_users(tmp_path):
    recorded = run(tmp_path, **slow_user(tmp_path), ROUNDS=20)
    report = CliRunner().invoke(app, ["ram", str(recorded.folder), "--explain", "--user", "3", "--user", "1"])
    assert report.exit_code == 0
    assert "replay 1 of about 1: unchanged" in " ".join(report.stderr.split())
    assert "play" not in report.stdout
    words = " ".join(report.stdout.split())
    assert words.index("User 3 delivered") < words.index("User 1 delivered")
    assert "trainings finished: 20 of 20, 18.5 s each; the longest round lasts" in words
    code, report = run_command(recorded.folder, "--explain", "--user", "6")
    assert (code, "no such users" in report) == (2, True)
    code, report = run_command(recorded.folder, "--user", "3")
    assert (code, report) == (2, "--user: has no effect without --explain ([3]); add --explain\n")
