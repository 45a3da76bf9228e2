"""Checkpoints are whole or absent, and what is no checkpoint is told."""

from io import FileIO
from pathlib import Path

import numpy as np
import pytest
import torch

from netfl.errors import MachineError
from netfl.learning import checkpoint_file
from netfl.results.atomic_write import atomic_write
from netfl.types import LearnerReport

ROOM = 5000
WHOLE = {"round": 3, "digest": "ab", "learner": {"x": torch.arange(3)}, "reports": [], "answers": {}}


def test_what_was_saved_is_loaded(tmp_path):
    reports = [
        LearnerReport(0, {"accuracy": np.array([0.1, 0.2]), "loss/class:1": np.array([1.0, 2.0])}),
        LearnerReport(5, {}),
    ]
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, WHOLE | checkpoint_file.pack_reports(reports))
    loaded = checkpoint_file.load(tmp_path / "c.pt")
    assert loaded["learner"]["x"].tolist() == [0, 1, 2]
    ((index, report),) = checkpoint_file.unpack_reports(loaded).items()
    assert index == report.round == 0
    assert {name: values.tolist() for name, values in report.metrics.items()} == {
        "accuracy": [0.1, 0.2],
        "loss/class:1": [1.0, 2.0],
    }


def test_answers_are_kept_figure_for_figure(tmp_path):
    three, single = np.array([0.1, 1 / 3, np.pi]), np.array([1e-300])
    reports = [
        LearnerReport(2, {}, ({"loss": three, "norm": single}, {})),
        LearnerReport(3, {"accuracy": np.ones(2)}),
        LearnerReport(7, {}, ({}, {"norm": three, "loss": np.empty(0)})),
    ]
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, WHOLE | checkpoint_file.pack_reports(reports))
    found = checkpoint_file.unpack_reports(checkpoint_file.load(tmp_path / "c.pt"))
    assert found.keys() == {2, 3, 7}
    assert (found[3].metrics["accuracy"].tolist(), found[3].answers) == ([1.0, 1.0], ())
    told = {index: [{name: x.tolist() for name, x in one.items()} for one in found[index].answers] for index in (2, 7)}
    assert told == {
        2: [{"loss": three.tolist(), "norm": single.tolist()}, {}],
        7: [{}, {"norm": three.tolist(), "loss": []}],
    }
    assert checkpoint_file.unpack_reports(checkpoint_file.pack_reports([])) == {}


@pytest.mark.parametrize("content", [b"", b"junk\n", b"PK\x03\x04 and so on", b"\x80\x04K\x01."])
def test_what_is_no_checkpoint_is_told(tmp_path, content):
    (tmp_path / "c.pt").write_bytes(content)
    with pytest.raises(MachineError, match=r"c\.pt is not a complete checkpoint"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_a_checkpoint_cut_short_is_told(tmp_path):
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, WHOLE)
    whole = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "c.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MachineError, match="is not a complete checkpoint"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_another_s_file_is_told(tmp_path):
    torch.save({"model": 1}, tmp_path / "c.pt")
    with pytest.raises(MachineError, match="is not a checkpoint of a run"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_a_full_disk_leaves_the_old_one(tmp_path, monkeypatch):
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, WHOLE)

    class Full(FileIO):
        def write(self, data):
            if self.tell() + len(data) > ROOM:
                raise OSError(28, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(Path, "open", lambda *said: Full(*said))  # noqa: PLW0108 - a function is bound, a class is not
    with (
        pytest.raises(OSError, match="No space left"),
        atomic_write(tmp_path / "c.pt") as part,
        part.open("wb") as file,
    ):
        checkpoint_file.save(file, WHOLE | {"round": 9, "learner": {"x": torch.zeros(ROOM)}})
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]
    assert checkpoint_file.load(tmp_path / "c.pt")["round"] == 3


def test_a_large_state_is_written_without_a_copy_of_it(tmp_path):
    """Four tables of 8 MB: what is written at once is never more than one of them, and is the table itself."""
    tables = {str(number): torch.full((2_000_000,), float(number)) for number in range(4)}
    seen = []

    class Watching(FileIO):
        def write(self, data):
            seen.append((len(data), type(data)))
            return super().write(data)

    with Watching(tmp_path / "c.pt", "wb") as file:
        checkpoint_file.save(file, WHOLE | {"learner": tables})
    assert max(seen)[0] <= 8_000_000
    assert {kind for size, kind in seen if size == 8_000_000} == {memoryview}
    assert checkpoint_file.load(tmp_path / "c.pt")["learner"]["3"].sum() == 6_000_000
