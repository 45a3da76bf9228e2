"""Stations that count down random numbers of idle slots: the heart of CSMA/CA.

Times within an idle period are whole nanoseconds from its beginning, so that slots never drift apart.  Stations that
wait with frozen counters are kept by the *virtual slot* in which their counter runs out: the number of idle slots that
have been counted since the start of the run.  A busy period freezes them all by standing still, which costs nothing;
the cost of an event is that of a heap, whatever the number of stations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

if TYPE_CHECKING:
    from netfl.network.cell import Cell

_NS = 1e-9
_SLACK_S = 1e-8
"""By how much the clock may miss an instant, by rounding."""
_DRAWS = 4096
_SIZES = 256
"""Sizes of frames whose durations are kept: few are in use, or each is another."""
_COLLISION = attrgetter("collision")


@dataclass(frozen=True, slots=True)
class Spaces:
    """Durations around one frame, in nanoseconds.

    Args:
        slot: an idle slot.
        difs: idle time before slots are counted.
        success: from the beginning of a sequence to the end of its ACK.
        data: the data frame.
        lead: what precedes it: RTS and CTS.
        collision: from the beginning to the end of what collides.
        timeout: from there to when the colliders count slots again.
        bystanders: from there to when the others do.
    """

    slot: int
    difs: int
    success: int
    data: int
    lead: int
    collision: int
    timeout: int
    bystanders: int


class Contention:
    """The stations of one cell.

    Args:
        cell: the cell.
        spaces: the durations around a frame of so many bits.
        cw: the least and the greatest contention window.
        limit: attempts that a frame has.
        continues: whether the window continues with the next frame after one that was given up or abandoned.
    """

    def __init__(
        self,
        cell: Cell,
        spaces: Callable[[float], Spaces],
        cw: tuple[int, int],
        limit: int | None,
        *,
        continues: bool,
    ) -> None:
        self._cell, self._limit, self._continues, (self._least, self._most) = cell, limit, continues, cw
        self._spaces = lru_cache(_SIZES)(spaces)
        self._slot = self._spaces(cell.most_bits).slot
        self._wait = self._difs = self._spaces(cell.most_bits).difs  # idle time before slots are counted
        self._idle_since_s, self._period = 0.0, 0
        self._virtual = 0  # idle slots counted before this idle period
        self._window = [self._least] * cell.size
        self._failures = [0] * cell.size  # of the frame at hand
        self._in_row = [0] * cell.size  # of whatever frames, since the window was set back
        self._due = [-1] * cell.size  # the virtual slot in which a station's counter runs out
        self._drawn = [-1] * cell.size  # the idle period before which it was drawn
        self._queued = [False] * cell.size  # whether a station has a frame and contends
        self._waited: set[int] = set()  # those who had a frame when they were cut off: once back, they back off
        self._frozen: list[tuple[int, int]] = []  # heap of (virtual slot, station)
        self._late: list[tuple[int, int, int]] = []  # (begins to count at, slots, station) of those out of step
        self._coming: list[tuple[float, int]] = []  # heap of (when, station) of frames that will come
        self._uniforms = _uniforms(cell.streams.rng("backoff"))

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Own the medium."""
        cell, env = self._cell, self._cell.env
        while True:
            self._take_note()
            offset = self._next_offset()
            start_s = inf if offset is None else self._idle_since_s + offset * _NS
            until_s = min(start_s, self._coming[0][0]) if self._coming else start_s
            if until_s > env.now + _SLACK_S and not (cell.quiet and offset is not None):
                yield cell.change(until_s)
                if cell.changed or self._comes_by(until_s):
                    continue
            if start_s <= until_s and offset is not None:
                yield from self._send(offset)

    def _comes_by(self, time_s: float) -> bool:
        """Whether a frame will have come by then."""
        return bool(self._coming) and self._coming[0][0] <= time_s + _SLACK_S

    def _take_note(self) -> None:
        """Stations whose frames have come, gone or changed."""
        cell, now = self._cell, self._cell.env.now
        if cell.changed:
            users = cell.changes()
            if cell.quiet:  # whoever is named has a frame
                for user in users.tolist():
                    if not self._queued[user]:
                        self._join(user, now)
                return
            for user, ready_s in zip(users.tolist(), cell.ready_s[users].tolist(), strict=True):
                if ready_s > now:
                    self._withdraw(user)
                    if ready_s < inf:
                        heappush(self._coming, (ready_s, user))
                elif not self._queued[user]:
                    self._join(user, ready_s)
        while self._comes_by(now):
            came_s, user = heappop(self._coming)
            if not self._queued[user] and cell.ready_s[user] == came_s:
                self._join(user, came_s)

    def _join(self, user: int, came_s: float) -> None:
        """A frame has come to a station: its counter may still run, or have run out; then the medium decides."""
        offset = round((came_s - self._idle_since_s) / _NS)
        left = self._due[user] - self._virtual
        counted = (offset - self._wait) // self._slot  # negative before slots are counted
        over = left < 0 or left <= counted or (left == 0 and self._drawn[user] != self._period)
        self._queued[user] = True
        back = user in self._waited
        self._waited.discard(user)
        if counted >= 0 and (over or back):
            late = (offset + self._difs, self._draw(user), user) if back else (offset, 0, user)
            self._late.append(late)
            return
        if over or back:
            self._draw(user)
        heappush(self._frozen, (self._due[user], user))

    def _withdraw(self, user: int) -> None:
        """A station has no frame any more, or is cut off."""
        cut_off = self._queued[user] and not self._cell.connected(np.array([user]))[0]
        if cut_off:
            self._waited.add(user)
        self._queued[user] = False
        self._failures[user] = 0
        if cut_off or not self._continues:
            self._set_back(user)
        if self._late:
            self._late = [one for one in self._late if one[2] != user]

    def _draw(self, user: int) -> int:
        """A new counter: so many slots."""
        slots = int(next(self._uniforms) * (self._window[user] + 1))
        self._due[user], self._drawn[user] = self._virtual + slots, self._period
        return slots

    def _next_offset(self) -> int | None:
        """When the next station sends, from the beginning of the idle period; ``None`` if nobody has a frame."""
        frozen = self._frozen
        while frozen and not (self._queued[frozen[0][1]] and self._due[frozen[0][1]] == frozen[0][0]):
            heappop(frozen)
        offset = self._wait + (frozen[0][0] - self._virtual) * self._slot if frozen else None
        for begins, slots, user in self._late:
            at = begins + slots * self._slot
            if self._queued[user] and (offset is None or at < offset):
                offset = at
        return offset

    def _take(self, offset: int) -> list[int]:
        """The stations whose turn is at *offset*; none of them waits any more."""
        slot, frozen, senders = self._slot, self._frozen, dict[int, None]()
        while frozen and self._wait + (frozen[0][0] - self._virtual) * slot == offset:
            due, user = heappop(frozen)
            if self._queued[user] and self._due[user] == due:
                senders[user] = None
        for begins, slots, user in self._late:
            if begins + slots * slot == offset and self._queued[user]:
                senders[user] = None
        for user in senders:
            self._queued[user] = False
        if self._late:
            self._late = [one for one in self._late if one[2] not in senders]
        return list(senders)

    def _freeze(self, offset: int) -> None:
        """Somebody begins to send at *offset*: all who wait stop counting."""
        slot = self._slot
        if offset > self._wait:
            self._virtual += (offset - self._wait) // slot
        late, self._late = self._late, []
        for begins, slots, user in late:
            counted = (offset - begins) // slot if offset > begins else 0
            self._due[user] = self._virtual + slots - counted
            heappush(self._frozen, (self._due[user], user))
        self._period += 1

    def _send(self, offset: int) -> Generator[simpy.Event, Any, None]:
        """Let those send whose turn it is, and see what becomes of it; where all are cut off, the slot stays idle."""
        cell = self._cell
        chosen = self._take(offset)
        senders = cell.present(chosen)
        if len(senders) < len(chosen):
            self._waited.update(set(chosen) - set(senders))
            if not senders:
                return
        self._freeze(offset)
        numbers, alone = np.array(senders), len(senders) == 1
        sizes = cell.sizes(numbers)
        spaces = self._spaces(sizes[0]) if len(sizes) == 1 else max(map(self._spaces, sizes), key=_COLLISION)
        duration = spaces.lead + spaces.data if alone else spaces.collision
        frames_s = [] if cell.quiet else cell.ready_s[numbers].tolist()
        start_s = self._idle_since_s + offset * _NS if cell.quiet else 0.0
        told = yield cell.attempt(numbers, duration_s=duration * _NS, limit=self._limit, begin_s=start_s)
        heard = told.tolist()
        answer = spaces.success - duration
        self._idle_since_s, self._wait, begins = cell.env.now, spaces.bystanders, spaces.timeout
        if True in heard:
            self._idle_since_s, self._wait, begins = cell.env.now + answer * _NS, spaces.difs, spaces.difs
        elif alone:
            self._wait = answer + spaces.difs
        for place, (user, good) in enumerate(zip(senders, heard, strict=True)):
            self._settle(user, begins, good=good, kept=cell.quiet or cell.ready_s[user] == frames_s[place])

    def _settle(self, user: int, begins: int, *, good: bool, kept: bool) -> None:
        """A station draws its next counter, with a doubled window if its frame failed; it may have *kept* the frame."""
        self._failures[user] += 1
        self._in_row[user] += 1
        over = good or not kept or self._failures[user] == self._limit
        if over:
            self._failures[user] = 0
        if good or (over and not self._continues) or self._in_row[user] > (self._limit or inf):
            self._set_back(user)
        else:
            self._window[user] = min(2 * self._window[user] + 1, self._most)
        slots = self._draw(user)
        if not good and (kept or self._cell.ready_s[user] <= self._cell.env.now):
            self._queued[user] = True
            self._late.append((begins, slots, user))

    def _set_back(self, user: int) -> None:
        """A station's window is the least again."""
        self._window[user], self._in_row[user] = self._least, 0


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws, a block at a time."""
    while True:
        yield from rng.random(_DRAWS).tolist()
