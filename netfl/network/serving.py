"""A MAC at work in one cell."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from netfl.errors import ModelError, NetflError
from netfl.network.cell import Cell
from netfl.network.mac import Mac
from netfl.registry import kind_of


def serve(mac: Mac | None, cell: Cell, fail: Callable[[NetflError], None]) -> Generator[simpy.Event, Any, None]:
    """Run *mac* in *cell*; *fail* is called with what goes wrong in it, which ends the run."""
    assert mac is not None
    kind = kind_of(type(mac))
    try:
        yield from mac.serve(cell)
    except NetflError as error:
        failure: NetflError = error
    except Exception as error:  # whatever a MAC may raise
        failure = ModelError(kind, f"{type(error).__name__}: {error}", time_s=cell.env.now)
        failure.__cause__ = error
    else:
        failure = ModelError(kind, "it stopped serving its cell before the run was over", time_s=cell.env.now)
    fail(failure)
