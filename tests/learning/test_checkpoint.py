"""Checkpoint files are complete or absent, and invalid files are errors."""

import pickle
import warnings
from io import BytesIO, FileIO
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch

from netfl.errors import MachineError
from netfl.learning import checkpoint_file
from netfl.results.atomic_write import atomic_write
from netfl.types import LearnerReport

DISK_SPACE = 5000
CHECKPOINT = {"round": 3, "digest": "ab", "learner": {"x": torch.arange(3)}, "reports": [], "answers": {}}


def test_a_saved_checkpoint_is_loaded(tmp_path):
    reports = [
        LearnerReport(0, {"accuracy": np.array([0.1, 0.2]), "loss/class:1": np.array([1.0, 2.0])}),
        LearnerReport(5, {}),
    ]
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, CHECKPOINT | checkpoint_file.pack_reports(reports))
    loaded = checkpoint_file.load(tmp_path / "c.pt")
    assert loaded["learner"]["x"].tolist() == [0, 1, 2]
    ((index, report),) = checkpoint_file.unpack_reports(loaded).items()
    assert index == report.round == 0
    assert {name: values.tolist() for name, values in report.metrics.items()} == {
        "accuracy": [0.1, 0.2],
        "loss/class:1": [1.0, 2.0],
    }


def test_answers_are_stored_exactly(tmp_path):
    three, single = np.array([0.1, 1 / 3, np.pi]), np.array([1e-300])
    reports = [
        LearnerReport(2, {}, ({"loss": three, "norm": single}, {})),
        LearnerReport(3, {"accuracy": np.ones(2)}),
        LearnerReport(7, {}, ({}, {"norm": three, "loss": np.empty(0)})),
    ]
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, CHECKPOINT | checkpoint_file.pack_reports(reports))
    found = checkpoint_file.unpack_reports(checkpoint_file.load(tmp_path / "c.pt"))
    assert found.keys() == {2, 3, 7}
    assert (found[3].metrics["accuracy"].tolist(), found[3].answers) == ([1.0, 1.0], ())
    answers = {
        index: [{name: x.tolist() for name, x in answer.items()} for answer in found[index].answers] for index in (2, 7)
    }
    assert answers == {
        2: [{"loss": three.tolist(), "norm": single.tolist()}, {}],
        7: [{}, {"norm": three.tolist(), "loss": []}],
    }
    assert checkpoint_file.unpack_reports(checkpoint_file.pack_reports([])) == {}


@pytest.mark.parametrize("content", [b"", b"junk\n", b"PK\x03\x04 and so on", b"\x80\x04K\x01."])
def test_an_invalid_file_is_an_error(tmp_path, content):
    (tmp_path / "c.pt").write_bytes(content)
    with pytest.raises(MachineError, match=r"c\.pt is not a complete checkpoint"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_a_truncated_checkpoint_is_an_error(tmp_path):
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, CHECKPOINT)
    whole = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "c.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MachineError, match="is not a complete checkpoint"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_a_file_of_another_program_is_an_error(tmp_path):
    torch.save({"model": 1}, tmp_path / "c.pt")
    with pytest.raises(MachineError, match="is not a checkpoint of a run"):
        checkpoint_file.load(tmp_path / "c.pt")


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, CHECKPOINT)

    class Full(FileIO):
        def write(self, data):
            if self.tell() + len(data) > DISK_SPACE:
                raise OSError(28, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(Path, "open", lambda *args: Full(*args))  # noqa: PLW0108 - a function is bound, a class is not
    with (
        pytest.raises(OSError, match="No space left"),
        atomic_write(tmp_path / "c.pt") as part,
        part.open("wb") as file,
    ):
        checkpoint_file.save(file, CHECKPOINT | {"round": 9, "learner": {"x": torch.zeros(DISK_SPACE)}})
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]
    assert checkpoint_file.load(tmp_path / "c.pt")["round"] == 3


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_an_interruption_within_a_write_remains_one(tmp_path, number):
    class Interrupted(FileIO):
        """Is interrupted once, after which torch writes the end of the file."""

        writes = 0

        def write(self, data):
            self.writes += 1
            if self.writes == number:
                raise KeyboardInterrupt
            return super().write(data)

    with pytest.raises(KeyboardInterrupt), Interrupted(tmp_path / "c.pt", "w") as file:
        checkpoint_file.save(file, CHECKPOINT)


def test_a_large_state_is_written_without_a_copy(tmp_path):
    """No write is larger than one of the four tables of 8 MB, and each is written as a memoryview."""
    tables = {str(number): torch.full((2_000_000,), float(number)) for number in range(4)}
    writes = []

    class RecordingFile(FileIO):
        def write(self, data):
            writes.append((len(data), type(data)))
            return super().write(data)

    with RecordingFile(tmp_path / "c.pt", "wb") as file:
        checkpoint_file.save(file, CHECKPOINT | {"learner": tables})
    assert max(writes)[0] <= 8_000_000
    assert {kind for size, kind in writes if size == 8_000_000} == {memoryview}
    assert checkpoint_file.load(tmp_path / "c.pt")["learner"]["3"].sum() == 6_000_000


def _archive(**parts):
    """Return an archive with the parts of `torch.save`, some replaced or added."""
    whole = BytesIO()
    torch.save(CHECKPOINT, whole)
    changed = BytesIO()
    with ZipFile(whole) as archive, ZipFile(changed, "w") as other:
        contents = {name: archive.read(name) for name in archive.namelist()}
        for name, content in (contents | {f"archive/{part}.pkl": content for part, content in parts.items()}).items():
            other.writestr(name, content)
    return changed.getvalue()


def _legacy():
    """Return a file as torch wrote it before version 1.6."""
    file = BytesIO()
    torch.save(CHECKPOINT, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


OTHER_FORMS = {
    **{f"pickle {protocol}": pickle.dumps({"round": 3}, protocol) for protocol in range(6)},
    **{
        f"archive of protocol {protocol}": _archive(data=pickle.dumps({"round": 3}, protocol)) for protocol in (3, 4, 5)
    },
    "script": _archive(constants=pickle.dumps((), 2)),
    "legacy": _legacy(),
    "no description": b"PK\x05\x06" + bytes(18),
}


@pytest.mark.parametrize("content", OTHER_FORMS.values(), ids=OTHER_FORMS.keys())
def test_file_of_another_form_is_one_error_without_a_warning_of_torch(tmp_path, content):
    (tmp_path / "c.pt").write_bytes(content)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(MachineError, match=r"c\.pt is not a complete checkpoint") as error,
    ):
        checkpoint_file.load(tmp_path / "c.pt")
    assert not isinstance(error.value.__cause__, Warning)
