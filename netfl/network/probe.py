"""Probe: samples of channels and outages, independent of transmissions; `netfl.network.sampler` takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.types import ScenarioFacts
from netfl.units import Decibels, Seconds

_MAX_STEPS = 100_000
"""Longest lag, in samples."""
ROUNDING = 1e-6
"""Share by which a time, or a variance, may differ by rounding."""


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
        elif self.lag is not None and abs(self.lag / self.every - self.steps) > ROUNDING:
            yield Fault("lag", f"not a multiple of every, {self.every:g} s", self.lag, "use a multiple")

    @property
    def steps(self) -> int:
        """Lag in samples; 0 for none."""
        if self.lag is None:
            return 0
        return max(1, round(self.lag / self.every))
