"""Every version, kept to the bit: read back by the format's own package, and by ours."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from netfl.errors import MachineError
from netfl.results.model_snapshots import ModelSnapshots, SnapshotWriter
from netfl.types import RunProgress, RunStart

LAYOUT = {"0.weight": (2, 3), "0.bias": (2,)}
LANES = [("plain", 0), ("with t", 1)]


def rows(count, seed=0):
    """θ and t of two lanes, as learners have them: float32 in float64."""
    return np.random.default_rng(seed).standard_normal((count, 2, 9)).astype(np.float32).astype(float)


class Versions:
    """A learner whose versions are given rows."""

    lanes = LANES

    def __init__(self, table):
        self.table, self.round = table, 0

    def version(self, lane):
        return self.table[self.round, lane]


class Album:
    """A writer of versions, and the run that it looks on at."""

    def __init__(self, folder, table, rounds=range(10)):
        self.learner = Versions(table)
        self.writer = SnapshotWriter(folder, self.learner, LAYOUT, {"with t"}, rounds)

    def play(self, end, known=None):
        """Play the rounds up to *end*; those up to *known* are those of a checkpoint."""
        self.learner.round = 0
        self.writer.on_start(RunStart(Path(), "x", 10, checkpoint_round=known))
        for self.learner.round in range(1, end):
            self.writer.on_round(RunProgress(self.learner.round, 10, 0.0))


def album(folder, table, rounds=range(10)):
    return Album(folder, table, rounds)


def test_the_package_reads_what_was_kept(tmp_path):
    told = rows(4)
    one = album(tmp_path, told)
    one.play(4)
    one.writer.on_end("done")
    one.writer.remove_parts()
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == [
        "plain-0.safetensors",
        "with t-1.safetensors",
    ]
    for lane, name in enumerate(("plain-0", "with t-1")):
        found = load_file(tmp_path / "versions" / f"{name}.safetensors")
        assert len(found) == 4 * (2 + lane)
        for index, row in enumerate(told[:, lane]):
            assert found[f"{index}/0.weight"].dtype == np.float32
            assert np.array_equal(found[f"{index}/0.weight"], row[:6].reshape(2, 3))
            assert np.array_equal(found[f"{index}/0.bias"], row[6:8])
            if lane:
                assert found[f"{index}/t"].shape == ()
                assert found[f"{index}/t"] == row[8]
        ours = ModelSnapshots(tmp_path / "versions" / f"{name}.safetensors")
        assert [*ours] == [0, 1, 2, 3]
        for index in ours:
            assert {f"{index}/{name}" for name in ours[index]} <= found.keys()
            for key, values in ours[index].items():
                assert np.array_equal(values, found[f"{index}/{key}"])


def test_going_on_behind_what_a_checkpoint_knows_gives_the_same_file(tmp_path):
    told = rows(6)
    whole, parts = album(tmp_path / "whole", told), album(tmp_path / "parts", told)
    for one in ("whole", "parts"):
        (tmp_path / one).mkdir()
    for one, stays in ((whole, [(None, 6)]), (parts, [(None, 5), (2, 4), (3, 6)])):
        for known, end in stays:
            one.play(end, known)
        one.writer.on_end("done")
    for name in ("plain-0", "with t-1"):
        one, other = (tmp_path / folder / "versions" / f"{name}.safetensors" for folder in ("whole", "parts"))
        assert one.read_bytes() == other.read_bytes()


def test_what_is_cut_short_is_told(tmp_path):
    one = album(tmp_path, rows(1))
    one.play(1)
    with pytest.raises(MachineError, match=r"plain-0\.part is incomplete"):
        one.play(1, known=1)


def test_some_rounds_alone_are_kept_and_the_last(tmp_path):
    told = rows(11)
    one = album(tmp_path, told, [0, 4, 8, 10])
    for known, end in ((None, 7), (5, 11)):
        one.play(end, known)
    one.writer.on_end("done")
    found = ModelSnapshots(tmp_path / "versions" / "plain-0.safetensors")
    assert [*found] == [0, 4, 8, 10]
    assert np.array_equal(found[8]["0.bias"], told[8, 0, 6:8])
    assert np.array_equal(found[10]["0.bias"], told[10, 0, 6:8])


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0not json", b"\x05\0\0\0\0\0\0\0[1,2]"])
def test_what_is_no_such_file_is_told(tmp_path, content):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(MachineError, match=r"x\.safetensors cannot be read"):
        ModelSnapshots(tmp_path / "x.safetensors")


def test_a_full_disk_leaves_what_there_was(tmp_path, monkeypatch):
    one = album(tmp_path, rows(1))
    one.play(1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        one.writer.on_end("done")
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["plain-0.part", "with t-1.part"]


def test_the_header_says_what_is_where(tmp_path):
    one = album(tmp_path, rows(1))
    one.play(1)
    one.writer.on_end("done")
    data = (tmp_path / "versions/plain-0.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "0/0.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "0/0.bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
    }
    assert len(data) == 8 + length + 32
