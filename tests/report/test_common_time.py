"""The time at which runs are compared that end at different times."""

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from support.inline_sweep_engine import Here

import netfl
from netfl import report
from netfl.errors import ScenarioError
from netfl.report.common_time import LearningEnds, choose_time, ends_of_points, ends_of_runs
from netfl.report.run_data import RunData

LEARNING = {
    "data": {"kind": "digits"},
    "partition": {"kind": "iid"},
    "model": {"kind": "logistic"},
    "learners": {
        "A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1},
        "B": {"objective": "erm", "aggregation": "average", "lr": 0.01, "batch_size": 8, "local_steps": 1},
    },
    "evaluate": {"every": 1},
}


def scenario(length_s, **sections):
    access = {"kind": "bernoulli", "probability": 0.6, "round_length": length_s}
    return {"name": "race", "users": 4, "replicas": 3, "access": access, **LEARNING, **sections}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs of fast rounds (20 in 20 s, 60 in 60 s) and slow ones (20 in 60 s), by name."""
    folder = tmp_path_factory.mktemp("runs")
    lengths = {"fast": (1.0, 20), "longer": (1.0, 60), "slow": (3.0, 20)}
    for name, (length_s, rounds) in lengths.items():
        netfl.run(scenario(length_s, rounds=rounds), folder / name, progress=False)
    return {name: folder / name for name in lengths}


def value_at(folder, learner, replica, time_s):
    """The mean of the last tenth of the evaluated rounds until a time, from the table."""
    table = netfl.open_run(folder).metrics
    rows = table[(table["metric"] == "accuracy") & (table["group"] == "") & (table["time_s"] <= time_s)]
    rows = rows[(rows["learner"] == learner) & (rows["replica"] == replica)]
    return rows.loc[rows["round"] >= 0.9 * rows["round"].max(), "value"].mean()


def test_runs_of_different_lengths_are_compared_at_the_earliest_end(folders):
    table = netfl.compare([folders["longer"], folders["fast"]])
    assert (table["at_s"] == 20.0).all()
    assert table.note == (
        "Final values are those at 20 s of simulated time, the earliest end, as the runs end at different times: "
        "longer at 1 min 00 s and fast at 20 s."
    )
    for row in table.to_dict("records"):
        expected = np.mean([value_at(folders[row["run"]], row["learner"], replica, 20.0) for replica in range(3)])
        assert row["mean"] == pytest.approx(expected, abs=1e-12)
    # the first 20 rounds of the longer run are the fast one
    assert table["mean"][:2].tolist() == pytest.approx(table["mean"][2:].tolist(), abs=1e-3)
    assert table.to_latex().startswith("% Final values are those at 20 s")


def test_equally_many_rounds_are_compared_as_they_are(folders):
    table = netfl.compare([folders["fast"], folders["slow"]])
    assert "at_s" not in table
    assert table.note.startswith("Final values are those after equally many rounds, which end at different times: ")
    chosen = netfl.compare([folders["fast"], folders["slow"]], at="20 s")
    assert (chosen["at_s"] == 20.0).all()
    slow = chosen[(chosen["run"] == "slow") & (chosen["learner"] == "A")]["mean"].item()
    assert slow == pytest.approx(np.mean([value_at(folders["slow"], "A", replica, 20.0) for replica in range(3)]))


def test_values_at_a_time_are_those_of_a_run_that_ends_then(folders, tmp_path):
    netfl.run(scenario(1.0, duration=20.0), tmp_path / "stopped", progress=False)
    stopped = netfl.compare(tmp_path / "stopped")
    chosen = netfl.compare(folders["longer"], at=20)
    pd.testing.assert_series_equal(chosen["mean"], stopped["mean"])


def test_runs_that_end_alike_have_no_note(folders):
    assert netfl.compare([folders["longer"], folders["slow"]]).note == ""
    assert netfl.compare(folders["longer"]).note == ""


def test_a_time_after_the_end_or_for_the_network_is_refused(folders):
    for options, message in (
        ({"at": "30 s"}, "at: fast … ends before, at 20 s"),
        ({"at": "20 dB"}, "at: … instead of a time"),
        ({"at": 10.0, "metric": "jain"}, "at: values of the network"),
    ):
        with pytest.raises(ScenarioError) as error:
            netfl.compare([folders["fast"], folders["slow"]], **options)
        assert_messages(str(error.value).splitlines(), [message])


def test_duration_is_the_end_of_its_runs(folders, tmp_path):
    run = netfl.run(scenario(3.0, duration=59.0), tmp_path / "stopped", progress=False)
    runs = {"a": RunData(run), "b": RunData(netfl.open_run(folders["longer"]))}
    assert choose_time(ends_of_runs(runs)).at_s is None  # 59 s and 60 s differ by less than a round


@pytest.mark.slow
def test_page_says_the_time_and_never_the_highest_of_all_clocks(folders, tmp_path):
    page = report.write_several([folders["longer"], folders["fast"]], tmp_path / "page.html").read_text()
    assert "Final values are those at 20 s of simulated time, the earliest end" in page
    assert "the highest at 20 s is" in page
    page = report.write_several([folders["fast"], folders["slow"]], tmp_path / "page.html").read_text()
    assert "after equally many rounds, which end at different times" in page
    assert "the highest at equally many rounds is" in page
    page = report.write_several([folders["fast"], folders["slow"]], tmp_path / "page.html", "10 s").read_text()
    assert "Final values are those at 10 s of simulated time." in page
    assert "highest of all" not in page
    page = report.write_several([folders["longer"], folders["slow"]], tmp_path / "page.html").read_text()
    assert "the highest of all is" in page


@pytest.mark.slow
def test_points_of_a_sweep_are_compared_at_the_earliest_end(tmp_path):
    axes = {"access.round_length": [1.0, 3.0], "rounds": [20, 30]}
    sweep = netfl.sweep(scenario(1.0, rounds=20, sweep=axes), tmp_path / "sweep", engine=Here())
    table = netfl.compare(sweep)
    assert (table["at_s"] == 20.0).all()
    assert table.note.endswith(
        "point 0 of sweep at 20 s, point 1 of sweep at 30 s, point 2 of sweep at 1 min 00 s and point 3 of sweep at "
        "1 min 30 s."
    )
    metrics = sweep.metrics[(sweep.metrics["metric"] == "accuracy") & (sweep.metrics["group"] == "")]
    early = metrics[metrics["time_s"] <= 20.0]
    for number, row in enumerate(table.to_dict("records")):
        rows = early[(early["point"] == number // 2) & (early["learner"] == row["learner"])]
        last = 20 if float(row["round_length"]) == 1.0 else 6
        found = rows[rows["round"] >= 0.9 * last].groupby("replica")["value"].mean()
        assert row["mean"] == pytest.approx(found.mean(), abs=1e-12)


def test_ends_of_many_runs_are_given_as_their_range():
    ends = {f"run {n}": LearningEnds(pd.Series([60.0 * (n + 1)]), pd.Series([10 + n])) for n in range(9)}
    time = choose_time(ends)
    assert time.at_s == 60.0
    assert time.sentence.endswith("as the runs end at different times: between 1 min 00 s and 9 min 00 s.")


def test_points_whose_rounds_take_no_time_have_no_end():
    """Rounds in which nobody takes part may end at time 0: the number of rounds in an hour is NaN."""
    rows = [(0, "", "simulated_s", 20.0), (0, "", "rounds_per_hour", 180.0), (0, "A", "loss", 1.0)]
    rows += [(1, "", "simulated_s", 0.0), (1, "", "rounds_per_hour", np.nan), (1, "A", "loss", 1.0)]
    finals = pd.DataFrame(rows, columns=["point", "learner", "metric", "value"]).assign(replica=0)
    ends = ends_of_points(finals)
    assert {name: (end.ends_s[0], end.rounds[0]) for name, end in ends.items()} == {"point 0": (20.0, 1)}
    assert ends_of_points(finals[finals["point"] == 1]) == {}
