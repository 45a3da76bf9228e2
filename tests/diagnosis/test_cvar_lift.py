"""The users that CVaR can weigh more than importance weighting, from deliveries and from stated shares."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.cli.views.diagnosis import expected_process
from netfl.diagnosis import cvar_lift, cvar_lifts, from_matrix
from netfl.diagnosis.cvar_lift import has_cvar_learner, parse_level, stated_lifts
from netfl.diagnosis.reading import read_participation
from netfl.errors import ScenarioError
from netfl.learning.user_weights import CvarLevel

DELIVERED = np.array([[1, 1, 0, 0]] * 6 + [[1, 0, 1, 0]] * 3 + [[0, 0, 1, 0]], bool)
"""Shares of merges with equal weights: 9/2, 6/2, 3/2 + 1 and 0, of 10 rounds."""


def test_shares_are_mean_weights_in_a_merge():
    lift = cvar_lift(from_matrix(DELIVERED), CvarLevel(0.5, 0.1))
    assert lift.share == pytest.approx([0.45, 0.3, 0.25, 0])
    assert lift.relative == pytest.approx([1.8, 1.2, 1.0, 0])
    assert lift.highest == pytest.approx([0.9 * 0.9 + 0.045, 0.9 * 0.6 + 0.03, 0.9 * 0.5 + 0.025, 0])
    assert lift.can_lift.tolist() == [True, True, True, False]


def test_shares_follow_the_weights_and_the_local_steps():
    sizes = np.array([1.0, 3.0, 1.0, 7.0])
    steps = np.array([1, 3, 1, 7])
    by_size = np.array([6 / 4 + 3 / 2, 6 * 3 / 4, 3 / 2 + 1, 0]) / 10
    lift = cvar_lift(from_matrix(DELIVERED), CvarLevel(0.5), merge_weights=sizes)
    assert lift.share == pytest.approx(by_size)
    with_steps = cvar_lift(from_matrix(DELIVERED), CvarLevel(0.5), merge_weights=sizes, local_steps=steps)
    assert with_steps.share == pytest.approx(by_size * steps / (by_size @ steps))


def test_groups_have_the_bound_of_their_total_share():
    sequence = np.repeat([0, 1, 2, 3], [90, 6, 3, 1])
    lift = cvar_lift(from_matrix(sequence[:, None] == np.arange(4)), CvarLevel(0.2, 0.1), groups={"rare": [2, 3]})
    (group,) = lift.groups
    assert group.share == pytest.approx(0.04)
    assert group.highest == pytest.approx(0.9 * 0.2 + 0.004)
    assert group.critical_alpha == pytest.approx(0.08 * 0.9 / (1 - 0.008))
    assert not group.can_lift
    assert lift.rows(2) == [
        ["2 rare", "0.0400", "0.08", "0.1840", "0.0726", "no"],
        ["3", "0.0100", "0.04", "0.0460", "0.0361", "no"],
        ["2", "0.0300", "0.12", "0.1380", "0.109", "no"],
    ]


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        (0.2, "of 3 users with deliveries and a share below 1/N, it can weigh 1 more than importance weighting (1/N) "
              "does, but not users 3 and 2."),
        (0.03, "it can weigh all more than importance weighting (1/N) does."),
        (1.0, "it can weigh none more than importance weighting (1/N) does: that needs α < 0.221."),
    ],
)  # fmt: skip
def test_sentences(alpha, words):
    sequence = np.repeat([0, 1, 2, 3], [90, 6, 3, 1])
    lift = cvar_lift(from_matrix(sequence[:, None] == np.arange(4)), CvarLevel(alpha, 0.1))
    assert lift.sentence.startswith(f"FED-CVaR-AVG (α = {alpha:g}, γ = 0.1): ")
    assert lift.sentence.endswith(words)


def test_without_rare_users_there_is_none_to_lift():
    lift = cvar_lift(from_matrix(np.eye(4, dtype=bool)), CvarLevel(0.1))
    assert "no user with deliveries has a share below 1/N" in lift.sentence


SCENARIO = """
name: lifts
seed: 3
users: 6
rounds: 60
access: {kind: bernoulli, probability: [0.9, 0.8, 0.8, 0.7, 0.1, 0.05]}
data: {kind: blobs, centers: [[0, 0], [2, 0], [0, 2], [3, 3]], samples: 200}
partition: {kind: rare_classes, classes: [3], users: 2}
model: logistic
learners:
  by size: {objective: {kind: cvar, alpha: 0.1, gamma: 0.1, lr_t: 0.01}, aggregation: average, lr: 0.1,
            batch_size: 8, local_epochs: 1}
  equal: {objective: {kind: cvar, alpha: 0.3, lr_t: 0.01}, lr: 0.1, batch_size: 8, local_steps: 2,
          aggregation: {kind: fedavgm, inner: {kind: average, weights: equal}}}
  memory: {objective: {kind: cvar, alpha: 0.1, lr_t: 0.01}, aggregation: mifa, lr: 0.1, batch_size: 8, local_steps: 2}
  mean: {objective: erm, aggregation: average, lr: 0.1, batch_size: 8, local_steps: 2}
evaluate: {every: 30}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lifts")
    file = folder / "lifts.yaml"
    file.write_text(SCENARIO)
    return netfl.run(file, folder / "run", progress=False)


def test_learners_of_a_run_have_the_shares_of_their_merges(run):
    """The shares are computed here round by round, and times the local steps: one pass of batches of 8 examples."""
    participation, _ = read_participation(run.folder)
    lifts = {lift.learner: lift for lift in cvar_lifts(run, participation)}
    assert list(lifts) == ["by size", "equal"]  # memory has other weights, and mean no CVaR
    samples = run.users.sort_values("user")["samples"].to_numpy()
    by_size, equal = np.zeros(6), np.zeros(6)
    for _, rows in run.deliveries.groupby("round"):
        users = rows["user"].to_numpy()
        by_size[users] += samples[users] / samples[users].sum()
        equal[users] += 1 / len(users)
    by_size *= np.ceil(samples / 8)
    assert lifts["by size"].share == pytest.approx(by_size / by_size.sum())
    assert lifts["equal"].share == pytest.approx(equal / equal.sum())
    assert lifts["equal"].level == CvarLevel(0.3, 0.0)
    (group,) = lifts["equal"].groups
    held = run.users.sort_values("user")["class:3"].to_numpy()
    assert group.members == tuple(np.flatnonzero(held).tolist())
    assert group.name == "with class 3"


def test_a_given_level_replaces_those_of_the_learners(run):
    participation, _ = read_participation(run.folder)
    (lift,) = cvar_lifts(run, participation, level=CvarLevel(0.02, 0.5))
    of_learner = next(cvar_lifts(run, participation))
    assert lift.level == CvarLevel(0.02, 0.5)
    assert lift.learner == ""
    assert lift.share == pytest.approx(of_learner.share)


@pytest.mark.parametrize(
    "tuning",
    [
        {"per": "run", "chosen": {"equal": {"lr": 0.2, "objective.alpha": 0.07}}},
        {"per": "replica", "chosen": {"equal": {"lr": [0.2, 0.1], "objective.alpha": [0.07, 0.03]}}},
    ],
    ids=["run", "replica"],
)
def test_chosen_settings_of_a_tuning_are_used(run, tuning):
    participation, _ = read_participation(run.folder)
    run.manifest["tuning"] = tuning
    try:
        lifts = {lift.learner: lift for lift in cvar_lifts(run, participation)}
        expected = expected_process(run, None)
    finally:
        del run.manifest["tuning"]
    assert lifts["equal"].level == CvarLevel(0.07, 0.0)
    assert expected.alphas["equal"] == 0.07


def test_learners_in_whose_place_an_app_ran_have_no_lifts(run):
    participation, _ = read_participation(run.folder)
    run.manifest["learners"] = {"FedAvg": {}}
    try:
        assert not has_cvar_learner(run)
        assert list(cvar_lifts(run, participation)) == []
    finally:
        del run.manifest["learners"]


def netfl_command(*words):
    """Return the exit code and everything that a command prints."""
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, [*map(str, words)])
    return result.exit_code, result.output


def test_ram_prints_the_weights_of_each_cvar_learner(run):
    code, out = netfl_command("ram", run.folder)
    assert code == 0
    assert "weights under CVaR with α = 0.1, γ = 0.1: by size" in out
    assert "weights under CVaR with α = 0.3, γ = 0: equal" in out
    assert "2 with class 3" in out


def test_ram_takes_a_level_for_a_run_and_for_a_table(run, tmp_path):
    code, out = netfl_command("ram", run.folder, "--cvar", "0.02,0.1", "--json")
    assert code == 0
    entries = json.loads(out)
    assert entries["cvar.alpha"] == 0.02
    assert np.array(entries["cvar.highest"]) == pytest.approx(
        CvarLevel(0.02, 0.1).highest(np.array(entries["cvar.share"]))
    )
    table = tmp_path / "deliveries.csv"
    run.deliveries[["round", "user"]].to_csv(table, index=False)
    code, out = netfl_command("ram", table, "--cvar", "0.02,0.1")
    assert code == 0
    assert "weights under CVaR with α = 0.02, γ = 0.1" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1", "--cvar: not a level α and a weight γ ('0.1'); write two numbers with a comma, such as 0.1,0.1"),
        ("a,b", "--cvar: not a level α and a weight γ ('a,b')"),
        ("0.1,0.1,0.1", "--cvar: not a level α and a weight γ"),
        ("0,0.1", "--cvar: α is not a share of losses (0.0); write a number in (0, 1], such as 0.1"),
        ("nan,0.1", "--cvar: α is not a share of losses (nan)"),
        ("0.1,2", "--cvar: γ is not a weight of the mean loss (2.0); write a number in [0, 1], such as 0.1"),
    ],
)
def test_wrong_levels_are_located_errors(run, text, message):
    code, out = netfl_command("ram", run.folder, "--cvar", text)
    assert code == 2
    assert message in out


def test_levels_in_python_name_their_arguments():
    with pytest.raises(ScenarioError, match=r"^cvar: not a level"):
        parse_level("0.1")
    with pytest.raises(ScenarioError, match=r"^alpha: α is not"):
        CvarLevel(0)


@pytest.mark.slow
def test_the_report_has_the_weights(run):
    from netfl.report.sections import write

    page = write(run, run.folder / "page.html").read_text()
    assert "by size (α = 0.1, γ = 0.1): of " in page
    assert "Critical α" in page


STATED = """
name: stated
users: 4
rounds: 20
access: {kind: stationary, rho: [0.6, 0.3, 0.08, 0.02], deliveries: 1}
data: {kind: blobs, centers: [[0, 0], [2, 0]], samples: 200}
partition: iid
model: logistic
learners:
  A: {objective: {kind: cvar, alpha: 0.2, lr_t: 0.01}, aggregation: relay, lr: 0.1, batch_size: 8, local_steps: 2}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("local_steps: 2", "local_epochs: 1"),  # the users may have different numbers of steps
        ("aggregation: relay", "aggregation: fedau"),  # other weights
        ("deliveries: 1}", "deliveries: 2}"),  # the shares of merges are not stated
    ],
)
def test_stated_shares_give_the_weights_before_a_run(before, after):
    text = STATED.replace(before, after) if before else STATED
    if "deliveries: 2" in text:
        text = text.replace("aggregation: relay", "aggregation: average")
    lifts = [*stated_lifts(netfl.load(text))]
    if before:
        assert lifts == []
    else:
        assert lifts[0].share == pytest.approx([0.6, 0.3, 0.08, 0.02])
        assert lifts[0].can_lift.tolist() == [True, True, True, False]


def test_check_prints_them(tmp_path):
    file = tmp_path / "stated.yaml"
    file.write_text(STATED)
    code, out = netfl_command("check", file)
    assert code == 0
    assert "A (α = 0.2, γ = 0): of 2 users with deliveries and a share below 1/N, it can weigh 1" in out
