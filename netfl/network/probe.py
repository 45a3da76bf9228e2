"""A probe: what the channels and outages of a network do, looked at as such, whether or not anybody sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.outage._combined import CombinedOutages
from netfl.network.periods import period_from
from netfl.network.radio.link_budget import LinkBudget
from netfl.registry import Spec
from netfl.types import ScenarioFacts
from netfl.units import Decibels, Seconds

_CHUNK = 1 << 17
"""Samples that are taken at a time."""
_ROUNDING = 1e-6


class Probe(Spec):
    """Looks at the links of some users at even distances in time, while a duration runs.

    Of the SNR x at which their towers would hear them, were they up, it tells, over all samples of all its users
    together (so let them stand alike): ``snr_mean_db``, the mean in dB; ``power_mean``, the mean of x as a ratio;
    ``power_variance``, its variance over the square of its mean; with a ``level``, the ``level_crossing_rate_hz``, how
    often a link falls below it in a second, and ``fade_duration_s``, time below it over such falls; with a ``lag``, the
    ``autocorrelation`` of x over it.  A fade that begins and ends between two looks is missed.

    Where there are outages it tells, exactly, the ``availability``, the share of time that its users are up, and
    ``up_mean_s`` and ``down_mean_s``: time up over falls, time down over returns.
    """

    every: Annotated[Seconds, Field(gt=0)]
    """Time from look to look."""
    users: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Whose links; ``null`` for those of all users."""
    level: Decibels | None = None
    """The SNR whose crossings are counted."""
    lag: Annotated[Seconds, Field(gt=0)] | None = None
    """For the autocorrelation: a whole number of times ``every``."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not, and a lag between two looks."""
        yield from facts.strangers("users", self.users or ())
        if len(set(self.users or ())) < len(self.users or ()):
            yield Fault("users", "a user is named twice", list(self.users or ()), "name each once")
        if self.lag is not None and abs(self.lag / self.every - self.steps) > _ROUNDING:
            yield Fault("lag", f"no multiple of every, {self.every:g} s", self.lag, "make it one")

    @property
    def steps(self) -> int:
        """The lag, in looks; 0 for none."""
        return max(1, round(self.lag / self.every)) if self.lag is not None else 0


class Sampler:
    """A probe at work.

    Args:
        probe: what is looked at.
        sites: where users stand.
        air: their links; ``None`` where there is no radio.
        outages: who is up when.
        since_s: from when on looks count for the figures.
    """

    def __init__(
        self, probe: Probe, sites: Layout, air: LinkBudget | None, outages: CombinedOutages, since_s: float
    ) -> None:
        self._probe, self._air, self._outages, self._since_s = probe, air, outages, since_s
        self._users = np.arange(sites.users) if probe.users is None else np.array(probe.users, np.int64)
        self._looks = self._pairs = self._moves = 0
        self._sum_db = self._sum = self._squares = self._products = 0.0
        self._below = self._falls = 0
        self._past: NDArray[np.float64] = np.empty((len(self._users), 0))
        self._last: NDArray[np.bool_] | None = None
        self._up_s = self._down_s = 0.0
        self._downs = self._ups = 0

    def look(self, start_s: float, end_s: float, ledger: EventLog) -> None:
        """Look from *start_s*, where the last looks ended, to *end_s*."""
        if self._outages:
            self._watch(max(start_s, self._since_s), end_s)
        if self._air is None:
            return
        first, last = (period_from(time_s, self._probe.every) for time_s in (start_s, end_s))
        chunk = max(1, _CHUNK // max(1, len(self._users)))
        for begin in range(first, last, chunk):
            times_s = np.asarray(self._probe.every * np.arange(begin, min(begin + chunk, last)), np.float64)
            self._sample(self._air, times_s, ledger)

    def figures(self) -> dict[str, float]:
        """What has been seen."""
        probe, told = self._probe, dict[str, float]()
        if self._looks:
            mean = self._sum / self._looks
            variance = self._squares / self._looks - mean**2
            told |= {"snr_mean_db": self._sum_db / self._looks, "power_mean": mean}
            told["power_variance"] = max(0.0, variance / mean**2)
            if self._pairs and variance > _ROUNDING * mean**2:
                told["autocorrelation"] = (self._products / self._pairs - mean**2) / variance
        if probe.level is not None and self._moves:
            told["level_crossing_rate_hz"] = self._falls / (self._moves * probe.every)
            told |= {"fade_duration_s": self._below * probe.every / self._falls} if self._falls else {}
        watched_s = self._up_s + self._down_s
        told |= {"availability": self._up_s / watched_s} if watched_s else {}
        told |= {"up_mean_s": self._up_s / self._downs} if self._downs else {}
        return told | ({"down_mean_s": self._down_s / self._ups} if self._ups else {})

    def _sample(self, air: LinkBudget, times_s: NDArray[np.float64], ledger: EventLog) -> None:
        """Take the SNR of all users at *times_s*, and count what is no warm-up."""
        who, when = np.tile(self._users, len(times_s)), np.repeat(times_s, len(self._users))
        snr_db = air.snr_db(who, when)
        if ledger.wants("sampled"):
            ledger.event("sampled", when, user=who, value=snr_db)
        counted = times_s >= self._since_s - _ROUNDING * self._probe.every
        if counted.any():
            self._count(snr_db.reshape(len(times_s), -1)[counted].T)

    def _count(self, snr_db: NDArray[np.float64]) -> None:
        """Count samples, ``[users, times]``, that follow those before."""
        power = 10.0 ** (snr_db / 10.0)
        self._looks += power.size
        self._sum_db += float(snr_db.sum())
        self._sum += float(power.sum())
        self._squares += float(np.square(power).sum())
        if lag := self._probe.steps:
            both = np.hstack([self._past, power])
            self._products += float((both[:, :-lag] * both[:, lag:]).sum())
            self._pairs += both[:, lag:].size
            self._past = both[:, -lag:]
        if self._probe.level is not None:
            below = snr_db < self._probe.level
            before = below[:, :1] if self._last is None else self._last
            falls = below & ~np.hstack([before, below[:, :-1]])
            self._falls += int(falls.sum())
            self._below += int(below.sum())
            self._moves += below.size
            self._last = below[:, -1:]

    def _watch(self, start_s: float, end_s: float) -> None:
        """Count the time up and down, and the changes, in (start, end]."""
        if end_s <= start_s:
            return
        when, _, up = self._outages.changes(self._users, start_s, end_s)
        began = int(self._outages.up(self._users, start_s).sum())
        up_s = began * (end_s - start_s) + float(np.where(up, end_s - when, when - end_s).sum())
        self._up_s += up_s
        self._down_s += len(self._users) * (end_s - start_s) - up_s
        self._ups += int(up.sum())
        self._downs += int((~up).sum())
