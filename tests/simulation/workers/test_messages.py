"""Messages between processes: large arrays go through files, each once, and are mapped, not copied."""

import os
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from netfl.simulation.workers.messages import SharedArrays, WorkerPipe


@pytest.fixture
def ends(tmp_path):
    """Two channels that are each other's ends, and the shelf of the first."""
    with ExitStack() as stack:
        pipes = [os.pipe() for _ in range(2)]
        (here, away), (there, back) = (
            (stack.enter_context(os.fdopen(read, "rb")), stack.enter_context(os.fdopen(write, "wb")))
            for read, write in pipes
        )
        shelf = SharedArrays(str(tmp_path))
        yield WorkerPipe(here, back, shelf), WorkerPipe(there, away, SharedArrays(str(tmp_path))), shelf


def test_a_large_array_is_put_into_one_file_whoever_it_is_sent_to_and_however_often(ends, tmp_path):
    one, other, shelf = ends
    large, small = np.arange(1 << 18, dtype=np.float32), np.arange(3)
    for _ in range(2):
        one.send({"twice": [large, large], "small": small, "word": "x"})
        found = other.receive()
        assert found["twice"][0] is found["twice"][1]
        assert isinstance(found["twice"][0], np.memmap)
        assert np.array_equal(found["twice"][0], large)
        assert (found["small"].tolist(), found["word"]) == ([0, 1, 2], "x")
        found["twice"][0][0] = 7.0
    assert large[0] == 0.0
    assert len(list(tmp_path.iterdir())) == 1
    shelf.clear()
    assert list(tmp_path.iterdir()) == []
    assert found["twice"][0][5] == 5.0


@pytest.mark.parametrize("numbers", [4, 1 << 20])
def test_tensors_arrive_as_tensors(ends, numbers):
    one, other, _ = ends
    with torch.inference_mode():
        sent = torch.arange(2.0 * numbers).view(2, -1)[1]
    one.send([sent])
    (found,) = other.receive()
    assert torch.equal(found, sent)
    found += 1.0


def test_an_end_that_is_gone_is_told(ends):
    one, other, _ = ends
    other._outgoing.write(b"\x80\x05half")
    other._outgoing.close()
    with pytest.raises(EOFError):
        one.receive()
