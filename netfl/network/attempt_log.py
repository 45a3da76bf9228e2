"""Record of attempts over the air: the events ``sent`` and ``failed``, and the rows of the table ``attempts``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from netfl.core.columns import Int32, Word
from netfl.types import Event, Floats, Ints, Recorder

if TYPE_CHECKING:
    from netfl.network.radio.transmission import Transmission

CAUSES = ("collided", "faded", "lost")
"""Causes of failed attempts: other senders, a signal that is too weak, an outage or an empty battery."""
BUSY = "busy"
"""Cause of failed attempts at a tower with a limited receiver: no free demodulator, or the tower was sending."""

JAMMED = "jammed"
"""Cause of failed attempts that meet a burst of a jammer, and would have been received without it."""
NO_ACCESS = "no_access"
"""Cause for which a frame is given up that its user has never found the medium free to send."""

T = TypeVar("T", bound=Hashable)
_CHUNK = 1 << 14
"""Number of rows that are gathered before they are recorded."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a user over the air; a row of the table ``attempts``.

    Each field is a column (`netfl.core.columns`).  A field that is added needs a default.

    Args:
        round: number of the round, or window, in which it ended.
        user: the sender.
        node: the tower that it sends to, such as ``tower:0``.
        start_s: start of the sending, in seconds.
        end_s: when all of the signal has arrived, a propagation delay after the end of the sending, in seconds.
        airtime_s: time for which the user sends.
        channel: number of the channel, from 0.
        mode: number of the mode of the reception, from 0.
        mode_name: name of the mode, such as ``SF7``; empty where the reception does not name it.
        bits: size of the frame, headers included.
        snr_db: SNR at the start, in dB; NaN where the outcome does not depend on it.
        outcome: ``received``, ``collided``, ``faded``, ``lost``, ``busy`` at a tower with a limited receiver,
            ``jammed`` with a jammer, or ``unfinished`` at the end of the run.
        base: version that the update in the frame started from; -1 for a packet of traffic.
        traffic: class of traffic of the packet; empty for an update.
        power_db: power of the frame above that of the user's radio, in dB; 0 is full power.
    """

    round: int
    user: int
    node: Word
    start_s: float
    end_s: float
    airtime_s: float
    channel: Int32
    mode: Int32
    mode_name: Word
    bits: float
    snr_db: float
    outcome: Word
    base: int
    traffic: Word
    power_db: float = 0.0


@dataclass(slots=True, eq=False)
class _EndedAttempts:
    """Attempts of one transmission, with the outcome and the SNR of each, ``[n]``."""

    transmission: Transmission
    end_s: float
    outcomes: Sequence[str]
    snr_db: Floats


class AttemptLog:
    """Record of the attempts of one replica.

    Attributes:
        round: number of the open round.
        mode_names: names of the modes of the reception.
        records_starts: whether starts of attempts are recorded; ask before `begin`.
        records_ends: whether ends of attempts are recorded; ask before `end`.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._records_failures = recorder.wants("failed")
        self._records_rows = recorder.wants("attempts")
        self.records_starts = recorder.wants("sent")
        self.records_ends = self._records_failures or self._records_rows
        self.round = 0  # none is open before the first
        self.mode_names: Sequence[str] = ("",)
        self._ended: list[_EndedAttempts] = []
        self._rows = 0

    def begin(self, node: str, time_s: float, users: Ints, bits: float | Floats, traffic: str | Sequence[str]) -> None:
        """Record that *users* begin to send frames of one class of *traffic*, or of one for each, to *node*."""
        record = self._recorder.record
        if isinstance(traffic, str):
            record(Event("sent", time_s, self.round, users, node, bits, traffic=traffic))
            return
        sizes = np.broadcast_to(bits, len(users))
        for name, places in _places(traffic):
            record(Event("sent", time_s, self.round, users[places], node, sizes[places], traffic=name))

    def end(self, transmission: Transmission, causes: Sequence[str], snr_db: Floats, now_s: float) -> None:
        """Record the end of a transmission, with the cause of failure of each frame; empty if it was received."""
        if self._records_failures and any(causes):
            self._record_failures(transmission, causes, snr_db, now_s)
        if self._records_rows:
            self._add(_EndedAttempts(transmission, now_s, [cause or "received" for cause in causes], snr_db))

    def finish(self, on_air: Sequence[Transmission]) -> None:
        """Record the transmissions that are *on_air* at the end of the run."""
        if not self._records_rows:
            return
        for transmission in on_air:
            size = len(transmission.ids)
            self._add(_EndedAttempts(transmission, transmission.end_s, ["unfinished"] * size, np.full(size, np.nan)))
        self.flush()

    def flush(self) -> None:
        """Pass the gathered rows to the recorder."""
        if self._ended:
            self._recorder.add_rows("attempts", _to_columns(self._ended, self.round, self.mode_names))
        self._ended = []
        self._rows = 0

    def _add(self, ended: _EndedAttempts) -> None:
        self._ended.append(ended)
        self._rows += len(ended.outcomes)
        if self._rows >= _CHUNK:
            self.flush()

    def _record_failures(self, transmission: Transmission, causes: Sequence[str], snr_db: Floats, now_s: float) -> None:
        """Record an event for the frames of each cause and class of traffic."""
        traffic = transmission.frames.traffic
        classes = [traffic] * len(causes) if isinstance(traffic, str) else traffic
        node = transmission.tower.name
        for (cause, name), places in _places([*zip(causes, classes, strict=True)]):
            if cause:
                users = transmission.ids[places]
                self._recorder.record(Event("failed", now_s, self.round, users, node, snr_db[places], cause, name))


def _places(values: Sequence[T]) -> Sequence[tuple[T, slice | list[int]]]:
    """Return each of *values* with its places; all places if there is only one."""
    places: dict[T, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        places[value].append(place)
    if len(places) == 1:
        return [(values[0], slice(None))]
    return [*places.items()]


def _to_columns(ended: Sequence[_EndedAttempts], round: int, mode_names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``attempts`` for attempts that ended in one round."""
    transmissions = [each.transmission for each in ended]
    sizes = [len(each.outcomes) for each in ended]

    def repeat(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
        return np.repeat(np.array(values, dtype), sizes)

    def join(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
        """Concatenate values, one for all frames of a transmission or one for each."""
        pairs = zip(values, sizes, strict=True)
        return np.concatenate([np.broadcast_to(np.asarray(value, dtype), size) for value, size in pairs])

    return {
        "round": np.full(sum(sizes), round),
        "user": np.concatenate([each.ids for each in transmissions]),
        "node": repeat([each.tower.name for each in transmissions], object),
        "start_s": repeat([each.begin_s for each in transmissions], float),
        "end_s": repeat([each.end_s for each in ended], float),
        "airtime_s": repeat([each.airtime_s for each in transmissions], float),
        "channel": repeat([each.channel for each in transmissions], np.int64),
        "mode": repeat([each.mode for each in transmissions], np.int64),
        "mode_name": repeat([mode_names[each.mode] for each in transmissions], object),
        "bits": join([each.frames.bits for each in transmissions], float),
        "snr_db": np.concatenate([each.snr_db for each in ended]),
        "outcome": np.array([*chain.from_iterable(each.outcomes for each in ended)], object),
        "base": join([each.frames.base for each in transmissions], np.int64),
        "traffic": join([each.frames.traffic for each in transmissions], object),
        "power_db": join([_power_db(each) for each in transmissions], float),
    }


def _power_db(transmission: Transmission) -> float | Floats:
    """Return the power of each frame above that of the user's radio, one for all or ``[n]``."""
    if transmission.power_offset_db is None:
        return 0.0
    return transmission.power_offset_db
