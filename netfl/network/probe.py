"""Probe: samples of channels and outages, independent of transmissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.outage._combined import CombinedOutages
from netfl.network.periods import period_from
from netfl.network.radio.link_budget import LinkBudget
from netfl.registry import Spec
from netfl.types import Bools, Floats, ScenarioFacts
from netfl.units import Decibels, Seconds, db_to_linear

_CHUNK = 1 << 17
"""Number of samples computed at once."""
_MAX_STEPS = 100_000
"""Longest lag, in samples."""
_ROUNDING = 1e-6
"""Share by which a time, or a variance, may differ by rounding."""
_ORDINARY_DB = 500.0
"""SNR up to which the square of the power is an ordinary number."""


class Probe(Spec):
    """Samples of the links of some users at regular times, in a run with a duration.

    ``record: [sampled]`` stores each sample as an event ``sampled``; by default only the metrics are kept.

    The metrics are about the SNR x of these users at their towers, without outages, over all samples of all users
    together, which should therefore have equal positions.  ``snr_mean_db`` is the mean in dB, ``power_mean`` the mean
    of x as a ratio, ``power_variance`` its variance over the square of its mean.  With a ``level``,
    ``level_crossing_rate_hz`` is the number of times a second that a link falls below it, and ``fade_duration_s`` the
    time below it per fall.  With a ``lag``, ``autocorrelation`` is that of x.  A fade between two samples is missed.

    With outages there are exact metrics: ``availability``, the share of time that the users are up, and ``up_mean_s``
    and ``down_mean_s``, the time up per outage and the time down per return.
    """

    every: Annotated[Seconds, Field(gt=0)]
    """Time between samples."""
    users: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Users whose links are sampled; ``null`` for all."""
    level: Decibels | None = None
    """SNR whose crossings are counted."""
    lag: Annotated[Seconds, Field(gt=0)] | None = None
    """Lag of the autocorrelation: a multiple of ``every``, at most 100,000 times as long."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.unknown_users("users", self.users or ())
        if len(set(self.users or ())) < len(self.users or ()):
            yield Fault("users", "a user is listed twice", list(self.users or ()), "list each user once")
        if self.lag is not None and self.lag / self.every > _MAX_STEPS + 0.5:
            problem = f"longer than {_MAX_STEPS:,} samples, all of which are kept"
            yield Fault("lag", problem, self.lag, "use a shorter one, or a larger every")
        elif self.lag is not None and abs(self.lag / self.every - self.steps) > _ROUNDING:
            yield Fault("lag", f"not a multiple of every, {self.every:g} s", self.lag, "use a multiple")

    @property
    def steps(self) -> int:
        """Lag in samples; 0 for none."""
        if self.lag is None:
            return 0
        return max(1, round(self.lag / self.every))


class Sampler:
    """State of a probe during a run.

    Args:
        air: SNR of the links; ``None`` without radio.
        since_s: start of the samples that count for the metrics.
    """

    def __init__(
        self, probe: Probe, layout: Layout, air: LinkBudget | None, outages: CombinedOutages, since_s: float
    ) -> None:
        self._probe = probe
        self._air = air
        self._outages = outages
        self._since_s = since_s
        if probe.users is None:
            self._users = np.arange(layout.users)
        else:
            self._users = np.array(probe.users, np.int64)
        # number of samples, and sums of the SNR in dB, of the power over a reference, and of its square
        self._samples = 0
        self._sum_db = 0.0
        self._reference_db = 0.0
        self._sum = 0.0
        self._squares = 0.0
        # number of pairs of samples a lag apart, the sum of their products, and the last samples, which have no pair
        self._pairs = 0
        self._products = 0.0
        self._unpaired: Floats = np.empty((len(self._users), 0))
        # number of samples below the level, of those after one that is not, and of all; whether the last ones are
        self._below = 0
        self._falls = 0
        self._compared = 0
        self._was_below: Bools | None = None
        # time up and down, and changes
        self._up_s = 0.0
        self._down_s = 0.0
        self._ups = 0
        self._downs = 0

    def sample(self, start_s: float, end_s: float, log: EventLog) -> None:
        """Take the samples from *start_s*, the end of the last call, to *end_s*."""
        if self._outages:
            self._count_outages(max(start_s, self._since_s), end_s)
        if self._air is None:
            return
        first = period_from(start_s, self._probe.every)
        end = period_from(end_s, self._probe.every)
        chunk = max(1, _CHUNK // max(1, len(self._users)))
        for begin in range(first, end, chunk):
            times_s = np.asarray(self._probe.every * np.arange(begin, min(begin + chunk, end)), np.float64)
            users = np.tile(self._users, len(times_s))
            at_s = np.repeat(times_s, len(self._users))
            snr_db = self._air.snr_db(users, at_s)
            log.event("sampled", at_s, user=users, value=snr_db)
            is_counted = times_s >= self._since_s - _ROUNDING * self._probe.every
            if is_counted.any():
                by_time_db = snr_db.reshape(len(times_s), -1)
                self._count(by_time_db[is_counted].T)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of all samples."""
        probe = self._probe
        metrics: dict[str, float] = {}
        if self._samples:
            mean = self._sum / self._samples
            variance = self._squares / self._samples - mean**2
            power_mean = mean * float(db_to_linear(self._reference_db))
            metrics["snr_mean_db"] = self._sum_db / self._samples
            metrics["power_mean"] = power_mean
            metrics["power_variance"] = max(0.0, variance / mean**2)
            if self._pairs and variance > _ROUNDING * mean**2:
                metrics["autocorrelation"] = (self._products / self._pairs - mean**2) / variance
        if probe.level is not None and self._compared:
            metrics["level_crossing_rate_hz"] = self._falls / (self._compared * probe.every)
            if self._falls:
                metrics["fade_duration_s"] = self._below * probe.every / self._falls
        if self._up_s + self._down_s:
            metrics["availability"] = self._up_s / (self._up_s + self._down_s)
        if self._downs:
            metrics["up_mean_s"] = self._up_s / self._downs
        if self._ups:
            metrics["down_mean_s"] = self._down_s / self._ups
        return metrics

    def _count(self, snr_db: Floats) -> None:
        """Add samples to all sums, ``[users, times]``."""
        if not self._samples and abs(snr_db.max()) > _ORDINARY_DB:  # the square of such a power is no number
            self._reference_db = float(snr_db.max())
        power = 10.0 ** ((snr_db - self._reference_db) / 10.0)
        self._samples += power.size
        self._sum_db += float(snr_db.sum())
        self._sum += float(power.sum())
        self._squares += float(np.square(power).sum())
        lag = self._probe.steps
        if lag:
            samples = np.hstack([self._unpaired, power])
            self._products += float((samples[:, :-lag] * samples[:, lag:]).sum())
            self._pairs += samples[:, lag:].size
            self._unpaired = samples[:, -lag:]
        if self._probe.level is not None:
            is_below = snr_db < self._probe.level
            if self._was_below is None:  # the first sample is no fall
                self._was_below = is_below[:, :1]
            was_below = np.hstack([self._was_below, is_below[:, :-1]])
            self._falls += int((is_below & ~was_below).sum())
            self._below += int(is_below.sum())
            self._compared += is_below.size
            self._was_below = is_below[:, -1:]

    def _count_outages(self, start_s: float, end_s: float) -> None:
        """Count the time up and down, and the changes, in (start_s, end_s]."""
        if end_s <= start_s:
            return
        times_s, _, up = self._outages.changes(self._users, start_s, end_s)
        # as if nothing changed; a user that comes up gains the rest of the time, one that goes down loses it
        up_at_start = int(self._outages.up(self._users, start_s).sum())
        up_s = up_at_start * (end_s - start_s) + float(np.where(up, end_s - times_s, times_s - end_s).sum())
        self._up_s += up_s
        self._down_s += len(self._users) * (end_s - start_s) - up_s
        self._ups += int(up.sum())
        self._downs += int((~up).sum())
