"""The experiments of the papers: runs are told apart, figures are what pandas says, verdicts are right by hand."""

import json
import math
import shutil
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import biases
import numpy as np
import page
import paper
import pytest
import script
from kept import agreement, difference, keep, read, spread, told
from reproduction import Experiment, Order, Part, Published, Result, Row

import netfl

SHORT = {"rounds": 300, "evaluate.every": 25}
PART = Part("paper/fig2a", ("full",), SHORT)
ROWS = [
    Row(f"{learner}: {metric}", ("short",), learner, metric, Published(100.0, 1.0))
    for learner in ("FedAvg", "FED-CVaR-AVG")
    for metric in ("accuracy", "accuracy/class:2")
]
ORDER = Order("higher", ("short",), "accuracy", "FED-CVaR-AVG", "FedAvg")
TOY = Experiment("toy", "Toy: one", "a paper", "It works.", {"short": PART, "long": Part("paper/fig2a")}, ROWS, [ORDER])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "fig2a"
    scenario = netfl.load(PART.path, dict(PART.changes), PART.blocks)
    netfl.run(scenario, folder)
    return netfl.open_run(folder)


def result(**values):
    """A result by hand: for each learner its mean figure x in each replica."""
    return Result(
        {"figures": {who: {"x": {"mean": own, "last": [one + 1 for one in own]}} for who, own in values.items()}}
    )


@pytest.mark.slow
def test_a_run_is_told_for_the_part_that_it_is(run):
    assert TOY.part_of(run) == "short"
    assert TOY.parts["long"].differences(run) == ["rounds", "evaluate.every"]
    other = replace(PART, changes={**SHORT, "learners.FED-CVaR-AVG.objective.alpha": 0.2})
    assert other.differences(run) == ["learners.FED-CVaR-AVG.objective.alpha"]


@pytest.mark.slow
def test_seed_replicas_and_words_do_not_make_another_experiment(run):
    assert replace(PART, changes={**SHORT, "seed": 99, "replicas": 1, "description": "no"}).differences(run) == []


@pytest.mark.slow
def test_what_is_kept_is_what_pandas_says(run, tmp_path):
    keep(TOY, {"short": run}, tmp_path)
    told = read(TOY, tmp_path)["short"]
    table = run.metrics[(run.metrics["metric"] == "accuracy") & (run.metrics["learner"] == "FED-CVaR-AVG")]
    for group, metric in (("", "accuracy"), ("class:2", "accuracy/class:2")):
        own = table[(table["group"] == group) & table["round"].between(226, 300)].groupby("replica")["value"]
        np.testing.assert_allclose(told.values("FED-CVaR-AVG", metric), own.mean(), atol=1e-8)
        np.testing.assert_allclose(told.values("FED-CVaR-AVG", metric, last=True), own.last(), atol=1e-8)
    assert (told.told["rounds"], told.told["replicas"]) == (300, 3)
    assert (tmp_path / "toy.short.json").stat().st_size < 4000


@pytest.mark.slow
def test_a_figure_that_a_run_has_not_is_refused(run):
    missing = replace(TOY, rows=[Row("no", ("short",), "FedAvg", "accuracy/class:7")])
    with pytest.raises(KeyError, match="no accuracy/class:7 of FedAvg"):
        told(missing, "short", run)


def test_rows_put_the_replicas_of_their_parts_together():
    results = {"a": result(A=[1.0, 2.0]), "b": result(A=[6.0])}
    row = Row("x", ("a", "b"), "A", "x", scale=10)
    found = spread(results, row)
    assert (found.mean, found.replicas) == (30.0, 3)
    assert found.half == pytest.approx(4.302653 * np.std([10, 20, 60], ddof=1) / math.sqrt(3), rel=1e-6)
    assert spread(results, row, last=True).mean == 40.0


def test_orders_are_decided_in_pairs():
    results = {"a": result(A=[5.0, 25.0, 45.0], B=[4.0, 24.1, 43.9]), "b": result(A=[1.0, 1.0, 1.0])}
    pairs = Order("A above B", ("a",), "x", "A", "B", scale=1)
    assert difference(results, pairs).mean == pytest.approx(1.0)
    assert page._verdict(difference(results, pairs)) == "yes"
    assert page._verdict(difference(results, replace(pairs, above="B", below="A"))) == "no"
    across = Order("A of a above A of b", ("a",), "x", "A", "A", against=("b",), scale=1)
    assert difference(results, across).mean == pytest.approx(24.0)
    assert page._verdict(difference(results, across)) == "open"
    alone = {"a": result(A=[5.0], B=[1.0])}
    assert page._verdict(difference(alone, pairs)) == "open"


def test_one_replica_outside_decides_nothing():
    row = Row("x", ("a",), "A", "x", scale=1)
    assert agreement(spread({"a": result(A=[49.0])}, row), Published(50.0, 0.5)) == "open"
    assert agreement(spread({"a": result(A=[math.nan, math.nan])}, row), Published(50.0, 0.5)) == "open"
    assert agreement(spread({"a": result(A=[49.8])}, row), Published(50.0, 0.5)) == "yes"


@pytest.mark.parametrize(
    ("values", "published", "agrees"),
    [
        ([10.0, 10.0], Published(10.5, 0.5), "yes"),
        ([10.0, 10.0], Published(10.6, 0.5), "no"),
        ([19.0, 21.0], Published(30.0, 0.0), "yes"),  # an interval of ± 12.7
        ([19.0, 21.0], Published(34.0, 1.0), "no"),
        ([9.0, 11.0], Published(10.0, 1.0), "open"),
        ([10.0, 10.0], Published(low=5, high=15, text="about 10"), "yes"),
        ([16.0, 16.0], Published(low=5, high=15, text="about 10"), "no"),
    ],
)
def test_figures_agree_where_the_intervals_meet(values, published, agrees):
    found = spread({"a": result(A=values)}, Row("x", ("a",), "A", "x", scale=1))
    assert agreement(found, published) == agrees


@pytest.mark.slow
def test_the_page_of_a_run(run, tmp_path):
    keep(TOY, {"short": run}, tmp_path)
    told = "\n".join(page.section(TOY, read(TOY, tmp_path)))
    assert "| long | `netfl run scenarios/paper/fig2a.yaml` | not run |" in told
    assert "`netfl run scenarios/paper/fig2a.yaml --override full --set rounds=300 --set evaluate.every=25`" in told
    mean = 100 * np.mean(json.loads((tmp_path / "toy.short.json").read_text())["figures"]["FedAvg"]["accuracy"]["mean"])
    assert f"| FedAvg: accuracy | 100.0 ± 1.0 | {mean:.1f} ± " in told
    apart = difference(read(TOY, tmp_path), ORDER)
    assert f"| higher | {apart.mean:+.1f} ± {apart.half:.1f} | open |" in told


@pytest.mark.slow
def test_the_script_of_a_figure(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["toy.py", str(run.folder), "--out", str(tmp_path)])
    script.script([replace(TOY, draw=lambda runs, figure: figure.add_subplot().plot([1, 2]))], "toy")
    told = capsys.readouterr().out
    assert "## Toy: one" in told
    assert (tmp_path / "toy.png").exists()


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("another", "nearest to 'long', but for rounds, evaluate.every"),
        ("none", "is no run directory"),
        ("unfinished", "is not the folder of a run that is done (interrupted)"),
        ("damaged", "manifest.json cannot be read"),
    ],
)
@pytest.mark.slow
def test_a_script_says_what_is_wrong_with_a_folder(what, says, run, tmp_path, monkeypatch):
    texts = {"unfinished": '{"status": "interrupted"}', "damaged": '{"status": '}
    if what in texts:
        (tmp_path / "manifest.json").write_text(texts[what])
    folder = run.folder if what == "another" else tmp_path
    monkeypatch.setattr("sys.argv", ["toy.py", str(folder)])
    with pytest.raises(SystemExit, match="2"), redirect_stderr(StringIO()) as told:
        script.script([replace(TOY, parts={"long": Part("paper/fig2a")}, rows=(), orders=())], "toy")
    assert says in told.getvalue()


@pytest.mark.slow
def test_a_damaged_run_among_others_is_named_and_left_out(run, tmp_path, capsys):
    shutil.copytree(run.folder, tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/manifest.json").write_text('{"status": ')
    assert [one.folder.name for one in paper.runs_below(tmp_path)] == ["good"]
    assert "left out" in (told := capsys.readouterr().err)
    assert str(tmp_path / "bad") in told


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
    """A scenario with dense layers that keeps its first and last versions."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return netfl.load(path)


def test_biases_start_elsewhere_and_move_as_far():
    weight = np.array([[1, 2], [3, 4]], np.float32)
    start = [(weight, np.array([0.5, -0.5], np.float32)), (weight, np.array([0.25, 0], np.float32))]
    trained = [(2 * weight, np.array([0.75, -1.5], np.float32)), (3 * weight, np.array([0.25, 2], np.float32))]
    drawn = [np.array([-0.25, 0.125], np.float32), np.array([0.5, -0.5], np.float32)]
    first, second = biases.replace_start(start, trained, drawn)
    np.testing.assert_array_equal(first[0], 2 * weight)
    np.testing.assert_array_equal(first[1], [0, -0.875])
    np.testing.assert_array_equal(second[0], 3 * weight)
    np.testing.assert_array_equal(second[1], [0.5, 1.5])


def test_a_redraw_of_biases_keeps_what_they_learned(small):
    weight, start = np.zeros((10, 64), np.float32), np.linspace(-0.1, 0.1, 10, dtype=np.float32)
    learned = {"A": 5 * np.eye(10, dtype=np.float32)[3], "B": 5 * np.eye(10, dtype=np.float32)[7]}
    versions = {
        learner: {0: {"layers.0.weight": weight, "layers.0.bias": start},
                  20: {"layers.0.weight": weight, "layers.0.bias": start + moved}}
        for learner, moved in learned.items()
    }  # fmt: skip
    run = SimpleNamespace(learners=[*learned], versions=versions.get)
    figures = biases.redraw_biases(run, {"unit": small.data}, [3, 7])
    for learner, own, other in (("A", 3, 7), ("B", 7, 3)):
        assert [figures[f"unit {learner} {own} {figure}"] for figure in ("own", "q10", "q50", "q90")] == [1] * 4
        assert [figures[f"unit {learner} {other} {figure}"] for figure in ("own", "q10", "q50", "q90")] == [0] * 4
        assert figures[f"{learner} moved"] == pytest.approx(5 / np.linalg.norm(start), abs=1e-4)
    assert [figures[f"unit gain 7 {figure}"] for figure in ("own", "q10", "positive", "unpaired rise")] == [1] * 4
    assert [figures[f"unit gain 3 {figure}"] for figure in ("own", "q90", "unpaired fall")] == [-1, -1, 1]


def test_the_biases_of_a_run_are_redrawn(small, tmp_path):
    run = netfl.run(small, tmp_path / "run")
    figures = biases.redraw_biases(run, {"unit": small.data}, [3])
    assert figures == biases.redraw_biases(run, {"unit": small.data}, [3])
    for name, metric in (("all", "accuracy"), (3, "accuracy/class:3")):
        own = [run.summary[f"{learner}.{metric}.last_tenth"] for learner in ("FedAvg", "FED-CVaR-AVG")]
        assert [figures[f"unit {learner} {name} own"] for learner in run.learners] == pytest.approx(own, abs=1e-4)
        assert figures[f"unit gain {name} own"] == pytest.approx(own[1] - own[0], abs=2e-4)
    for name in ("FedAvg all", "FED-CVaR-AVG all", "gain all"):
        assert figures[f"unit {name} q10"] < figures[f"unit {name} q50"] < figures[f"unit {name} q90"]
    assert figures["unit FedAvg all q10"] > 0.5  # the trained weights are still there
    assert figures["draws"] == biases.DRAWS
