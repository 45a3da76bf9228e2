"""Files of model versions: the safetensors package and netfl read the exact values."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from netfl.errors import MachineError
from netfl.results.model_snapshots import ModelSnapshots, SnapshotWriter, VersionLayout
from netfl.types import RunProgress, RunStart

SHAPES = {"0.weight": (2, 3), "0.bias": (2,)}
LAYOUT = VersionLayout(SHAPES)
LANES = [("plain", 0), ("with t", 1)]


def random_versions(count, seed=0):
    """Return θ and t of two lanes, as float32 values in float64."""
    return np.random.default_rng(seed).standard_normal((count, 2, 9)).astype(np.float32).astype(float)


class FixedVersions:
    """A learner with given versions."""

    lanes = LANES

    def __init__(self, table):
        self.table, self.round = table, 0

    def version(self, lane):
        return self.table[self.round, lane]


class Recorder:
    """A writer of versions and the run that it observes."""

    def __init__(self, folder, table, rounds=range(10), layout=LAYOUT):
        self.learner = FixedVersions(table)
        self.writer = SnapshotWriter(folder, self.learner, layout, {"with t"}, rounds)

    def run_rounds(self, end, checkpoint_round=None):
        """Run the rounds up to *end*, after a checkpoint of round *checkpoint_round*."""
        self.learner.round = 0
        self.writer.on_start(RunStart(Path(), "x", 10, checkpoint_round=checkpoint_round))
        for self.learner.round in range(1, end):
            self.writer.on_round(RunProgress(self.learner.round, 10, 0.0))


def test_the_safetensors_package_reads_the_versions(tmp_path):
    table = random_versions(4)
    recorder = Recorder(tmp_path, table)
    recorder.run_rounds(4)
    recorder.writer.on_end("done")
    recorder.writer.remove_parts()
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == [
        "plain-0.safetensors",
        "with t-1.safetensors",
    ]
    for lane, name in enumerate(("plain-0", "with t-1")):
        found = load_file(tmp_path / "versions" / f"{name}.safetensors")
        assert len(found) == 4 * (2 + lane)
        for index, row in enumerate(table[:, lane]):
            assert found[f"{index}/0.weight"].dtype == np.float32
            assert np.array_equal(found[f"{index}/0.weight"], row[:6].reshape(2, 3))
            assert np.array_equal(found[f"{index}/0.bias"], row[6:8])
            if lane:
                assert found[f"{index}/t"].shape == ()
                assert found[f"{index}/t"] == row[8]
        snapshots = ModelSnapshots(tmp_path / "versions" / f"{name}.safetensors")
        assert [*snapshots] == [0, 1, 2, 3]
        for index in snapshots:
            assert {f"{index}/{name}" for name in snapshots[index]} <= found.keys()
            for key, values in snapshots[index].items():
                assert np.array_equal(values, found[f"{index}/{key}"])


def test_a_resumed_run_writes_the_same_file(tmp_path):
    table = random_versions(6)
    whole, parts = Recorder(tmp_path / "whole", table), Recorder(tmp_path / "parts", table)
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    for recorder, segments in ((whole, [(None, 6)]), (parts, [(None, 5), (2, 4), (3, 6)])):
        for checkpoint_round, end in segments:
            recorder.run_rounds(end, checkpoint_round)
        recorder.writer.on_end("done")
    for name in ("plain-0", "with t-1"):
        first, second = (tmp_path / folder / "versions" / f"{name}.safetensors" for folder in ("whole", "parts"))
        assert first.read_bytes() == second.read_bytes()


def test_a_truncated_part_is_an_error(tmp_path):
    recorder = Recorder(tmp_path, random_versions(1))
    recorder.run_rounds(1)
    with pytest.raises(MachineError, match=r"plain-0\.part is incomplete"):
        recorder.run_rounds(1, checkpoint_round=1)


def test_only_given_rounds_are_written(tmp_path):
    table = random_versions(11)
    recorder = Recorder(tmp_path, table, [0, 4, 8, 10])
    for checkpoint_round, end in ((None, 7), (5, 11)):
        recorder.run_rounds(end, checkpoint_round)
    recorder.writer.on_end("done")
    found = ModelSnapshots(tmp_path / "versions" / "plain-0.safetensors")
    assert [*found] == [0, 4, 8, 10]
    assert np.array_equal(found[8]["0.bias"], table[8, 0, 6:8])
    assert np.array_equal(found[10]["0.bias"], table[10, 0, 6:8])


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0not json", b"\x05\0\0\0\0\0\0\0[1,2]"])
def test_an_invalid_file_is_an_error(tmp_path, content):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(MachineError, match=r"x\.safetensors cannot be read"):
        ModelSnapshots(tmp_path / "x.safetensors")


def test_a_full_disk_keeps_the_parts(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path, random_versions(1))
    recorder.run_rounds(1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        recorder.writer.on_end("done")
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["plain-0.part", "with t-1.part"]


def test_the_header_lists_all_arrays(tmp_path):
    recorder = Recorder(tmp_path, random_versions(1))
    recorder.run_rounds(1)
    recorder.writer.on_end("done")
    data = (tmp_path / "versions/plain-0.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "0/0.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "0/0.bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
    }
    assert len(data) == 8 + length + 32


def test_constants_are_stored_once_and_are_in_each_version(tmp_path):
    constants = {
        "mask": np.array([True, False, True]),
        "frozen.weight": np.full((2, 2), 1 / 3),
        "batches": np.array(7, np.int32),
    }
    recorder = Recorder(tmp_path, random_versions(3), layout=VersionLayout(SHAPES, constants, {"last.bias": "0.bias"}))
    recorder.run_rounds(3)
    recorder.writer.on_end("done")
    path = tmp_path / "versions" / "plain-0.safetensors"
    assert sum(name.startswith("constant/") for name in load_file(path)) == 3
    snapshots = ModelSnapshots(path)
    assert [*snapshots] == [0, 1, 2]
    for version in snapshots.values():
        assert [*version] == ["0.weight", "0.bias", *constants, "last.bias"]
        assert version["mask"].tolist() == [True, False, True]
        assert version["frozen.weight"].tolist() == np.full((2, 2), 1 / 3, np.float32).tolist()
        assert version["batches"].dtype == np.int64
        assert version["batches"] == 7
        assert np.array_equal(version["last.bias"], version["0.bias"])
