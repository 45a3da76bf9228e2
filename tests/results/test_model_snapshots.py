"""Every version, kept to the bit: read back by the format's own package, and by ours."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from netfl.errors import MachineError
from netfl.results.model_snapshots import ModelSnapshots, SnapshotWriter

LAYOUT = {"0.weight": (2, 3), "0.bias": (2,)}
LANES = [("plain", 0), ("with t", 1)]


def rows(count, seed=0):
    """θ and t of two lanes, as learners have them: float32 in float64."""
    return np.random.default_rng(seed).standard_normal((count, 2, 9)).astype(np.float32).astype(float)


def album(folder, rounds=range(10)):
    return SnapshotWriter(folder, LANES, LAYOUT, {"with t"}, rounds)


def test_the_package_reads_what_was_kept(tmp_path):
    one, told = album(tmp_path), rows(4)
    one.begin(None)
    for row in told:
        one.add(row)
    one.close()
    one.clear()
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
    told, whole, parts = rows(6), album(tmp_path / "whole"), album(tmp_path / "parts")
    for one in ("whole", "parts"):
        (tmp_path / one).mkdir()
    for one, stays in ((whole, [(0, 6)]), (parts, [(0, 5), (3, 4), (4, 6)])):
        for kept, end in stays:
            one.begin(kept - 1 if kept else None)
            for row in told[kept:end]:
                one.add(row)
        one.close()
    for name in ("plain-0", "with t-1"):
        one, other = (tmp_path / folder / "versions" / f"{name}.safetensors" for folder in ("whole", "parts"))
        assert one.read_bytes() == other.read_bytes()


def test_what_is_cut_short_is_told(tmp_path):
    one = album(tmp_path)
    one.begin(None)
    one.add(rows(1)[0])
    with pytest.raises(MachineError, match=r"plain-0\.part is cut short"):
        one.begin(1)


def test_some_rounds_alone_are_kept_and_the_last(tmp_path):
    one, told = album(tmp_path, [0, 4, 8, 10]), rows(11)
    assert [index for index in range(12) if one.due(index)] == [0, 4, 8, 10]
    for known, rounds in ((None, range(7)), (5, range(6, 11))):
        one.begin(known)
        for index in rounds:
            if one.due(index):
                one.add(told[index])
    one.close()
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
    one = album(tmp_path)
    one.begin(None)
    one.add(rows(1)[0])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        one.close()
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["plain-0.part", "with t-1.part"]


def test_the_header_says_what_is_where(tmp_path):
    one = album(tmp_path)
    one.begin(None)
    one.add(rows(1)[0])
    one.close()
    data = (tmp_path / "versions/plain-0.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "0/0.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "0/0.bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
    }
    assert len(data) == 8 + length + 32
