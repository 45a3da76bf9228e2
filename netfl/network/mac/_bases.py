"""Bases of MACs in slots and of schedulers.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from typing import Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.core.plugins import Overridable
from netfl.errors import Fault
from netfl.network.mac import BufferedDraws, Mac
from netfl.network.periods import after_rounding
from netfl.network.radio.cell import UNLIMITED_AIRTIME, Cell
from netfl.network.reception import Reception
from netfl.types import Floats, Ints
from netfl.units import Seconds

_ROUNDING = 1e-9
"""Relative difference of two durations that counts as none."""
_RARE = 0.01
"""Share of frames that a suggested slot does not hold, where sizes have no upper limit."""
_DIGITS = 3
"""Significant digits of a suggested duration."""


class SlottedMac(Mac):
    """A MAC in slots, each of which should hold one frame; see `netfl.network.mac._slotted.SlottedCell`."""

    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of the largest frame in the slowest mode, without its delay."""

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    @property
    def channel_count(self) -> int:
        """Number of channels, each of which carries one frame in a slot."""
        return 1

    def channels_hz(self, bandwidth_hz: float) -> Floats | None:
        if self.channel_count == 1:
            return None
        return np.asarray(bandwidth_hz * np.arange(self.channel_count), np.float64)

    def reception_faults(self, reception: Reception) -> Iterator[Fault]:
        if reception.follows_snr:
            yield UNLIMITED_AIRTIME

    def airtime_faults(self, airtime_s: float) -> Iterator[Fault]:
        if self.slot is not None and self.slot < airtime_s:
            problem = f"the largest frame takes {airtime_s:.6g} s on the air"
            yield Fault("slot", problem, self.slot, "make it longer, or leave it out")

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return one frame in each slot and channel, and those that late arrivals leave room for."""
        if self.max_attempts is not None:  # frames that are given up leave, too
            return math.inf
        frames_per_slot = 1.0 + delay_s / airtime_s
        return self.channel_count * frames_per_slot / (self.slot or longest_s)

    def late_frame_warnings(self, mean_s: float, longest_s: float, delay_s: float) -> Iterator[str]:
        slot_s = self.slot or (longest_s if longest_s < math.inf else mean_s)
        late = f" and {delay_s:.4g} s of propagation delay" if delay_s else ""
        if longest_s == math.inf:
            # exponential airtimes of mean m exceed the slot, less the delay, with P(T > t) = exp(-t / m)
            late_share = math.exp(-max(slot_s - delay_s, 0.0) / mean_s)
            ample_s = _round_up(-math.log(_RARE) * mean_s + delay_s)
            yield (
                f"late frames: {100.0 * late_share:.3g} % of the frames do not end in their slot of {slot_s:.4g} s, as "
                f"their sizes have no upper limit (mean {mean_s:.4g} s{late}), and can overlap at the tower with "
                f"frames of the next slots; a slot of {ample_s} s (access.mac.slot) holds all but {100.0 * _RARE:g} %"
            )
        elif slot_s < (longest_s + delay_s) * (1.0 - _ROUNDING):
            yield (
                f"late frames: a frame of {longest_s:.4g} s{late} does not end in its slot of {slot_s:.4g} s; it "
                "overlaps at the tower with a frame of the next slot that has a shorter way; to exclude that, set "
                f"access.mac.slot: {_round_up(longest_s + delay_s)} s"
            )


class UserScheduler(Overridable, ABC):
    """Order in which a tower polls the users of its cell."""

    @abstractmethod
    def pick(self, backlog: Ints) -> int:
        """Return the user that sends next, from the numbers of the backlog."""

    def end_turn(self, user: int, duration_s: float, *, has_sent: bool) -> None:
        """Note the end of a turn; by default do nothing.

        Args:
            user: the user that was picked.
            duration_s: time from the poll to the end of the attempt.
            has_sent: whether the user sent; a user that is cut off does not.
        """


class TowerScheduler(Mac):
    """A tower that polls one user at a time: no collisions, and no idle time while there is a backlog.

    The tower waits until a frame has arrived, propagation delay included, before it polls again.  A poll itself takes
    ``poll``, whatever the distance; a user that is disconnected does not answer, and the tower polls the next at once.
    To serve several users at once, derive from `Mac` and give each a channel, as `controlled` does.
    """

    poll: Annotated[Seconds, Field(ge=0)] = 0.0
    """Duration of one poll."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    @property
    def observation_s(self) -> float:
        return self.poll

    @abstractmethod
    def scheduler(self, cell: Cell) -> UserScheduler:
        """Return the order of the polls in *cell*."""

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return one frame after each poll, if no frame is given up."""
        if self.max_attempts is not None:  # frames that are given up leave, too
            return math.inf
        return 1.0 / (self.poll + airtime_s)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Serve the users that the scheduler selects; one that is cut off during its poll does not answer."""
        scheduler = self.scheduler(cell)
        env = cell.env
        while True:
            cell.changes()  # discard them: the backlog shows all that matters here
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.wait_for_backlog()
                continue
            user = scheduler.pick(backlog)
            begin_s = env.now
            if self.poll:
                yield env.timeout(self.poll)
            has_sent = False
            if cell.ready_s[user] <= after_rounding(env.now):  # its frame was not replaced or lost during the poll
                end = cell.attempt(np.array([user]), limit=self.max_attempts)
                has_sent = cell.clear_s > env.now  # not if the user is cut off
                yield end
            scheduler.end_turn(user, env.now - begin_s, has_sent=has_sent)


def _round_up(duration_s: float) -> str:
    """Return a duration with few digits, not shorter than *duration_s*.

    >>> _round_up(0.11), _round_up(1.23456), _round_up(0.0100001)
    ('0.11', '1.24', '0.0101')
    """
    step = 10.0 ** (math.floor(math.log10(duration_s)) + 1 - _DIGITS)
    return f"{step * math.ceil(duration_s / step * (1.0 - _ROUNDING)):.{_DIGITS}g}"


def next_in_turn(backlog: Ints, last: int) -> int:
    """Return the first user of the sorted *backlog* after *last*, cyclically.

    >>> [next_in_turn(np.array([1, 4, 6]), last) for last in (0, 1, 5, 6)]
    [1, 4, 6, 1]
    """
    return int(backlog[np.searchsorted(backlog, last, side="right") % len(backlog)])


def channel_picker(cell: Cell, channels: int) -> Callable[[Ints], Ints]:
    """Return the function that draws the channel of each user's next attempt."""
    uniforms = BufferedDraws(cell.streams.field("channel").uniform, cell.ids)
    return lambda users: (channels * uniforms.next(users)).astype(np.int64)
