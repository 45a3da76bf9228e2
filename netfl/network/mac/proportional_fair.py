"""Proportional fairness: the user whose rate is highest relative to its average sends."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.mac import TieBreaker
from netfl.network.mac._bases import TowerScheduler, UserScheduler
from netfl.network.radio.bench import diversity_gain_law
from netfl.network.radio.cell import Cell
from netfl.types import Floats, Ints, Law
from netfl.units import Seconds

_MAX_RATE = 1e300
"""Largest rate, of a link without noise."""
_LAW_USERS, _LAW_TURNS = 6, 10_000


class ProportionalFair(TowerScheduler):
    """The user of the backlog with the largest R / A sends: its current rate over its average rate.

    R is log2(1 + SNR), the capacity in bit/s/Hz, or with ``rate: airtime`` the frames per second in its current mode.
    A is the exponential average of the rate that it had over a time ``window``: a turn of
    length t at rate R changes A of each user to A e^(-t/window), and adds (1 - e^(-t/window)) R to that of the winner.
    A turn lasts from the poll to the end of the attempt; a winner that is cut off and does not send has R = 0.  Idle
    time changes nothing.  Equal values of R / A are decided by a uniform draw, also among users never served, which
    come first; users with rate 0 come last.

    With equal rates, as without fading, this is a rotation: the user whose last turn is the longest ago comes first,
    and a draw decides the first rotation only.  Where a round of the server takes a whole number of turns, the same
    users can then be in time in every round.

    For long windows this maximises Σ log A (A. Jalali, R. Padovani and R. Pankaj, IEEE VTC 2000; Tse and Viswanath,
    Fundamentals of Wireless Communication, §6.7.1).

    With n users under independent Rayleigh fading and rates proportional to the SNR (at low SNR), each user has a
    share of 1/n of the turns, however unequal the mean SNRs, and a power gain in its turns of 1 + 1/2 + … + 1/n over
    its mean: the multi-user diversity gain.  If all means are equal, this holds at any SNR, for long windows.

    Example::

        kind: proportional_fair
        window: 20 s
    """

    window: Annotated[Seconds, Field(gt=0)]
    """t_c, the time over which rates are averaged."""
    rate: Literal["capacity", "airtime"] = "capacity"
    """The quantity that counts as rate."""

    @property
    def observes(self) -> tuple[str, ...]:
        return ("snr_db",) if self.rate == "capacity" else ("rate_bps",)

    def scheduler(self, cell: Cell) -> UserScheduler:
        return _Averages(cell, self, TieBreaker(cell))

    def rates(self, cell: Cell, users: Ints) -> Floats:
        """Return R of each user, up to a factor that averages share, ``[n]``."""
        if self.rate == "airtime":
            return 1.0 / cell.airtimes_s(users)
        log_snr = cell.snr_db(users) * (math.log(10.0) / 10.0)
        return np.logaddexp(0.0, log_snr)  # log(1 + SNR), without overflow

    def laws(self) -> tuple[Law, ...]:
        """Claim the multi-user diversity gain for equal means and long windows, where it has a closed form."""
        n = _LAW_USERS
        model = self.model_copy(update={"rate": "capacity", "poll": 0.0})
        statement = (
            f"1 + 1/2 + … + 1/n in the mean, n = {n} users under independent Rayleigh fading of mean 1 that always "
            f"have something to send; in the limit of long windows, drawn at {_LAW_TURNS} turns"
        )
        return (diversity_gain_law(model, n, self.window / _LAW_TURNS, statement),)


class _Averages(UserScheduler):
    """Average rates A of the users, and the largest R / A."""

    def __init__(self, cell: Cell, mac: ProportionalFair, ties: TieBreaker) -> None:
        self._cell = cell
        self._mac = mac
        self._ties = ties
        self._average = np.zeros(cell.size)  # A of each user
        self._rate = 0.0  # R of the user that was picked last

    def pick(self, backlog: Ints) -> int:
        rates = np.minimum(self._mac.rates(self._cell, backlog), _MAX_RATE)
        with np.errstate(all="ignore"):  # averages of users never served are 0; old ones are close to it
            merit = np.divide(rates, self._average[backlog], out=np.zeros(len(rates)), where=rates > 0.0)
            user = self._ties.pick_largest(backlog, np.log(merit))
        self._rate = float(rates[np.searchsorted(backlog, user)])
        return user

    def end_turn(self, user: int, duration_s: float, *, has_sent: bool) -> None:
        fade = math.exp(-duration_s / self._mac.window)
        self._average *= fade
        if has_sent:  # else its R is 0
            self._average[user] += (1.0 - fade) * self._rate
