"""Reproduced experiments: runs are identified, metrics equal those of pandas, verdicts those by hand."""

import json
import math
import shutil
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import biases
import fig3
import numpy as np
import page
import paper
import pytest
import script
from reproduction import Experiment, Order, Part, Published, Result, Row, StoredRun
from run_results import (
    agreement,
    difference,
    estimate,
    excess,
    extract_result,
    holds,
    lost_pairs,
    prediction_half,
    read_results,
    replicas_to_agree,
    replicas_to_decide,
    verdict,
    write_results,
)
from scipy import stats
from step_control import conclusion, remaining_gain

import netfl
from netfl.formats import FORMAT
from netfl.results.statistics import interval

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
    assert verdict(difference(results, pairs)) == "yes"
    assert verdict(difference(results, replace(pairs, above="B", below="A"))) == "no"
    assert difference({"a": result(A=[5.0, 6.0], B=[4.0])}, pairs).replicas == 1  # of the replicas that both have
    across = Order("A of a above A of b", ("a",), "x", "A", "A", against=("b",), scale=1)
    assert difference(results, across).mean == pytest.approx(24.0)
    assert verdict(difference(results, across)) == "open"
    single = {"a": result(A=[5.0], B=[1.0])}
    assert verdict(difference(single, pairs)) == "open"


def test_number_of_replicas_that_decides():
    found = interval([1.0, 4.0, -2.0, 3.0])
    assert not found.clear
    needed = replicas_to_decide(found)
    deviation = np.std([1.0, 4.0, -2.0, 3.0], ddof=1)
    halves = {size: stats.t.ppf(0.975, size - 1) * deviation / math.sqrt(size) for size in (needed - 1, needed)}
    assert halves[needed] < found.mean < halves[needed - 1]
    assert replicas_to_decide(interval([5.0, 5.1, 4.9])) == 2
    assert replicas_to_decide(interval([1.0])) is None
    assert replicas_to_decide(interval([-1.0, 1.001])) is None


def test_prediction_interval_is_that_of_students_t():
    """By hand: s = 1.2910 for 9, 10, 11 and 12; the mean of k more runs differs by t s √(1/4 + 1/k)."""
    values = [9.0, 10.0, 11.0, 12.0]
    deviation, t = np.std(values, ddof=1), stats.t.ppf(0.975, 3)
    for runs in (1, 5):
        expected = t * deviation * math.sqrt(1 / 4 + 1 / runs)
        assert prediction_half(interval(values), runs) == pytest.approx(expected)
    assert math.isnan(prediction_half(interval([1.0])))


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.quick_first
def test_prediction_intervals_hold_95_percent_of_further_runs(runs):
    rng, inside = np.random.default_rng(3), 0
    for _ in range(2000):
        found = interval(rng.normal(size=5))
        inside += abs(rng.normal(size=runs).mean() - found.mean) < prediction_half(found, runs)
    assert inside / 2000 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_replica_is_open():
    row = Row("x", ("a",), "A", "x", scale=1)
    assert agreement(estimate({"a": result(A=[50.0])}, row), Published(50.0)) == "open"
    assert agreement(estimate({"a": result(A=[math.nan, math.nan])}, row), Published(50.0)) == "open"


@pytest.mark.parametrize(
    ("values", "published", "agrees"),
    [
        ([10.0, 10.0], Published(10.05), "yes"),  # published as 10.0 or 10.1: 10.00 to 10.10
        ([10.0, 10.0], Published(10.06), "no"),
        ([10.0, 10.0], Published(10.4, digits=0), "yes"),
        ([10.0, 10.0], Published(10.6, 0.6), "yes"),  # the published spread counts
        ([10.0, 10.0], Published(10.66, 0.6), "no"),
        ([19.0, 21.0], Published(41.9), "yes"),  # t = 12.706, s = √2: ± 22.0
        ([19.0, 21.0], Published(42.2), "no"),
        ([19.0, 21.0], Published(39.0, runs=9), "no"),  # ± 14.9
        ([10.0, 10.0], Published(low=5, high=15, text="about 10"), "yes"),
        ([16.0, 16.0], Published(low=5, high=15, text="about 10"), "no"),
    ],
)
def test_values_agree_inside_the_prediction_interval(values, published, agrees):
    found = estimate({"a": result(A=values)}, Row("x", ("a",), "A", "x", scale=1))
    assert agreement(found, published) == agrees


def test_an_interval_wider_than_the_claimed_effect_never_agrees():
    """Three replicas with s = 1: a width of 2 · 4.303 · √(4/3) = 9.94."""
    found = interval([9.0, 10.0, 11.0])
    assert agreement(found, Published(10.0), effect=10.0) == "yes"
    assert agreement(found, Published(10.0), effect=9.9) == "open"
    assert agreement(found, Published(30.0), effect=9.9) == "no"
    assert replicas_to_agree(found, Published(10.0), 9.9) == 4  # 2 · 3.182 · √(5/4) = 7.1
    assert replicas_to_agree(found, Published(10.0), 3.9) is None  # 2 · 1.96 for any number of replicas
    assert replicas_to_agree(found, Published(10.0, runs=5), 3.9) == 5  # 2 · 2.776 · √(1/5 + 1/5) = 3.5
    assert replicas_to_agree(interval([9.0]), Published(10.0), 9.9) is None


def claims_of(rows, orders, parts=None):
    """Return an experiment of a paper with these claims."""
    return Experiment("toy", "Toy", "Fig. 1", "It works.", parts or {"long": Part("paper/fig2a")}, rows, orders,
                      paper="A paper")  # fmt: skip


def test_the_effect_of_a_value_is_the_largest_claimed_difference():
    published = {"A": Published(80.0, 3.0), "B": Published(72.5), "C": Published(low=40, high=55, text="about 50")}
    rows = [Row(name, ("long",), name, "x", value) for name, value in published.items()]
    orders = [Order("a", ("long",), "x", "A", "B"), Order("b", ("long",), "x", "A", "C", claimed=False)]
    found = [claims_of(rows, orders).effect(row) for row in rows]
    assert found[:2] == [7.5, 7.5]
    assert math.isnan(found[2])
    both = [*orders, Order("c", ("long",), "x", "B", "C"), Order("d", ("long",), "y", "A", "C")]
    assert [claims_of(rows, both).effect(row) for row in rows] == [7.5, 17.5, 17.5]


@pytest.mark.parametrize(
    ("values", "answer"),
    [([9.0, 11.0], "open: about 4 replicas"), ([9.0], "open: at least 2 replicas"), ([9.9, 10.1], "yes")],
)
def test_open_values_name_the_replicas_that_decide_them(values, answer):
    """Two, three and four replicas with s = √2 have widths of 44.0, 14.1 and 10.1; the claimed effect is 11."""
    rows = [Row("x", ("long",), "A", "x", Published(10.0), scale=1), Row("y", ("long",), "B", "x", Published(21.0))]
    toy = claims_of(rows, [Order("o", ("long",), "x", "B", "A")])
    lines = [*page.section(toy, {"long": result(A=values)})]
    assert next(line for line in lines if line.startswith("| x |")).endswith(f"| {answer} |")


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
    assert verdict(difference(both, order)) == "yes"
    assert (holds(both, order), lost_pairs(both, order)) == ("open", 1)
    text = "\n".join(page.section(claims_of([], [order]), both))
    assert "| A above B | +4.0 ± 0.0 | 3 | open: diverged in 1 of 4 |  |" in text


def test_the_excess_is_the_distance_beyond_the_prediction_interval():
    found = interval([4.0, 5.0, 6.0])
    half = stats.t.ppf(0.975, 2) * math.sqrt(1 + 1 / 3)
    assert excess(found, Published(5.0 + half + 1.25, spread=1.0, digits=1)) == pytest.approx(0.2)
    assert excess(found, Published(5.0 - half - 1.25, spread=1.0, digits=1)) == pytest.approx(0.2)
    assert excess(found, Published(5.0 + half, digits=1)) == 0.0


def test_the_page_names_the_settings_that_papers_leave_open():
    order = Order("A above B", ("long",), "x", "A", "B")
    toy = replace(claims_of([], [order]), unnamed="the step size")
    results = {"long": result(A=[5.0, 5.1], B=[1.0, 1.0])}
    assert page.unnamed_sentences([toy], {"toy": results}) == (
        "Of the tested claims, 1 are of experiments whose papers leave a setting open, which is then ours: Toy (the "
        "step size)."
    )
    assert page.unnamed_sentences([toy], {"toy": {}}) == ""


def test_readme_and_page_count_the_same_claims():
    results, experiments = paper.read_all_results(), [*paper.EXPERIMENTS.values()]
    sentence = page.claims_sentence(experiments, results)
    readme, text = (" ".join(path.read_text().split()) for path in (paper.README, paper.DOCS / "reproduction.md"))
    assert f"{page.BEGIN.strip()} {sentence} {page.END}" in readme
    assert sentence in text
    rows = [line.strip("| \n").split(" | ") for line in (paper.DOCS / "reproduction.md").read_text().splitlines()
            if line.startswith("| [") and "[Beyond:" not in line]  # fmt: skip
    pairs = [cell.split(" of ") for row in rows for cell in row[2:4] if cell != "–"]
    agree, counted = (sum(int(pair[place]) for pair in pairs) for place in (0, 1))
    still_open, disagree = (sum(int(row[place]) for row in rows) for place in (4, 5))
    untested = sum(int(row[6]) for row in rows)
    papers = page.count_papers(experiments)
    assert sentence.startswith(f"{papers.capitalize()} papers make {counted + untested} claims. ")
    assert f"We could test {counted}: {agree} agree with our runs, " in sentence
    assert f"The other {untested} need data or computing time that we lack." in sentence
    assert f"{sum(int(row[7]) for row in rows)} rows of other settings" in " ".join(text.split())
    assert f"{still_open} are open and {disagree} disagree" in sentence
    assert agree + still_open + disagree == counted
    assert f"{[row[1] for row in rows].count('full')} experiments are run in full" in sentence
    assert f"{[row[1] for row in rows].count('other settings')} at other settings only" in sentence
    titles = {f'"{item.paper}"' for item in experiments if item.paper}
    assert all(title in text for title in titles)
    assert f"experiments of {page.count_papers(experiments)} papers" in (paper.DOCS / "index.md").read_text()
    assert f"experiment of {page.count_papers(experiments)} papers" in readme
    assert page.count_papers(experiments) == {4: "four", 5: "five"}[len(titles)]


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
    toy = claims_of(rows, orders, parts)
    claims = page.count_claims(toy, both)
    assert (claims.run, claims.orders, claims.values) == ("full", ["no"], ["no"])
    assert (claims.untested, claims.sensitivity) == (0, 3)
    claims = page.count_claims(toy, {"short": both["short"]})
    assert (claims.run, claims.orders, claims.values) == ("other settings", [], [])
    assert (claims.untested, claims.sensitivity) == (2, 2)
    assert page.count_claims(toy, {}).run == "not run"
    elsewhere = replace(toy, parts={**parts, "long": replace(parts["long"], published=False)})
    assert page.count_claims(elsewhere, both).run == "other settings"
    lacking = replace(toy, parts={"long": replace(parts["long"], needs="a file"), "short": parts["short"]})
    assert page.count_claims(lacking, {}).run == "no data"
    assert page.claims_sentence([toy, lacking], {"toy": {}}).endswith(
        "The other 4 need data or computing time that we lack. A claim is tested at the settings of its authors, as "
        "far as these are published. 0 experiments are run in full, 1 not yet and 1 not, because the data cannot be "
        "distributed."
    )
    more = replace(toy, parts={"short": parts["short"], "long": replace(parts["long"], changes={"replicas": 5})})
    assert page.count_claims(more, both).run == "3 of 5 replicas"
    own_experiment = replace(toy, name="ours", paper="")
    claims = page.count_claims(own_experiment, both)
    assert (claims.orders, claims.values, claims.untested) == (["yes", "no"], [], 0)
    assert page.claims_sentence([toy, own_experiment], {"toy": both, "ours": {"short": both["short"]}}) == (
        "One paper makes 2 claims. We could test 2: 0 agree with our runs, 0 are open and 2 disagree. A claim is "
        "tested at the settings of its authors, as far as these are published. 1 experiment is run in full."
    )
    assert "3 rows of other settings are no claims" in page.counting_sentences([toy], {"toy": both})


def test_rows_of_other_settings_stand_below_the_claims():
    rows = [Row("claim", ("long",), "A", "x", Published(5.0)), Row("other", ("short",), "A", "x", Published(5.0))]
    toy = claims_of(rows, [], {"short": replace(PART, full=False), "long": Part("paper/fig2a")})
    values = result(A=[0.05, 0.05, 0.05])
    text = "\n".join(page.section(toy, {"short": values, "long": values}))
    claimed, _, sensitivity = text.partition("<details><summary>Sensitivity: other settings, no claims</summary>")
    assert "| claim | 5.0 | 5.0 ± 0.0 | 3 | 105.0 | +0.0 | ± 0.0 | yes |" in claimed
    assert "| other | 5.0 | 5.0 ± 0.0 | 3 | 105.0 |" in sensitivity
    text = "\n".join(page.section(toy, {"short": values}))
    assert "1 claim is untested: no run has the settings of the authors yet." in text


def test_rows_and_orders_pool_the_parts_that_exist():
    row, order = Row("x", ("a", "b"), "A", "x", scale=1), Order("o", ("a", "b"), "x", "A", "B", scale=1)
    results = {"b": result(A=[5.0, 7.0], B=[4.0, 4.0])}
    assert estimate(results, row).mean == 6.0
    assert difference(results, order).mean == 2.0
    assert estimate({}, row).replicas == difference({}, order).replicas == 0


def test_orders_without_their_control_name_its_hours():
    order = Order("A above B with a larger step", ("long",), "x", "A", "B", ("control",), claimed=False)
    parts = {"long": Part("paper/fig2a"), "control": Part("paper/fig2a", ("full",), published=False, core_hours=0.5)}
    toy = claims_of([Row("A", ("long",), "A", "x", Published(5.0))], [order], parts)
    values = result(A=[0.05, 0.05])
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
    lines = [*page.section(claims_of(rows, [order], parts), results)]
    assert "| A above B with a larger step | – | 0 | diverged |  |" in lines
    assert "| B | diverged | 0 | – |" in lines
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
