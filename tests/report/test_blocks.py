"""Blocks of users in tables, sentences, plots and comparisons; the expected numbers are means of the metrics table."""

import re
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import netfl
from netfl import plots
from netfl.errors import MachineError, ScenarioError
from netfl.plots.deliveries import BLOCKS, COMMON, user_hues
from netfl.report import overview, sections, summary_text
from netfl.report.run_data import RunData

SCENARIO = {
    "name": "blocks",
    "users": 6,
    "rounds": 20,
    "replicas": 3,
    "access": {"kind": "bernoulli", "probability": {"zipf": 0.5}},
    "data": {"kind": "blobs", "centers": [[0, 0], [1, 1], [0, 1]], "samples": 60, "std": 0.3},
    "partition": {
        "kind": "blocks",
        "blocks": {"remote": {"users": 1, "classes": [2]}, "dialect": {"users": 2, "relabel": {0: 1, 1: 0}}},
    },
    "model": "logistic",
    "learners": {
        name: {"objective": "erm", "aggregation": "average", "lr": lr, "batch_size": 8, "local_steps": 2}
        for name, lr in (("A", 0.1), ("B", 0.5))
    },
    "evaluate": {"every": 2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return netfl.run(SCENARIO, out=tmp_path_factory.mktemp("blocks") / "run", progress=False)


def final_values(run, learner, block):
    """Return the mean of the last tenth of the rounds, in percent, a value for each replica."""
    metrics = run.metrics.astype({"learner": str, "metric": str, "group": str})
    rows = metrics[(metrics["learner"] == learner) & (metrics["metric"] == "accuracy")]
    rows = rows[(rows["group"] == f"block:{block}") & (rows["round"] >= 18)]
    return 100 * rows.groupby("replica")["value"].mean()


def test_a_run_knows_its_blocks(run):
    assert run.blocks == ("remote", "dialect", "others")
    assert RunData(run).rare_classes == (2,)
    assert run.users.groupby("block")["user"].count().to_dict() == {"": 9, "dialect": 6, "remote": 3}


@pytest.mark.parametrize("block", ["remote", "dialect", "others"])
def test_final_values_of_blocks(run, block):
    table = netfl.compare(run, f"accuracy/block:{block}")
    for learner in ("A", "B"):
        expected = final_values(run, learner, block)
        (row,) = table[table["learner"] == learner].to_dict("records")
        assert row["mean"] == pytest.approx(expected.mean() / 100)
        assert row["replicas"] == 3
        assert f"{expected.mean():.1f}" in RunData(run).cell(f"accuracy/block:{block}", learner)
        assert f"{expected.mean():.1f}" in run.learner_cells[f"accuracy/block:{block}"][["A", "B"].index(learner)]


def test_an_unknown_block_is_named(run):
    with pytest.raises(ScenarioError, match="no run has this metric"):
        netfl.compare(run, "accuracy/block:nowhere")


def test_report_and_overview_have_the_blocks(run, monkeypatch):
    data = RunData(run)
    text = re.sub(r"<[^>]*>", " ", str(sections.final_table(data)))
    heads = ["Rare classes", "Block remote", "Block dialect", "Block others"]
    assert [text.index(head) for head in heads] == sorted(text.index(head) for head in heads)
    (figure,) = sections.block_accuracy(data)
    assert "with the labels that its users give" in str(figure)
    sentences = " ".join(summary_text.verdicts(data))
    for start in ("In block remote", "In block dialect", "For users in no block"):
        assert start in sentences
    titles = []
    monkeypatch.setattr(Axes, "set_title", lambda ax, title, **options: titles.append(title))
    assert overview.picture(run).is_file()
    assert titles[:2] == ["Accuracy, block remote", "Accuracy, block dialect"]


def test_curves_of_a_block(run):
    by_name, by_group = (
        plots.curves(run.metrics, metric, group=group).axes[0].lines
        for metric, group in (("accuracy/block:dialect", ""), ("accuracy", "block:dialect"))
    )
    for line, other in zip(by_name, by_group, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), other.get_ydata())
    rows = run.metrics[(run.metrics["group"] == "block:dialect") & (run.metrics["metric"] == "accuracy")]
    first = rows[(rows["learner"] == "A") & (rows["round"] == 0)]["value"]
    starts = [line.get_ydata()[0] for line in by_name if len(line.get_xdata()) == 11]
    assert any(start == pytest.approx(100 * first.mean()) for start in starts)


def test_users_have_the_colours_of_their_blocks():
    users = pd.DataFrame({"block": ["", "b", "a", "b"], "rare": [False, True, False, False]})
    hues, legend = user_hues(users)
    assert hues.tolist() == [COMMON, BLOCKS[1], BLOCKS[0], BLOCKS[1]]
    assert legend == {"other users": COMMON, "block a": BLOCKS[0], "block b": BLOCKS[1]}
    hues, legend = user_hues(users.assign(block=""))
    assert [*legend] == ["other users", "hold a rare class"]
    assert user_hues(users.assign(block="", rare=False))[1] == {}


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [("3", "blocks should be a mapping"), ("{a: 1}", "mapping of blocks"), ("{a: {classes: 8}}", "list of whole")],
)
def test_a_damaged_partition_is_named(run, tmp_path, blocks, problem):
    folder = copytree(run.folder, tmp_path / "damaged")
    text = (folder / "scenario.yaml").read_text()
    start = text.index("  blocks:")
    end = text.index("\nmodel:")
    (folder / "scenario.yaml").write_text(f"{text[:start]}  blocks: {blocks}{text[end:]}")
    with pytest.raises(MachineError, match=problem):
        _ = netfl.open_run(folder).blocks


@pytest.mark.slow
def test_final_values_of_groups_in_sweeps(tmp_path):
    changes = {"sweep": {"learners.A.lr": [0.1, 0.3]}, "rounds": 6, "replicas": 1}
    sweep = netfl.sweep(SCENARIO | changes, out=tmp_path / "sweep", progress=False)
    end_s = float(sweep.rounds["closed_s"].max())
    for group in ("block:dialect", "class:1"):
        last = netfl.compare(sweep, f"accuracy/{group}")
        at_end = netfl.compare(sweep, f"accuracy/{group}", at=end_s)
        metrics = sweep.metrics.astype({"metric": str, "group": str, "learner": str})
        rows = metrics[(metrics["metric"] == "accuracy") & (metrics["group"] == group) & (metrics["round"] == 6)]
        assert sorted(last["mean"]) == pytest.approx(sorted(rows["value"]))
        assert sorted(at_end["mean"]) == pytest.approx(sorted(rows["value"]))
