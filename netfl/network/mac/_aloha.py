"""What slotted ALOHA on one channel and on many have in common: with which probability a user sends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._adaptive import Known, PseudoBayesian, serve_adaptive
from netfl.network.mac._draws import Draws
from netfl.network.mac._slots import Slots, serve_slots, slots_hz, too_short
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.cell import Cell

_MOST_DOUBLINGS = 10


class Aloha(Mac):
    """Slotted ALOHA with a probability that is fixed or adapts itself."""

    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """p, with which a user that has something to send does so in a slot; exactly one of this and ``adaptive``."""
    adaptive: Literal["known", "pseudo_bayesian", "backoff"] | None = None
    """How p adapts itself."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of one update."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        """One way to say it."""
        if (self.probability is None) == (self.adaptive is None):
            raise ValueError("give probability or adaptive, exactly one of them")
        return self

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One in each slot, unless several can be given up in one."""
        return slots_hz(self.slot or longest_s, self.max_attempts)

    def misfits(self, airtime_s: float) -> Iterator[Fault]:
        """A slot that is too short."""
        yield from too_short(self.slot, airtime_s)

    def _serve(self, cell: Cell, channels: int) -> Generator[simpy.Event, Any, None]:
        """Own *cell*, whose users pick one of so many channels at random for each attempt."""
        slot_s, channel = self.slot or cell.airtime_s, picker(cell, channels)
        if self.adaptive == "known":
            return serve_adaptive(cell, slot_s, Known(channels), self.max_attempts, channel)
        if self.adaptive == "pseudo_bayesian":
            return serve_adaptive(cell, slot_s, PseudoBayesian(channels), self.max_attempts, channel)
        pick = channel if channels > 1 else None
        if self.adaptive == "backoff":
            choose, ended = _backoff(cell)
            return serve_slots(cell, slot_s, choose, self.max_attempts, channel=pick, ended=ended)
        return serve_slots(cell, slot_s, _fixed(cell, self.probability or 1.0), self.max_attempts, channel=pick)


def picker(cell: Cell, channels: int) -> Callable[[Slots], Slots]:
    """The channel that each user takes for its next attempt."""
    luck = Draws(cell.streams.field("channel").uniform, cell.ids)

    def pick(users: Slots) -> Slots:
        if channels == 1:
            return np.zeros(len(users), np.int64)
        return (channels * luck.next(users)).astype(np.int64)

    return pick


def _fixed(cell: Cell, probability: float) -> Callable[[Slots, Slots], Slots]:
    """Draw for each user how many slots it lets pass before its next attempt."""
    gaps = Draws(partial(cell.streams.field("gap").geometric, probability), cell.ids)
    turn = np.full(cell.size, -1)

    def choose(users: Slots, first: Slots) -> Slots:
        over = turn[users] < first  # a gap that is not over has no memory of when it began: it serves on
        again = users[over]
        turn[again] = first[over] - 1 + gaps.next(again).astype(np.int64)
        return turn[users]

    return choose


def _backoff(cell: Cell) -> tuple[Callable[[Slots, Slots], Slots], Callable[[Slots, NDArray[np.bool_]], None]]:
    """The same with p = 2^-failures of the update at hand, and what counts the failures."""
    gaps, turn = Draws(cell.streams.field("gap").uniform, cell.ids), np.full(cell.size, -1)
    failures, ready_s = np.zeros(cell.size, np.int64), np.full(cell.size, np.nan)

    def choose(users: Slots, first: Slots) -> Slots:
        new = cell.ready_s[users] != ready_s[users]
        ready_s[users] = cell.ready_s[users]
        failures[users[new]] = 0
        over = new | (turn[users] < first)
        again, first = users[over], first[over]
        trials = np.log(gaps.next(again))
        doublings = np.minimum(failures[again], _MOST_DOUBLINGS)
        with np.errstate(divide="ignore"):
            trials /= np.log1p(-(0.5**doublings))
        turn[again] = first - 1 + np.maximum(np.ceil(trials), 1.0).astype(np.int64)
        return turn[users]

    def ended(users: Slots, heard: NDArray[np.bool_]) -> None:
        failures[users] = np.where(heard, 0, failures[users] + 1)

    return choose, ended
