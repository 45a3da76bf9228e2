"""Files of checkpoints.  Reading one does not execute any code from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast
from zipfile import ZipFile

import numpy as np
import torch

from netfl.errors import MachineError
from netfl.files import refuse_special_file
from netfl.types import LearnerReport

_KEYS = {"round", "digest", "learner", "reports", "answers"}
_PICKLE = "data.pkl"
"""Part of an archive of `torch.save` that describes its content."""
_SCRIPT = "constants.pkl"
"""Part of an archive of TorchScript alone."""
_PROTOCOL = b"\x80\x02"
"""First bytes of this description: protocol 2, the one that torch reads as data."""


def save(file: IO[bytes], content: dict[str, Any]) -> None:
    """Write *content* (tensors, numbers, strings, lists and dictionaries of them) into an open *file*.

    The content is written without a copy in memory, for which there may be no room.

    Raises:
        OSError: the file cannot be written.
    """
    target = _ErrorKeepingFile(file)
    try:
        torch.save(content, cast("IO[bytes]", target))
    except Exception as error:
        raise target.error or _find_interrupt(error) or error from None


def _find_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that torch's writer replaced by *error*, as the file was not complete, if that is so."""
    context = error.__context__
    while context is not None:
        if isinstance(context, KeyboardInterrupt):
            return context
        context = context.__context__
    return None


class _ErrorKeepingFile:
    """Keeps the error of a failed write, which torch replaces by one without a cause."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.flush = file.flush
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        if self.error is None:
            try:
                return self._file.write(data)
            except OSError as error:
                self.error = error
        raise self.error


def load(path: Path) -> dict[str, Any]:
    """Read a file of `save`.

    Raises:
        MachineError: the file is damaged, or not a checkpoint.
    """
    try:
        refuse_special_file(path)
        _check_archive(path)
        content = dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch's reader lets many kinds of exceptions out
        raise MachineError(f"{path} is not a complete checkpoint") from error
    if not content.keys() >= _KEYS or not isinstance(content["round"], int):
        raise MachineError(f"{path} is not a checkpoint of a run")
    return content


def _check_archive(path: Path) -> None:
    """Refuse a file of another form: for a bare pickle or a script, torch prints warnings about its own functions.

    Raises:
        ValueError: the file is not an archive as torch writes it.
        BadZipFile: it is not an archive.
    """
    with ZipFile(path) as archive:
        names = [Path(name).name for name in archive.namelist()]
        if names.count(_PICKLE) != 1 or _SCRIPT in names:
            raise ValueError("not an archive of torch.save")
        description = archive.namelist()[names.index(_PICKLE)]
        with archive.open(description) as content:
            if content.read(len(_PROTOCOL)) != _PROTOCOL:
                raise ValueError("a pickle of another protocol")


def pack_reports(reports: Sequence[LearnerReport]) -> dict[str, Any]:
    """Convert *reports* for `save`: the metrics of each, and the answers of all in one tensor with their counts."""
    metrics = []
    rounds = []  # of each mapping of answers
    counts = []  # of values by question
    values = [np.empty(0)]
    for report in reports:
        if report.metrics:
            stacked = torch.from_numpy(np.stack([*report.metrics.values()]))
            metrics.append({"round": report.round, "names": [*report.metrics], "values": stacked})
        for answers in report.answers:
            rounds.append(report.round)
            counts.append({question: len(of_question) for question, of_question in answers.items()})
            values += answers.values()
    packed = {"rounds": rounds, "counts": counts, "values": torch.from_numpy(np.concatenate(values))}
    return {"reports": metrics, "answers": packed}


def unpack_reports(content: Mapping[str, Any]) -> dict[int, LearnerReport]:
    """Restore the reports of `pack_reports`, by round."""
    reports: dict[int, LearnerReport] = {}
    for saved in content["reports"]:
        index = saved["round"]
        metrics = dict(zip(saved["names"], saved["values"].numpy(), strict=True))
        reports[index] = LearnerReport(index, metrics)
    packed = content["answers"]
    values = packed["values"].numpy()
    start = 0
    for index, counts in zip(packed["rounds"], packed["counts"], strict=True):
        answers = {}
        for question, count in counts.items():
            answers[question] = values[start : start + count]
            start += count
        report = reports.get(index, LearnerReport(index))
        reports[index] = replace(report, answers=(*report.answers, answers))
    return reports
