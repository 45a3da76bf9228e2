"""Gains of links that were measured over time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.files.schema import DELAY, TIME, USER, FileColumn
from netfl.files.tables import UserTable
from netfl.network._series import last_not_after
from netfl.network.channel import LinkGain, OutsideDataError
from netfl.network.channel._measured import (
    GainScale,
    Measured,
    MeasuredTable,
    link_schema,
    listed,
)
from netfl.network.layout import Layout
from netfl.network.periods import LATER, SAME_INSTANT_S
from netfl.streams import Streams
from netfl.types import Floats, Ints
from netfl.units import Seconds

Interpolation = Literal["linear", "previous", "nearest"]


class Trace(Measured):
    """Gain of each user's link over time, as measured.

    The CSV or Parquet file has the columns ``user``, ``time_s`` and one of

    - ``gain_db``: the gain, negative for a loss;
    - ``snr_db``: the SNR of a signal of ``radio.power`` in the noise of the radio, from which the gain follows;
    - ``rsrp_dbm``: a received power; the gain is its ratio to ``reference_power``, the power that was sent;
    - ``rate_bps``: a bit rate r ≥ 0, taken as the capacity in ``radio.bandwidth`` B: snr = 2^(r/B) - 1.  A rate of 0 is
      an SNR of -200 dB.  With ``reception: shannon`` of the rate R, frames are received while r ≥ R.

    No link amplifies: a gain of 0 dB or more, a received power above the sent one, and SNRs and rates that give such a
    gain are errors.  Rows with a value in ``missing`` hold no measurement and are left out.

    The lines of a user are in the order of time, from time 0 or before.  Between two lines at t0 and t1 the value is
    ``linear`` in time (in dB, or in bit/s), that of the ``previous`` line, or that of the ``nearest`` one, at equal
    distance the later.  The last line of a user must not be before the end of the run, unless ``after_end`` or
    ``repeat`` says what follows.

    Values are those of the link to the user's tower.  With a column ``tower``, such as ``tower:0``, the file has a
    trace for each tower.  This is needed where users of other cells interfere (``shared_air``).

    A column ``delay_s`` has the propagation delay of the link at the time of the line, for links so long that it
    counts, such as those of satellites.  It is interpolated as the value is.

    A measured gain contains path loss, shadowing and any fading that is slower than the measurement.  Add a model of
    fading only for what is faster.

    Example::

        kind: trace
        file: drive.csv
        interpolation: linear
        after_end: hold
    """

    file_schema: ClassVar = link_schema(
        "channel `trace`",
        FileColumn("user", USER),
        FileColumn("time_s", TIME),
        FileColumn("delay_s", DELAY, is_needed=False),
    )

    interpolation: Interpolation = "linear"
    """Rule for times between two lines: ``linear``, ``previous`` or ``nearest``."""
    after_end: Literal["error", "hold"] = "error"
    """After the last line of a user: ``error`` ends the run with an error; ``hold`` keeps its value."""
    repeat: Annotated[Seconds, Field(gt=0)] | None = None
    """Period after which the file repeats; its times are from 0 to below it, and the last line leads to the first."""

    @model_validator(mode="after")
    def _check_end(self) -> Trace:
        if self.repeat is not None and self.after_end == "hold":
            raise ValueError("after_end has no effect, as the file repeats; leave after_end or repeat out")
        return self

    @property
    def has_delay(self) -> bool:
        return "delay_s" in self.measured.columns

    def check_users(self, users: int) -> None:
        measured = self.measured
        listed_users = measured.columns["user"]
        if listed_users.max() >= users:
            row = int(np.argmax(listed_users >= users))
            problem = f"{measured.place(row)}: no such user"
            remedy = f"users are numbered 0 to {users - 1}"
            raise ScenarioError([Fault("file", problem, int(listed_users[row]), remedy)])
        missing = np.setdiff1d(np.arange(users), listed_users)
        if missing.size:
            problem = f"{measured.file_name} has no line for user {listed(missing.tolist())}"
            raise ScenarioError([Fault("file", problem, None, f"give a trace for each of the {users} users")])

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        self.check_users(layout.users)
        self.check_towers(layout)
        self.check_gains()
        series = self._series(layout)
        return _TraceGain(
            series,
            self.scale(),
            self.interpolation,
            repeat_s=self.repeat,
            holds=self.after_end == "hold",
            file_name=self.file.name,
        )

    def coherence_in(self, layout: Layout) -> float:
        return self._series(layout).step_s

    def data_misfit(self, layout: Layout, end_s: float) -> Fault | None:
        if self.repeat is not None or self.after_end == "hold":
            return None
        series = self._series(layout)
        last_s = series.times_s[series.first[1:] - 1]
        user = int(last_s.argmin())
        if last_s[user] * LATER + SAME_INSTANT_S >= end_s:
            return None
        if np.isinf(end_s):
            problem = f"the trace of user {user} ends at {last_s[user]:g} s, and the end of the run is not known"
        else:
            problem = f"the trace of user {user} ends at {last_s[user]:g} s, before the end of the run at {end_s:g} s"
        return Fault("after_end", problem, None, "measure longer, set after_end: hold, or give repeat, the period")

    def has_links(self, tower: str, users: int) -> bool:
        measured = self.measured
        if measured.towers is None:
            return False
        listed_users = measured.columns["user"][measured.towers == tower]
        return len(np.unique(listed_users)) == users

    def _read(self, table: UserTable) -> MeasuredTable:
        measured = self.read_measured(table)
        table = measured.table
        _refuse_disorder(table, measured)
        if "delay_s" in table:
            measured.columns["delay_s"] = table.numbers(self.file_schema["delay_s"])
        if self.repeat is not None:
            times_s = measured.columns["time_s"]
            period_s = self.repeat
            is_outside = (times_s < 0.0) | (times_s >= period_s)
            remedy = f"times are from 0 to below {period_s:g}, the period"
            table.refuse_cells("time_s", is_outside, lambda cell: Fault("", "not within repeat", cell, remedy))
        table.check()
        return measured

    def _series(self, layout: Layout) -> _Series:
        """Return the lines of each user for its tower.

        Raises:
            ScenarioError: a user has no line for its tower, or none at time 0; the key is ``file``.
        """
        measured = self.measured
        users: Ints = measured.columns["user"]
        times_s: Floats = measured.columns["time_s"]
        rows = np.arange(len(users))
        if measured.towers is not None:
            tower_of = np.array(layout.towers, object)[layout.tower_at_start]
            rows = np.flatnonzero(measured.towers == tower_of[users])
        rows = rows[np.argsort(users[rows], kind="stable")]
        first = np.searchsorted(users[rows], np.arange(layout.users + 1))
        lines = np.diff(first)
        if not lines.all():
            user = int(lines.argmin())
            tower = layout.towers[layout.tower_at_start[user]]
            problem = f"{measured.file_name} has no line for user {user} and {tower}"
            raise ScenarioError([Fault("file", problem, None, "give the trace to its tower")])
        first_s = times_s[rows][first[:-1]]
        if self.repeat is None and first_s.max() > 0.0:
            user = int(first_s.argmax())
            place = measured.place(int(rows[first[user]]))
            problem = f"{place}: the trace of user {user} begins at {first_s[user]:g} s, after time 0"
            raise ScenarioError([Fault("file", problem, None, "give its value at time 0, or shift the times")])
        delays_s = measured.columns["delay_s"][rows] if self.has_delay else None
        return _Series(times_s[rows], measured.values[rows], first, delays_s)


def _refuse_disorder(table: UserTable, measured: MeasuredTable) -> None:
    """Refuse lines that are not after the line before of the same user and tower."""
    users = measured.columns["user"]
    times_s = measured.columns["time_s"]
    keys: list[Ints] = [users]
    if measured.towers is not None:
        _, numbers = np.unique(measured.towers.astype(str), return_inverse=True)
        keys.append(numbers.ravel())
    order = np.lexsort(keys)  # stable: the lines of one trace stay in the order of the file
    is_same = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        is_same &= np.diff(key[order]) == 0
    is_late = is_same & (np.diff(times_s[order]) <= 0.0)
    is_wrong = np.zeros(len(order), bool)
    is_wrong[order[1:]] = is_late
    before = np.zeros(len(order), np.int64)
    before[order[1:]] = order[:-1]

    def describe(row: int) -> Fault:
        earlier = before[row]
        problem = (
            f"times of user {users[row]} are not ascending: {times_s[row]:g} follows {times_s[earlier]:g} "
            f"in {table.place(earlier)}"
        )
        return Fault("", problem, None, "sort the lines of each user by time, each time once")

    table.refuse(is_wrong, describe)


@dataclass(frozen=True, slots=True)
class _Series:
    """Lines of all users, user by user in the order of time.

    Args:
        times_s: time of each line, ``[n]``.
        values: its value, ``[n]``.
        first: the place of each user's first line, and the end, ``[users + 1]``.
        delays_s: propagation delay at each line, ``[n]``; ``None`` without delays.
    """

    times_s: Floats
    values: Floats
    first: Ints
    delays_s: Floats | None = None

    @property
    def step_s(self) -> float:
        """Median time between two lines of a user; infinity if each user has one line."""
        steps_s = np.diff(self.times_s)
        is_within = np.ones(len(steps_s), bool)
        is_within[self.first[1:-1] - 1] = False
        if not is_within.any():
            return np.inf
        return float(np.median(steps_s[is_within]))

    def wrapped(self, period_s: float) -> _Series:
        """Return the series with each user's last line a period before, and its first line a period later."""
        count = np.diff(self.first)
        users = np.repeat(np.arange(len(count)), count)
        ends = np.arange(len(count))
        first = self.first[:-1]
        last = self.first[1:] - 1
        times_s = np.concatenate([self.times_s[last] - period_s, self.times_s, self.times_s[first] + period_s])
        order = np.argsort(np.concatenate([ends, users, ends]), kind="stable")
        lines = np.concatenate([last, np.arange(len(users)), first])[order]
        delays_s = None if self.delays_s is None else self.delays_s[lines]
        wider = self.first + 2 * np.arange(len(self.first))
        return _Series(times_s[order], self.values[lines], wider, delays_s)


class _TraceGain(LinkGain):
    """Gain along pieces in which the value is linear: from each line on, or, for ``nearest``, from each middle on.

    Args:
        series: the lines of all users.
        scale: conversion of values to gains.
        interpolation: rule between two lines.
        repeat_s: period of the series; ``None`` without repetition.
        holds: whether the last value holds after its time.
        file_name: name of the file, for messages.
    """

    def __init__(
        self,
        series: _Series,
        scale: GainScale,
        interpolation: Interpolation,
        *,
        repeat_s: float | None,
        holds: bool,
        file_name: str,
    ) -> None:
        self._file_name = file_name
        self._hold_s = series.step_s
        if repeat_s is not None:
            series = series.wrapped(repeat_s)
        if interpolation == "nearest":
            self._hold_s /= 2.0  # the value changes in the middle between two lines
        self._repeat_s = repeat_s
        self._first = series.first
        self._scale = scale
        self._values = series.values
        self._times_s = series.times_s
        self._starts_s = series.times_s
        self._slopes = np.zeros(len(series.values))  # change of the value per second in the piece from each line on
        self._delays_s = series.delays_s
        self._delay_slopes = np.zeros(len(series.values))  # and of the delay
        last = series.first[1:] - 1
        if interpolation == "linear":
            self._slopes = _slopes(series, series.values)
            if series.delays_s is not None:
                self._delay_slopes = _slopes(series, series.delays_s)
        elif interpolation == "nearest":
            self._starts_s = _middles(series)
        if scale.bandwidth_hz is None or interpolation != "linear":  # values in dB: no conversion later
            self._values = scale.gain_db(self._values)
            self._scale = GainScale()
        self._is_gain = self._scale == GainScale()
        self._last_s = np.full(len(last), np.inf)
        if not holds and repeat_s is None:
            self._last_s = series.times_s[last] * LATER + SAME_INSTANT_S
        self._ends_s = np.append(self._starts_s[1:], np.inf)
        self._ends_s[last] = np.inf
        self._latest = series.first[:-1].copy()  # piece of each user's last question: the next is mostly in the same

    @property
    def hold_s(self) -> float:
        return self._hold_s

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        if len(users) == 1 and isinstance(time_s, float):
            return self._of_one(int(users[0]), time_s)
        piece, elapsed_s = self._places(users, time_s)
        return self._scale.gain_db(self._values[piece] + self._slopes[piece] * elapsed_s)

    def delay_s(self, users: Ints, time_s: float) -> Floats | None:
        if self._delays_s is None:
            return None
        piece, elapsed_s = self._places(users, time_s)
        return self._delays_s[piece] + self._delay_slopes[piece] * elapsed_s

    def _places(self, users: Ints, time_s: ArrayLike) -> tuple[Ints, Floats]:
        """Return the piece of each user that holds at *time_s*, and the time since its line, ``[n]`` each."""
        time = np.broadcast_to(np.asarray(time_s, float), users.shape)
        is_after = time > self._last_s[users]
        if is_after.any():
            row = int(np.argmax(is_after))
            self._refuse(int(users[row]), float(time[row]))
        if self._repeat_s is not None:
            time = np.mod(time, self._repeat_s)
        piece = self._pieces(users, time * LATER + SAME_INSTANT_S)
        return piece, time - self._times_s[piece]

    def _pieces(self, users: Ints, time_s: Floats) -> Ints:
        """Return the piece of each user that holds at *time_s*, ``[n]``."""
        pieces = self._latest[users]
        is_other = (time_s < self._starts_s[pieces]) | (time_s >= self._ends_s[pieces])
        if is_other.any():
            pieces[is_other] = last_not_after(self._starts_s, self._first, users[is_other], time_s[is_other])
            self._latest[users] = pieces
        return pieces

    def peak_db(self, users: Ints) -> Floats:
        highest = np.maximum.reduceat(self._values, self._first[:-1])[users]  # a piece is largest at one of its ends
        return self._scale.gain_db(highest)

    def _of_one(self, user: int, time_s: float) -> Floats:
        """Return the gain of one user, ``[1]``, faster than for an array of users."""
        if time_s > self._last_s.item(user):
            self._refuse(user, time_s)
        if self._repeat_s is not None:
            time_s %= self._repeat_s
        rounded_s = time_s * LATER + SAME_INSTANT_S
        piece = self._latest.item(user)
        if not self._starts_s.item(piece) <= rounded_s < self._ends_s.item(piece):
            first = self._first.item(user)
            after = bisect_right(self._starts_s, rounded_s, first, self._first.item(user + 1))
            piece = max(after - 1, first)
            self._latest[user] = piece
        elapsed_s = time_s - self._times_s.item(piece)
        value = np.array([self._values.item(piece) + self._slopes.item(piece) * elapsed_s])
        if self._is_gain:
            return value
        return self._scale.gain_db(value)

    def _refuse(self, user: int, time_s: float) -> NoReturn:
        problem = f"{self._file_name} has no values of the user after {self._last_s[user]:g} s"
        problem += "; measure longer, set after_end: hold, or give repeat, the period"
        raise OutsideDataError("channel trace", problem, user, time_s)


def _slopes(series: _Series, values: Floats) -> Floats:
    """Return the change of *values* per second from each line to the next of its user; 0 after a user's last."""
    last = series.first[1:] - 1
    steps_s = np.diff(series.times_s)
    steps_s[last[:-1]] = 1.0  # to the first line of the next user
    slopes = np.zeros(len(values))
    slopes[:-1] = np.diff(values) / steps_s
    slopes[last] = 0.0
    return slopes


def _middles(series: _Series) -> Floats:
    """Return the time from which each line is the nearest of its user."""
    starts_s = series.times_s.copy()
    starts_s[1:] = (series.times_s[1:] + series.times_s[:-1]) / 2.0
    first = series.first[:-1]
    starts_s[first] = series.times_s[first]
    return starts_s
