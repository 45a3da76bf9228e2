"""TensorBoard reads the values of the tables."""

import json
from pathlib import Path

import pytest
from support.tracked_runs import SCENARIO, TrackerTests, read_scenario

import netfl
from netfl.results.tracking import PLACES

pytestmark = pytest.mark.extra
accumulators = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="netfl-sim[tensorboard] is not installed",
    exc_type=ImportError,
)


def read_board(folder):
    """Return what TensorBoard reads in a folder."""
    board = accumulators.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    board.Reload()
    return board


class TestTensorBoard(TrackerTests):
    track = "track: {kind: tensorboard, folder: board}\n"
    folder = Path("board/r")

    def curve(self, run, learner, replica, name):
        board = read_board(self.folder / f"{learner}-{replica}")
        assert not any("user:" in tag for tag in board.Tags()["scalars"])
        scalars = board.Scalars(name) if name in board.Tags()["scalars"] else []
        return (
            [scalar.step for scalar in scalars],
            [scalar.value for scalar in scalars],
            [scalar.wall_time for scalar in scalars],
        )

    def summaries(self, run, name):
        scalars = read_board(self.folder).Scalars(f"summary/{name}")
        return [scalar.step for scalar in scalars], [scalar.value for scalar in scalars]

    def test_the_scenario_is_a_text(self):
        netfl.run(read_scenario(SCENARIO + self.track, rounds=5), "r")
        assert b"zipf: 1" in read_board(self.folder).Tensors("scenario")[0].tensor_proto.string_val[0]

    def test_another_run_of_this_name_uses_another_folder(self):
        scenario = read_scenario(SCENARIO + self.track, rounds=5)
        netfl.run(scenario, "r")
        netfl.run(scenario, "other/r")
        assert json.loads((Path("other/r") / PLACES).read_text())["tensorboard"]["folder"].endswith("board/r-2")

    def test_an_extension_adds_its_summary(self):
        netfl.run(read_scenario(SCENARIO + self.track, rounds=5), "r")
        netfl.extend("r", 3)
        assert self.summaries(None, "one.accuracy.last_tenth")[0] == [2, 3]


class TestRunDirectory(TestTensorBoard):
    track = "track: tensorboard\n"
    folder = Path("r/tensorboard")

    test_another_run_of_this_name_uses_another_folder = None
