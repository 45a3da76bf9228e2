"""Checkpoints: where a run stood, in one file that is whole or absent, read back without running any code of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.types import LearnerReport

_KEYS = {"round", "digest", "learner", "reports", "answers"}


def save(file: IO[bytes], content: dict[str, Any]) -> None:
    """Write *content* (tensors, numbers, strings, lists and dictionaries of them) into an open *file*.

    It goes straight into the file, as there may be no room in memory for a second copy.
    """
    _write(content, _Remembering(file))


class _Remembering:
    """A file that remembers why it could not be written: torch only says of that that its own writer is broken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.flush = file.flush
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """Write *data*, unless that has failed before."""
        if self.error is None:
            try:
                return self._file.write(data)
            except OSError as error:
                self.error = error
        raise self.error


def _write(content: dict[str, Any], file: _Remembering) -> None:
    """Write *content* into *file*.

    Raises:
        OSError: the disk would not.
    """
    try:
        torch.save(content, cast("IO[bytes]", file))
    except Exception as error:
        raise file.error or error from None


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote.

    Raises:
        MachineError: the file is not a whole checkpoint.
    """
    try:
        content = dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch's reader lets many kinds of exceptions out
        raise MachineError(f"{path} is not a whole checkpoint") from error
    if not content.keys() >= _KEYS or not isinstance(content["round"], int):
        raise MachineError(f"{path} is no checkpoint of a run")
    return content


def pack(reports: Sequence[LearnerReport]) -> list[dict[str, Any]]:
    """The figures in *reports* as what `save` takes."""
    return [
        {"round": one.round, "names": [*one.metrics], "values": torch.from_numpy(np.stack([*one.metrics.values()]))}
        for one in reports
    ]


def pack_answers(reports: Sequence[LearnerReport]) -> dict[str, Any]:
    """The answers in *reports* as what `save` takes: their figures one after the other, and what they are about."""
    mappings = [answers for one in reports for answers in one.answers]
    figures = [values for answers in mappings for values in answers.values()]
    return {
        "rounds": [one.round for one in reports for _ in one.answers],
        "counts": [{question: len(values) for question, values in answers.items()} for answers in mappings],
        "values": torch.from_numpy(np.concatenate([np.empty(0), *figures])),
    }


def unpack_answers(packed: Mapping[str, Any]) -> dict[int, tuple[Mapping[str, NDArray[np.float64]], ...]]:
    """What `pack_answers` packed, by round: a mapping for each replica."""
    found: dict[int, tuple[Mapping[str, NDArray[np.float64]], ...]] = {}
    values, at = packed["values"].numpy(), 0
    for index, counts in zip(packed["rounds"], packed["counts"], strict=True):
        answers = {}
        for question, count in counts.items():
            answers[question] = values[at : at + count]
            at += count
        found[index] = (*found.get(index, ()), answers)
    return found


def unpack(packed: Sequence[dict[str, Any]]) -> list[LearnerReport]:
    """What `pack` packed."""
    return [LearnerReport(one["round"], dict(zip(one["names"], one["values"].numpy(), strict=True))) for one in packed]
