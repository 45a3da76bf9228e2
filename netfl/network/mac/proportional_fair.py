"""Proportional fairness: the one whose channel is best in relation to what it has had."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.mac._scheduled import TowerScheduler, Users
from netfl.network.mac._test_bench import service_turns
from netfl.types import Law
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS, _LAW_TURNS = 6, 10_000


class ProportionalFair(TowerScheduler):
    """Of those that have something to send the one with the largest R / A does so: its rate now over its average.

    R is log2(1 + SNR), the capacity in bit/s/Hz, or with ``rate: airtime`` the frames that it could send in a second in
    the mode that it would take now.  A is the exponential average of what it has had over a time ``window``: a turn of
    length t at rate R takes A of each user to A e^(-t/window), and that of who had it to (1 - e^(-t/window)) R more.
    For long windows that maximises Σ log A (A. Jalali, R. Padovani and R. Pankaj, IEEE VTC 2000; Tse and Viswanath,
    Fundamentals of Wireless Communication, §6.7.1).

    With n users under independent Rayleigh fading, where rates are in proportion to the SNR (that is low) each has a
    share of 1/n of the turns, however unequal their means, and a power gain in its turns of 1 + 1/2 + … + 1/n over its
    own mean: the gain by multi-user diversity.  Where all have one mean that is so at any SNR, for long windows.

    Example::

        kind: proportional_fair
        window: 20 s
    """

    window: Annotated[Seconds, Field(gt=0)]
    """t_c, the time over which rates are averaged."""
    rate: Literal["capacity", "airtime"] = "capacity"
    """What is taken for a rate."""

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """The best in relation; who has had nothing so far comes first, and last who has no rate at all."""
        average, then_s, had = np.zeros(cell.size), cell.env.now, (0, 0.0)

        def pick(backlog: Users) -> int:
            nonlocal then_s, had
            fade = np.exp(-(cell.env.now - then_s) / self.window)
            average[:] *= fade
            average[had[0]] += (1.0 - fade) * had[1]
            rates = self._rates(cell, backlog)
            with np.errstate(all="ignore"):  # long ago is 0, or next to it
                merit = np.divide(rates, average[backlog], out=np.zeros(len(rates)), where=rates > 0.0)
            best = int(merit.argmax())
            then_s, had = cell.env.now, (int(backlog[best]), float(rates[best]))
            return had[0]

        return self._serve(cell, pick)

    def _rates(self, cell: Cell, users: Users) -> NDArray[np.float64]:
        """R, but for a factor, which averages have as well."""
        if self.rate == "airtime":
            return 1.0 / cell.airtimes_s(users)
        return np.logaddexp(0.0, cell.snr_db(users) * (math.log(10.0) / 10.0))

    def laws(self) -> tuple[Law, ...]:
        """The gain by multi-user diversity, where it has a closed form: all alike, long windows."""
        n = _LAW_USERS
        model = self.model_copy(update={"rate": "capacity", "poll": 0.0})
        terms = 1.0 / np.arange(1, n + 1)
        return (
            Law(
                "power gain of the winner",
                f"1 + 1/2 + … + 1/n in the mean, n = {n} users under independent Rayleigh fading of mean 1 that always "
                f"have something to send; in the limit of long windows, drawn at {_LAW_TURNS} turns",
                lambda streams, size: service_turns(model, n, self.window / _LAW_TURNS, streams, size)[1],
                mean=float(terms.sum()),
                variance=float(np.square(terms).sum()),
                cdf=lambda x: (-np.expm1(-np.asarray(x))) ** n,
            ),
        )
