"""Reproduced experiments: runs are identified, metrics equal those of pandas, verdicts those by hand."""

import csv
import json
import math
import re
import shutil
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import biases
import claim_verdicts
import fig3
import numpy as np
import page
import paper
import pytest
import script
import tables
from claims import (
    all_claims,
    claims_of,
    claims_sentence,
    count_sensitivity,
    counts,
    hours_untested,
    state,
    states_sentence,
    tally,
)
from reproduction import Experiment, Order, Part, Published, Result, Row, StoredRun
from run_results import (
    difference,
    estimate,
    extract_result,
    holds,
    lost_pairs,
    read_results,
    replicas_to_decide,
    write_results,
)
from scipy import stats
from step_control import conclusion, remaining_gain

import netfl
from netfl.core.formats import FORMAT
from netfl.results.statistics import interval

FOLDER = paper.DOCS / "reproduction"
SHORT = {"rounds": 300, "evaluate.every": 25}
PART = Part("paper/fig2a", ("full",), SHORT)
ROWS = [
    Row(f"{learner}: {metric}", ("short",), learner, metric, Published(100.0, 1.0))
    for learner in ("FedAvg", "FED-CVaR-AVG")
    for metric in ("accuracy", "accuracy/class:2")
]
ORDER = Order("higher", ("short",), "accuracy", "FED-CVaR-AVG", "FedAvg")
TOY = Experiment(
    "toy",
    "Toy: one",
    "a paper",
    "It works.",
    {"short": PART, "long": Part("paper/fig2a", core_hours=0.5)},
    ROWS,
    [ORDER],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "fig2a"
    scenario = netfl.load(PART.path, dict(PART.changes), PART.blocks)
    netfl.run(scenario, folder)
    return netfl.open_run(folder)


def result(**values):
    """Return a result with the mean of metric x per learner and replica."""
    count = max(map(len, values.values()))
    replicas = {
        str(replica): {
            "metrics": {
                name: {"x": [item[replica], item[replica] + 1]} for name, item in values.items() if replica < len(item)
            },
            "diverged": [],
            "wall_s": 360.0,
            "more": {},
        }
        for replica in range(count)
    }
    return Result({"rounds": 4000, "settings": {}, "replicas": replicas})


@pytest.mark.slow
def test_run_is_assigned_to_its_part(run):
    assert TOY.find_part(run) == "short"
    assert TOY.parts["long"].differences(run) == ["rounds", "evaluate.every"]
    other = replace(PART, changes={**SHORT, "learners.FED-CVaR-AVG.objective.alpha": 0.2})
    assert other.differences(run) == ["learners.FED-CVaR-AVG.objective.alpha"]


@pytest.mark.slow
def test_run_without_new_keys_is_assigned_to_its_part(run, tmp_path):
    """A run of an earlier version does not have keys that came later with a default."""
    old = tmp_path / "old"
    shutil.copytree(run.folder, old)
    lines = [line for line in (old / "scenario.yaml").read_text().splitlines() if "biases:" not in line]
    (old / "scenario.yaml").write_text("\n".join(lines))
    assert "biases" not in netfl.open_run(old).scenario["model"]
    assert TOY.find_part(netfl.open_run(old)) == "short"


@pytest.mark.slow
def test_seed_replicas_and_description_do_not_change_the_experiment(run):
    assert replace(PART, changes={**SHORT, "seed": 99, "replicas": 1, "description": "no"}).differences(run) == []


@pytest.mark.slow
def test_stored_results_equal_those_of_pandas(run, tmp_path):
    write_results(TOY, {"short": [run]}, tmp_path)
    stored = read_results(TOY, tmp_path)["short"]
    table = run.metrics[(run.metrics["metric"] == "accuracy") & (run.metrics["learner"] == "FED-CVaR-AVG")]
    for group, metric in (("", "accuracy"), ("class:2", "accuracy/class:2")):
        late = table[(table["group"] == group) & table["round"].between(226, 300)].groupby("replica")["value"]
        np.testing.assert_allclose(stored.values("FED-CVaR-AVG", metric), late.mean(), atol=1e-8)
        np.testing.assert_allclose(stored.values("FED-CVaR-AVG", metric, last=True), late.last(), atol=1e-8)
    assert (stored.content["rounds"], stored.replicas) == (300, [0, 1, 2])
    assert (tmp_path / "toy.short.json").stat().st_size < 6000
    curves = StoredRun(stored).metrics
    assert curves.groupby(["replica", "learner", "group"]).size().tolist() == [13] * 12
    whole = table[(table["group"] == "class:2") & (table["replica"] == 1)]
    drawn = curves[(curves["learner"] == "FED-CVaR-AVG") & (curves["group"] == "class:2") & (curves["replica"] == 1)]
    np.testing.assert_array_equal(drawn["round"], whole["round"])
    np.testing.assert_allclose(drawn["value"], whole["value"], atol=5e-5)


@pytest.mark.slow
def test_missing_metric_is_an_error(run):
    missing = replace(TOY, rows=[Row("no", ("short",), "FedAvg", "accuracy/class:7")])
    with pytest.raises(KeyError, match="no accuracy/class:7 of FedAvg"):
        extract_result(missing, "short", run)


def test_rows_pool_the_replicas_of_their_parts():
    results = {"a": result(A=[1.0, 2.0]), "b": result(A=[6.0])}
    row = Row("x", ("a", "b"), "A", "x", scale=10)
    found = estimate(results, row)
    assert (found.mean, found.replicas) == (30.0, 3)
    assert found.half == pytest.approx(4.302653 * np.std([10, 20, 60], ddof=1) / math.sqrt(3), rel=1e-6)
    assert estimate(results, row, last=True).mean == 40.0


def test_orders_use_paired_differences():
    results = {"a": result(A=[5.0, 25.0, 45.0], B=[4.0, 24.1, 43.9]), "b": result(A=[1.0, 1.0, 1.0])}
    pairs = Order("A above B", ("a",), "x", "A", "B", scale=1)
    assert difference(results, pairs).mean == pytest.approx(1.0)
    assert holds(results, pairs) == "yes"
    assert holds(results, replace(pairs, above="B", below="A")) == "no"
    assert difference({"a": result(A=[5.0, 6.0], B=[4.0])}, pairs).replicas == 1  # of the replicas that both have
    across = Order("A of a above A of b", ("a",), "x", "A", "A", against=("b",), scale=1)
    assert difference(results, across).mean == pytest.approx(24.0)
    assert holds(results, across) == "open"
    single = {"a": result(A=[5.0], B=[1.0])}
    assert holds(single, pairs) == "open"


def test_number_of_replicas_that_decides():
    found = interval([1.0, 4.0, -2.0, 3.0])
    assert not found.clear
    needed = replicas_to_decide(found)
    deviation = np.std([1.0, 4.0, -2.0, 3.0], ddof=1)
    halves = {size: stats.t.ppf(0.975, size - 1) * deviation / math.sqrt(size) for size in (needed - 1, needed)}
    assert halves[needed] < found.mean < halves[needed - 1]
    assert replicas_to_decide(interval([5.0, 5.1, 4.9])) == 3, "an interval needs three"
    assert replicas_to_decide(interval([1.0])) is None
    assert replicas_to_decide(interval([-1.0, 1.001])) is None


def paper_with(rows, orders, parts=None):
    """Return an experiment of a paper with these claims."""
    return Experiment("toy", "Toy", "Fig. 1", "It works.", parts or {"long": Part("paper/fig2a")}, rows, orders,
                      paper="A paper")  # fmt: skip


def test_the_effect_of_a_value_is_the_largest_claimed_difference():
    published = {"A": Published(80.0, 3.0), "B": Published(72.5), "C": Published(low=40, high=55, text="about 50")}
    rows = [Row(name, ("long",), name, "x", value) for name, value in published.items()]
    orders = [Order("a", ("long",), "x", "A", "B"), Order("b", ("long",), "x", "A", "C", claimed=False)]
    found = [paper_with(rows, orders).effect(row) for row in rows]
    assert found[:2] == [7.5, 7.5]
    assert math.isnan(found[2])
    both = [*orders, Order("c", ("long",), "x", "B", "C"), Order("d", ("long",), "y", "A", "C")]
    assert [paper_with(rows, both).effect(row) for row in rows] == [7.5, 17.5, 17.5]


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([9.0, 10.0, 11.0], "open: about 4 replicas"),
        ([9.0, 10.0], "open: no interval"),
        ([9.9, 10.0, 10.1], "yes"),
        ([17.0, 18.0, 19.0], "open: about 5 replicas"),
        ([29.0, 30.0, 31.0], "no"),
    ],
)
def test_rows_of_values_have_the_interval_the_margin_and_the_verdict(values, answer):
    """For s = 1 and one published run q is 4.97, 3.56 and 3.04 with three, four and five replicas: t √(1 + 1/n)."""
    rows = [Row("x", ("long",), "A", "x", Published(10.0), scale=1), Row("y", ("long",), "B", "x", Published(19.0))]
    toy = paper_with(rows, [Order("o", ("long",), "x", "B", "A")])
    line = next(line for line in page.section(toy, {"long": result(A=values)}) if line.startswith("| x |"))
    mean = np.mean(values)
    half = f" ± {stats.t.ppf(0.975, 2) * np.std(values, ddof=1) * math.sqrt(4 / 3):.1f}" if len(values) > 2 else ""
    assert line.startswith(f"| x | {answer} | {mean - 10:+.1f}{half} | 4.50 | 10.0 | 1 run (assumed) | {mean:.1f}")


@pytest.mark.slow
def test_section_of_a_run(run, tmp_path):
    write_results(TOY, {"short": [run]}, tmp_path)
    text = "\n".join(page.section(TOY, read_results(TOY, tmp_path)))
    assert "| long | `netfl run scenarios/paper/fig2a.yaml` | 4,000 | 0 of 1 | 0.5 h missing |" in text
    assert "`netfl run scenarios/paper/fig2a.yaml --override full --set rounds=300 --set evaluate.every=25`" in text
    stored = json.loads((tmp_path / "toy.short.json").read_text())["replicas"].values()
    finals = 100 * np.array([replica["metrics"]["FedAvg"]["accuracy"][0] for replica in stored])
    low, high = stats.ttest_1samp(finals, 0.0).confidence_interval(0.95)
    assert low < 0.0 < high < 100.0, "the interval is cut at one end"
    assert f"| FedAvg: accuracy | 100.0 ± 1.0 | {finals.mean():.1f} [0.0*, {high:.1f}] | 3 |" in text
    lead = difference(read_results(TOY, tmp_path), ORDER)
    needed = replicas_to_decide(lead)
    decided = "more than 1,000 replicas" if needed is None else f"about {needed} replicas"
    assert f"| higher | {lead.mean:+.1f} ± {lead.half:.1f} | 3 | open | {decided} |" in text


@pytest.mark.slow
def test_script_of_an_experiment(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["toy.py", str(run.folder), "--out", str(tmp_path)])
    script.run_script([replace(TOY, draw=lambda runs, figure: figure.add_subplot().plot([1, 2]))], "toy")
    assert "## Toy: one" in capsys.readouterr().out
    assert (tmp_path / "toy.png").exists()


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("another", "The nearest is 'long'; these keys differ: rounds, evaluate.every"),
        ("none", "is not a run directory"),
        ("unfinished", "is not a finished run (interrupted)"),
        ("damaged", "manifest.json cannot be read"),
    ],
)
@pytest.mark.slow
def test_script_reports_problem_of_a_folder(problem, message, run, tmp_path, monkeypatch):
    texts = {"unfinished": f'{{"format": {FORMAT}, "status": "interrupted"}}', "damaged": '{"status": '}
    if problem in texts:
        (tmp_path / "manifest.json").write_text(texts[problem])
    folder = run.folder if problem == "another" else tmp_path
    monkeypatch.setattr("sys.argv", ["toy.py", str(folder)])
    with pytest.raises(SystemExit, match="2"), redirect_stderr(StringIO()) as errors:
        script.run_script([replace(TOY, parts={"long": Part("paper/fig2a")}, rows=(), orders=())], "toy")
    assert message in errors.getvalue()


@pytest.mark.slow
def test_damaged_run_is_reported_and_skipped(run, tmp_path, capsys):
    shutil.copytree(run.folder, tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/manifest.json").write_text('{"status": ')
    assert [found.folder.name for found in paper.find_runs(tmp_path)] == ["good"]
    errors = capsys.readouterr().err
    assert "skipped" in errors
    assert str(tmp_path / "bad") in errors


SMALL = """
name: small
users: 2
rounds: 20
access: {kind: bernoulli, probability: 1}
data: digits
partition: iid
model: {kind: mlp, hidden: [16, 8], activation: leaky_relu}
learners:
  FedAvg: {objective: erm, aggregation: average, lr: 0.1, batch_size: 16, local_epochs: 1}
  FED-CVaR-AVG:
    objective: {kind: cvar, alpha: 0.5, gamma: 0.3, lr_t: 0.1}
    aggregation: average
    lr: 0.1
    batch_size: 16
    local_epochs: 1
evaluate: {every: 10}
record: {events: none, versions: 20}
"""


@pytest.fixture
def small(tmp_path):
    """A scenario with dense layers that stores its first and last versions."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return netfl.load(path)


def test_redrawn_biases_move_by_the_same_distance():
    weight = np.array([[1, 2], [3, 4]], np.float32)
    start = [(weight, np.array([0.5, -0.5], np.float32)), (weight, np.array([0.25, 0], np.float32))]
    trained = [(2 * weight, np.array([0.75, -1.5], np.float32)), (3 * weight, np.array([0.25, 2], np.float32))]
    drawn = [np.array([-0.25, 0.125], np.float32), np.array([0.5, -0.5], np.float32)]
    first, second = biases.replace_start(start, trained, drawn)
    np.testing.assert_array_equal(first[0], 2 * weight)
    np.testing.assert_array_equal(first[1], [0, -0.875])
    np.testing.assert_array_equal(second[0], 3 * weight)
    np.testing.assert_array_equal(second[1], [0.5, 1.5])


def test_redrawn_biases_keep_their_training(small):
    weight, start = np.zeros((10, 64), np.float32), np.linspace(-0.1, 0.1, 10, dtype=np.float32)
    learned = {"A": 5 * np.eye(10, dtype=np.float32)[3], "B": 5 * np.eye(10, dtype=np.float32)[7]}
    of_learner = {
        learner: {0: {"layers.0.weight": weight, "layers.0.bias": start},
                  20: {"layers.0.weight": weight, "layers.0.bias": start + change}}
        for learner, change in learned.items()
    }  # fmt: skip
    run = SimpleNamespace(learners=[*learned], versions=lambda learner, replica: of_learner[learner])
    found = biases.redraw_biases(run, {"unit": small.data}, [3, 7])
    for learner, learned_class, other in (("A", 3, 7), ("B", 7, 3)):
        assert [found[f"unit {learner} {learned_class} {name}"] for name in ("own", "q10", "q50", "q90")] == [1] * 4
        assert [found[f"unit {learner} {other} {name}"] for name in ("own", "q10", "q50", "q90")] == [0] * 4
        assert found[f"{learner} moved"] == pytest.approx(5 / np.linalg.norm(start), abs=1e-4)
    assert [found[f"unit gain 7 {name}"] for name in ("own", "q10", "positive", "unpaired rise")] == [1] * 4
    assert [found[f"unit gain 3 {name}"] for name in ("own", "q90", "unpaired fall")] == [-1, -1, 1]


def test_biases_of_a_run_are_redrawn(small, tmp_path):
    run = netfl.run(small, tmp_path / "run")
    found = biases.redraw_biases(run, {"unit": small.data}, [3])
    assert found == biases.redraw_biases(run, {"unit": small.data}, [3])
    for name, metric in (("all", "accuracy"), (3, "accuracy/class:3")):
        accuracies = [run.summary[f"{learner}.{metric}.last_tenth"] for learner in ("FedAvg", "FED-CVaR-AVG")]
        assert [found[f"unit {learner} {name} own"] for learner in run.learners] == pytest.approx(accuracies, abs=1e-4)
        assert found[f"unit gain {name} own"] == pytest.approx(accuracies[1] - accuracies[0], abs=2e-4)
    for name in ("FedAvg all", "FED-CVaR-AVG all", "gain all"):
        assert found[f"unit {name} q10"] < found[f"unit {name} q50"] < found[f"unit {name} q90"]
    assert found["unit FedAvg all q10"] > 0.5  # the trained weights are kept
    assert found["draws"] == biases.DRAWS


def fig3_result(fedavg, cvar, metric):
    """Return a result of Fig. 3 with one accuracy of each learner and replica."""
    replicas = {
        str(number): {"metrics": {"FedAvg": {metric: [a, a]}, "FED-CVaR-AVG": {metric: [b, b]}}, "more": {}}
        for number, (a, b) in enumerate(zip(fedavg, cvar, strict=True))
    }
    return Result({"rounds": 4000, "settings": {}, "replicas": replicas})


def test_remarks_on_fig_3_state_the_gain_in_each_replica():
    raw = fig3_result([0.70, 0.72, 0.71], [0.80, 0.83, 0.82], "accuracy@raw/class:9")
    text = fig3.remarks({"raw": raw}, 9, fig3.RARE)
    assert "tested raw, class 9 ends at 70, 72 and 71 % with FedAvg" in text
    assert "this differs by +10, +11 and +11 points. The gain is above 0 in 3 of 3 replicas." in text
    assert "A control of the step size" in text
    mixed = fig3_result([0.70, 0.90], [0.80, 0.88], "accuracy/class:9")
    text = fig3.remarks({"raw": mixed, fig3.ZERO: mixed}, 9, fig3.RARE)
    assert "differs by +10 and -2 points. The gain is above 0 in 1 of 2 replicas. About " in text
    assert (
        "If all biases start at zero, the gain of FED-CVaR-AVG on class 9 is +4 points tested in [0, 1] (-2 to +10)"
        in text
    )


def test_remarks_on_fig_3_compare_the_gain_on_small_pixels_with_the_effective_step():
    metric = "accuracy/class:9"
    long = fig3_result([0.70, 0.72, 0.71], [0.80, 0.83, 0.82], metric)
    entry = {"metrics": {fig3.LONG_FEDAVG: {metric: [0.81, 0.81]}}, "more": {}, "diverged": [], "wall_s": 1.0}
    control = Result({"settings": {}, "replicas": {str(number): entry for number in range(3)}})
    results = {"unit": long, fig3.LONG_STEPS: long}
    assert "0.026" not in fig3.remarks(results, 9, fig3.RARE)
    text = fig3.remarks({**results, fig3.LONG_CONTROL: control}, 9, fig3.RARE)
    assert "The paper reports about 50 % with FedAvg and over 80 % with FED-CVaR-AVG." in text
    half = 100 * stats.t.ppf(0.975, 2) * np.std([0.80, 0.83, 0.82], ddof=1) / math.sqrt(3)
    assert f"it differs from FedAvg with a step of 0.026 by +0.7 ± {half:.1f} points." in text
    assert "So no gain over that FedAvg is shown." in text


def test_an_order_is_open_if_a_learner_diverged_in_some_replicas():
    order = Order("A above B", ("long",), "x", "A", "B", scale=1.0)
    both = {"long": result(A=[5.0, 5.1, 5.2, 5.3], B=[1.0, 1.1, 1.2, math.nan])}
    assert difference(both, order).mean == pytest.approx(4.0)
    assert difference(both, order).clear
    assert (holds(both, order), lost_pairs(both, order)) == ("open", 1)
    text = "\n".join(page.section(paper_with([], [order]), both))
    assert "| A above B | +4.0 ± 0.0 | 3 | open: diverged in 1 of 4 |  |" in text


def test_the_page_names_the_settings_that_we_had_to_choose():
    order = Order("A above B", ("long",), "x", "A", "B")
    toy = replace(paper_with([], [order]), chosen="the step size")
    results = {"long": result(A=[5.0, 5.1, 5.2], B=[1.0, 1.0, 1.0])}
    assert page.chosen_sentence([toy], {"toy": results}) == "- Toy (1 claim): the step size"
    assert page.chosen_sentence([toy], {"toy": {}}) == ""
    assert "**Chosen by us:** the step size." in [*page.section(toy, results)]
    assert "1 at a setting that we had to choose" in claims_sentence([toy], {"toy": results})
    assert "1 at the authors' settings and 0 at" in claims_sentence([replace(toy, chosen="")], {"toy": results})


def test_claims_are_counted_by_kind_and_by_who_chose_the_settings():
    """An order, a value with the effect 4, one without, and one of 100 %, each in two experiments."""
    values = {
        "A": Published(10.0, 0.5, mean_of=5),
        "B": Published(14.0, 0.5, mean_of=5),
        "C": Published(50.0, 0.5, mean_of=5),
        "D": Published(100.0, 0.0, mean_of=5),
    }
    rows = [Row(name, ("long",), name, "x", value) for name, value in values.items()]
    ours = paper_with(rows, [Order("o", ("long",), "x", "B", "A")])
    theirs = replace(ours, name="theirs", chosen="all")
    found = {"long": result(A=[0.1] * 3, B=[0.2] * 3, C=[0.5] * 3, D=[1.0] * 3)}
    claims = claims_of(ours, found)
    assert [(claim.kind, claim.answer) for claim in claims] == [
        ("values with an effect", "yes"),
        ("values with an effect", "no"),
        ("values without an effect", "yes"),
        ("values of 0 or 100 %", "yes"),
        ("orders", "yes"),
    ]
    assert {claim.settings for claim in claims} == {"authors"}
    assert {claim.settings for claim in claims_of(theirs, found)} == {"ours"}
    assert counts([ours, theirs], {"toy": found, "theirs": {}}).splitlines()[2:] == [
        "| orders | 1/0/0 | – |",
        "| values with a claimed effect | 1/0/1 | – |",
        "| apart: values without a claimed effect | 1/0/0 | – |",
        "| apart: values of 0 or 100 % | 1/0/0 | – |",
        "| untested | 0 | 5: nan core-hours |",
    ]


def test_untested_claims_name_the_hours_of_their_runs_alone():
    parts = {
        "long": Part("paper/fig2a", changes={"replicas": 3}, core_hours=2.0),
        "control": Part("paper/fig2a", ("full",), published=False, core_hours=7.0),
    }
    toy = paper_with([Row("a", ("long",), "A", "x", Published(5.0))], [], parts)
    assert hours_untested(toy, {}) == 6.0
    assert "The other 1 need 6 core-hours" in claims_sentence([toy], {"toy": {}})
    assert hours_untested(toy, {"long": result(A=[0.1, 0.1, 0.1])}) == 0.0


def test_claims_that_were_chosen_after_results_say_so():
    orders = [
        Order("before", ("long",), "x", "A", "B"),
        Order("late", ("long",), "x", "A", "B", after_results=True),
        Order("late setting", ("new",), "x", "A", "B"),
        Order("old setting", ("old",), "x", "A", "B", came_first=True),
    ]
    parts = {
        "long": Part("paper/fig2a"),
        "new": Part("paper/fig2a", ("full",), after_results=True),
        "old": Part("paper/fig2a", ("quick",), published=False),
    }
    toy = replace(paper_with([], orders, parts), history="First old, then new.")
    both = result(A=[5.0, 5.1, 5.2], B=[1.0, 1.0, 1.0])
    results = {"long": both, "new": both, "old": result(A=[1.0, 1.0, 1.0], B=[5.0, 5.1, 5.2])}
    assert [claim.is_after_results for claim in claims_of(toy, results)] == [False, True, True]
    assert "Of the tested ones, 2 were chosen, or their setting was, after" in claims_sentence([toy], {"toy": results})
    claimed, _, first = "\n".join(page.section(toy, results)).partition("First old, then new.")
    assert "| late (claim added after results) |" in claimed
    assert "old setting" not in claimed
    assert "At the settings that came first, agree/open/disagree would be 0/0/1:" in first
    assert "| old setting | -410.0 ± 24.8 | 3 | no |  |" in first


def test_weight_divergence_keeps_the_start_that_came_first():
    """Eleven claims, seven of divergence and four of accuracy, each at both starts."""
    experiment = paper.EXPERIMENTS["divergence"]
    claims = claims_of(experiment, {})
    assert len(claims) == 11
    assert all(claim.is_after_results for claim in claims)
    assert sum(claim.item.after_results for claim in claims) == 4
    first = [order for order in experiment.orders if order.came_first]
    assert [order.label.replace(", normal start", "") for order in (claim.item for claim in claims)] == [
        order.label for order in first
    ]
    assert not any(experiment.is_claim(order) for order in first)
    assert not any(experiment.parts[part].after_results for order in first for part in experiment.parts_of(order))


def test_readme_and_pages_count_the_same_claims():
    results, experiments = paper.read_all_results(), [*paper.EXPERIMENTS.values()]
    readme, text = (path.read_text() for path in (paper.README, FOLDER / "index.md"))
    assert f"{page.BEGIN}{page.readme_text(experiments, results)}\n{page.END}" in readme
    assert counts(experiments, results) in text
    assert " ".join(claims_sentence(experiments, results).split()) in " ".join(text.replace("**", "").split())
    table = [line.strip("| \n").split(" | ") for line in counts(experiments, results).splitlines()[2:]]
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines()
            if line.startswith("| [") and "[Beyond:" not in line]  # fmt: skip
    cells = [row[column] for row in rows for column in range(2, 6)]
    assert sums(cells) == sums([cell for line in table[:-1] for cell in line[1:]])
    tested, untested = sum(sums(cells)), sum(int(row[6]) for row in rows)
    papers = page.count_papers(experiments)
    assert f"{papers.capitalize()} papers make {tested + untested} claims. {tested} are tested" in text
    assert untested == sum(int(cell.partition(":")[0]) for cell in table[-1][1:])
    assert f"{[row[1] for row in rows].count('full')} experiments are run in full" in text
    assert f"{[row[1] for row in rows].count('other settings')} at other settings only" in text
    assert f"experiments of {papers} papers" in (paper.DOCS / "index.md").read_text()
    assert f"experiment of {papers} papers" in " ".join(readme.split())
    titles = {item.paper for item in experiments if item.paper}
    assert papers == {4: "four", 5: "five"}[len(titles)]
    assert titles | {""} == {*page.PAGES}


def sums(cells):
    """Return the sums of cells such as ``3/2/0``."""
    found = [[int(number) for number in cell.split("/")] for cell in cells if cell != "–"]
    return [sum(each) for each in zip(*found, strict=True)]


def test_every_stored_row_and_every_claim_is_on_a_page_or_in_a_table():
    """The pages have all rows at the authors' settings, and the tables all rows."""
    results = paper.read_all_results()
    for experiment in paper.EXPERIMENTS.values():
        text = (FOLDER / f"{page.PAGES[experiment.paper]}.md").read_text(encoding="utf-8")
        with (FOLDER / f"{experiment.name}.csv").open(encoding="utf-8", newline="") as file:
            stored = {(line["kind"], line["row"]) for line in csv.DictReader(file)}
        for kind, items in (("value", experiment.rows), ("order", experiment.orders)):
            for item in items:
                found = estimate if kind == "value" else difference
                has_results = found(results[experiment.name], item).replicas > 0
                if has_results or experiment.is_claim(item):
                    assert (kind, item.label) in stored, f"{experiment.name}: {item.label}"
                if has_results and (experiment.is_claim(item) or not experiment.paper):
                    assert f"| {item.label} |" in text or f"| {item.label} (" in text, item.label
    with (FOLDER / "runs.csv").open(encoding="utf-8", newline="") as file:
        runs = {(line["experiment"], line["run"]) for line in csv.DictReader(file)}
    assert {(name, part) for name, found in results.items() for part in found} <= runs


def test_links_of_the_pages_lead_somewhere():
    """Files exist, and anchors are those of a heading as Sphinx and GitHub write them."""
    for path in FOLDER.glob("*.md"):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
            file = (path.parent / target) if target else path
            assert file.exists(), f"{path.name}: {target}"
            if anchor:
                titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                known = ["".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
                         for title in titles]  # fmt: skip
                assert anchor in known, f"{path.name}: {target}#{anchor}"


def test_verdicts_are_printed_beside_the_former_ones():
    results, experiments = paper.read_all_results(), [*paper.EXPERIMENTS.values()]
    claims = [claim for claim in all_claims(experiments, results) if claim.is_tested]
    assert {tables.key(claim) for claim in claims} == {*tables.former_verdicts()}, "each claim has both verdicts"
    text = claim_verdicts.text(claims)
    line = "yes     open    ours     afl_fashion_mnist: AFL: shirt (values with a claimed effect)"
    assert line in text.splitlines()
    changes = text.partition("former    yes  open    no\n")[2].splitlines()[:3]
    rows = [[int(number) for number in line.split()[1:]] for line in changes]
    assert [sum(row) for row in rows] == [65, 20, 2]
    assert [sum(column) for column in zip(*rows, strict=True)] == [
        sum(claim.answer == answer for claim in claims) for answer in ("yes", "open", "no")
    ]


def test_claims_are_counted_at_the_settings_of_the_authors():
    both = {
        "short": result(A=[5.0, 5.1, 5.05], B=[1.0, 1.0, 1.0]),
        "long": result(A=[1.0, 1.0, 1.0], B=[2.0, 2.1, 2.05]),
    }
    for each in both.values():
        each.content["settings"].update(Part("paper/fig2a").settings)
    rows = [Row("a", (part,), "A", "x", Published(5.0), scale=1) for part in ("short", "long")]
    rows.append(Row("other test", ("long",), "A", "x", Published(5.0), scale=1, claimed=False))
    orders = [Order("a", (part,), "x", "A", "B") for part in ("short", "long")]
    parts = {"short": replace(PART, full=False), "long": Part("paper/fig2a")}
    toy = paper_with(rows, orders, parts)
    assert state(toy, both) == "full"
    assert (tally(claims_of(toy, both)), count_sensitivity(toy, both)) == ("0/0/2", 3)
    short = {"short": both["short"]}
    assert state(toy, short) == "other settings"
    assert [claim.answer for claim in claims_of(toy, short)] == ["untested", "untested"]
    assert count_sensitivity(toy, short) == 2
    assert state(toy, {}) == "not run"
    elsewhere = replace(toy, parts={**parts, "long": replace(parts["long"], published=False)})
    assert state(elsewhere, both) == "other settings"
    lacking = replace(toy, parts={"long": replace(parts["long"], needs="a file"), "short": parts["short"]})
    assert state(lacking, {}) == "no data"
    assert states_sentence([toy, lacking], {"toy": {}}) == (
        "0 experiments are run in full, 1 not yet and 1 not, because the data cannot be distributed."
    )
    more = replace(toy, parts={"short": parts["short"], "long": replace(parts["long"], changes={"replicas": 5})})
    assert state(more, both) == "3 of 5 replicas"
    own_experiment = replace(toy, name="ours", paper="")
    assert tally(claims_of(own_experiment, both)) == "1/0/1"
    assert claims_of(own_experiment, {}) == []
    found = {"toy": both, "ours": short}
    assert claims_sentence([toy, own_experiment], found) == (
        "One paper makes 2 claims. 2 are tested: 2 at the authors' settings and 0 at a setting that we had to choose."
    )
    assert states_sentence([toy, own_experiment], found) == "1 experiment is run in full."


def test_rows_of_other_settings_are_in_the_table_of_the_experiment():
    rows = [Row("claim", ("long",), "A", "x", Published(5.0)), Row("other", ("short",), "A", "x", Published(5.0))]
    toy = paper_with(rows, [], {"short": replace(PART, full=False), "long": Part("paper/fig2a")})
    values = result(A=[0.05, 0.05, 0.05])
    printed = "\n".join(page.section(toy, {"short": values, "long": values}))
    assert "| other | 5.0 | 5.0 ± 0.0 | 3 |" in printed
    assert "toy.csv" not in printed
    text = "\n".join(page.section(toy, {"short": values, "long": values}, FOLDER))
    assert "| claim | yes | +0.0 ± 0.0 | 0.05 (no effect) | 5.0 | 1 run (assumed) | 5.0 ± 0.0 | 3 |" in text
    assert "| other |" not in text
    assert "[toy.csv](toy.csv) also has 1 row of other settings, which are no claims." in text
    lines = tables.rows_of(toy, {"short": values, "long": values}).splitlines()
    assert "value,claim,authors,5.0,0.0,1 run (assumed),5.00,0.00,3,105.00,0.00,0.00,0.05,yes,3" in lines
    assert "value,other,other,5.0,0.0,1 run (assumed),5.00,0.00,3,105.00,,,,," in lines
    text = " ".join("\n".join(page.section(toy, {"short": values})).split())
    assert "1 claim is untested: no run has the settings of the authors yet. [toy.csv](toy.csv) has" in text
    assert "value,claim,authors,5.0,0.0,1 run (assumed),,,0,,,,0.05,untested," in tables.rows_of(toy, {}).splitlines()


def test_a_page_without_a_tested_claim_has_the_orders_of_other_settings():
    orders = [Order(f"{part}: A above B", (part,), "x", "A", "B") for part in ("short", "long")]
    toy = paper_with([], orders, {"short": replace(PART, full=False), "long": Part("paper/fig2a")})
    both = result(A=[5.0, 5.1, 5.2], B=[1.0, 1.0, 1.0])
    assert "| short: A above B |" in "\n".join(page.section(toy, {"short": both}, FOLDER))
    assert "| short: A above B |" not in "\n".join(page.section(toy, {"short": both, "long": both}, FOLDER))


def test_rows_and_orders_pool_the_parts_that_exist():
    row, order = Row("x", ("a", "b"), "A", "x", scale=1), Order("o", ("a", "b"), "x", "A", "B", scale=1)
    results = {"b": result(A=[5.0, 7.0], B=[4.0, 4.0])}
    assert estimate(results, row).mean == 6.0
    assert difference(results, order).mean == 2.0
    assert estimate({}, row).replicas == difference({}, order).replicas == 0


def test_orders_without_their_control_name_its_hours():
    order = Order("A above B with a larger step", ("long",), "x", "A", "B", ("control",), claimed=False)
    parts = {"long": Part("paper/fig2a"), "control": Part("paper/fig2a", ("full",), published=False, core_hours=0.5)}
    toy = paper_with([Row("A", ("long",), "A", "x", Published(5.0))], [order], parts)
    values = result(A=[0.05, 0.05])
    assert "order,A above B with a larger step,other,,,,,,0,,,,,not run," in tables.rows_of(toy, {"long": values})
    toy = replace(toy, paper="")
    row = "| A above B with a larger step | – | 0 | not run | 1.5 h |"
    assert row in [*page.section(toy, {"long": values})]
    assert "not run" not in "\n".join(page.section(toy, {"long": values, "control": result(B=[0.04, 0.03])}))
    assert "not run" not in "\n".join(page.section(toy, {"control": values}))


def test_learners_that_diverged_are_named_in_place_of_their_values():
    order = Order("A above B with a larger step", ("long",), "x", "A", "B", ("control",), claimed=False)
    parts = {"long": Part("paper/fig2a"), "control": Part("paper/fig2a", ("full",), published=False)}
    rows = [Row("A", ("long",), "A", "x", Published(5.0)), Row("B", ("control",), "B", "x")]
    control = result(B=[math.nan, math.nan])
    for number, replica in control.content["replicas"].items():
        replica["diverged"] = [f"B, replica {number}, user 1: the update in round 9 is not finite"]
    results = {"long": result(A=[0.05, 0.05]), "control": control}
    toy = paper_with(rows, [order], parts)
    table = tables.rows_of(toy, results)
    assert "order,A above B with a larger step,other,,,,,,0,,,,,diverged," in table
    assert "value,B,other,,,,diverged,,0,,,,,," in table
    lines = [*page.section(replace(toy, paper=""), results)]
    assert "| A above B with a larger step | – | 0 | diverged |  |" in lines
    assert "| B |  | diverged | 0 |" in lines
    assert any(line.startswith("| control |") and "; diverged: B in 2 |" in line for line in lines)


def controls(**stepped):
    """Return a learner A with 50, 60 and 55 %, FedAvg with other steps on the same traces, and the orders of both."""
    orders = [Order("", ("run",), "x", "A", name, ("control",)) for name in stepped]
    return {"run": result(A=[0.5, 0.6, 0.55]), "control": result(**stepped)}, orders


@pytest.mark.parametrize(
    ("stepped", "expected"),
    [
        (
            {"B": [0.2, 0.3, 0.25], "C": [0.4, 0.5, 0.45]},
            "+10.0 ± 0.0 points (C). So a gain over FedAvg at these steps remains.",
        ),
        ({"B": [0.55, 0.65, 0.6], "C": [0.4, 0.5, 0.45]}, "-5.0 ± 0.0 points (B). So FedAvg at these steps is better."),
        (
            {"B": [0.5, 0.5, 0.5], "C": [0.9, 0.9, math.nan]},
            "+5.0 ± 12.4 points (B). So no gain over FedAvg at these steps is shown.",
        ),
    ],
)
def test_a_gain_is_compared_with_the_best_step_that_never_diverges(stepped, expected):
    results, orders = controls(**stepped)
    sentence = f"On nines, A differs from FedAvg at the best of these steps by {expected}"
    assert remaining_gain(results, orders, "nines") == sentence


def test_a_gain_without_controls_has_no_sentence():
    results, orders = controls(B=[0.2, 0.3])
    del results["control"]
    assert remaining_gain(results, orders, "nines") == ""


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({"a": "yes", "b": "yes"}, "So a gain over FedAvg remains in all of them."),
        ({"a": "open", "b": "open"}, "So no gain over FedAvg is shown in any of them."),
        (
            {"a": "no", "b": "yes", "c": "yes"},
            "So a gain over FedAvg remains in b and c, and FedAvg is better in a.",
        ),
    ],
)
def test_the_conclusion_names_the_runs_in_which_a_gain_remains(verdicts, expected):
    assert conclusion(verdicts, "FedAvg") == expected
