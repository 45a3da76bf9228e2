"""Checkpoints: where a run stood, in one file that is whole or absent, read back without running any code of it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netfl.errors import MachineError
from netfl.types import Report

_KEYS = {"round", "digest", "learner", "reports"}


def save(path: Path, content: dict[str, Any]) -> None:
    """Write *content* (tensors, numbers, strings, lists and dictionaries of them) beside *path* and move it there."""
    whole = BytesIO()
    torch.save(content, whole)  # not straight into the file: torch says of a full disk that its own writer is broken
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(whole.getbuffer())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote.

    Raises:
        MachineError: the file is not a whole checkpoint.
    """
    try:
        content = dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch's reader lets many kinds of exceptions out
        raise MachineError(f"{path} is not a whole checkpoint; remove it to start the run again") from error
    if not content.keys() >= _KEYS:
        raise MachineError(f"{path} is no checkpoint of a run; remove it to start the run again")
    return content


def pack(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Reports as what `save` takes."""
    return [
        {"round": one.round, "names": [*one.metrics], "values": torch.from_numpy(np.stack([*one.metrics.values()]))}
        for one in reports
    ]


def unpack(packed: Sequence[dict[str, Any]]) -> list[Report]:
    """What `pack` packed."""
    return [Report(one["round"], dict(zip(one["names"], one["values"].numpy(), strict=True))) for one in packed]
