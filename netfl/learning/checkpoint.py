"""Checkpoints: where a run stood, in one file that is whole or absent, read back without running any code of it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netfl.errors import MachineError
from netfl.types import Report


def save(path: Path, content: dict[str, Any]) -> None:
    """Write *content* (tensors, numbers, strings, lists and dictionaries of them) beside *path* and move it there."""
    part = path.with_name(path.name + ".part")
    torch.save(content, part)
    part.replace(path)


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote.

    Raises:
        MachineError: the file is not a whole checkpoint.
    """
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), "it is empty")
        raise MachineError(f"{path} is not a whole checkpoint ({reason}); remove it to start the run again") from error


def pack(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Reports as what `save` takes."""
    return [
        {"round": one.round, "names": [*one.metrics], "values": torch.from_numpy(np.stack([*one.metrics.values()]))}
        for one in reports
    ]


def unpack(packed: Sequence[dict[str, Any]]) -> list[Report]:
    """What `pack` packed."""
    return [Report(one["round"], dict(zip(one["names"], one["values"].numpy(), strict=True))) for one in packed]
