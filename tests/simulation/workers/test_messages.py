"""Messages between processes: large arrays are written to one file each and memory-mapped."""

import os
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from netfl.simulation.workers.messages import SharedArrays, WorkerPipe


@pytest.fixture
def ends(tmp_path):
    """The two ends of a connection, and the shared arrays of the first."""
    with ExitStack() as stack:
        pipes = [os.pipe() for _ in range(2)]
        (read_a, write_a), (read_b, write_b) = (
            (stack.enter_context(os.fdopen(read, "rb")), stack.enter_context(os.fdopen(write, "wb")))
            for read, write in pipes
        )
        arrays = SharedArrays(str(tmp_path))
        yield WorkerPipe(read_a, write_b, arrays), WorkerPipe(read_b, write_a, SharedArrays(str(tmp_path))), arrays


def test_large_array_is_written_to_one_file(ends, tmp_path):
    sender, receiver, arrays = ends
    large, small = np.arange(1 << 18, dtype=np.float32), np.arange(3)
    for _ in range(2):
        sender.send({"twice": [large, large], "small": small, "word": "x"})
        received = receiver.receive()
        assert received["twice"][0] is received["twice"][1]
        assert isinstance(received["twice"][0], np.memmap)
        assert np.array_equal(received["twice"][0], large)
        assert (received["small"].tolist(), received["word"]) == ([0, 1, 2], "x")
        received["twice"][0][0] = 7.0
    assert large[0] == 0.0
    assert len(list(tmp_path.iterdir())) == 1
    arrays.clear()
    assert list(tmp_path.iterdir()) == []
    assert received["twice"][0][5] == 5.0


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_tensors_arrive_as_tensors(ends, size):
    sender, receiver, _ = ends
    with torch.inference_mode():
        sent = torch.arange(2.0 * size).view(2, -1)[1]
    sender.send([sent])
    (received,) = receiver.receive()
    assert torch.equal(received, sent)
    received += 1.0


def test_closed_end_raises_eof_error(ends):
    sender, receiver, _ = ends
    receiver._outgoing.write(b"\x80\x05half")
    receiver._outgoing.close()
    with pytest.raises(EOFError):
        sender.receive()
