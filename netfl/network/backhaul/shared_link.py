"""A link whose transfers share its rate at once: processor sharing, with a limit of each transfer.

At each instant the n transfers under way have max-min fair parts of the rate C (D. Bertsekas and R. Gallager, Data
Networks, 2nd ed., 1992, sec. 6.5.2): transfer i with the limit l_i has the rate min(l_i, λ), where Σ min(l_i, λ) = C,
or l_i if Σ l_i ≤ C.  Without limits each has C / n (L. Kleinrock, J. ACM 14, 1967).  Between two starts or ends all
rates are constant, so the times of ends are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netfl.network.clock import Clock, Stage, call_at
from netfl.network.periods import after_rounding
from netfl.types import Floats


def max_min_rates(rate_bps: float, limits_bps: Floats) -> Floats:
    """Return the max-min fair rates of transfers with these limits, ``[n]``.

    >>> max_min_rates(10.0, np.array([1.0, np.inf, 20.0])).tolist(), max_min_rates(10.0, np.array([1.0, 2.0])).tolist()
    ([1.0, 4.5, 4.5], [1.0, 2.0])
    """
    count = len(limits_bps)
    in_order = np.sort(limits_bps)
    finite = np.where(np.isfinite(in_order), in_order, 0.0)
    taken = np.concatenate([[0.0], np.cumsum(finite)[:-1]])  # by the transfers with lower limits
    levels = (rate_bps - taken) / np.arange(count, 0, -1)
    reached = np.flatnonzero(in_order > levels)  # the first of them has the level of all that follow
    if not reached.size:
        return np.asarray(limits_bps, float)
    return np.asarray(np.minimum(limits_bps, levels[reached[0]]))


@dataclass(slots=True, eq=False)
class LinkTransfer:
    """A transfer on a shared link.

    Args:
        left_bits: bits that are still to be sent.
        limit_bps: largest rate of this transfer.
        on_end: called when all of it is sent.
    """

    left_bits: float
    limit_bps: float
    on_end: Callable[[], None]


class SharedLink:
    """One direction of a link that its transfers share.

    Args:
        rate_bps: rate of the link; infinite for none.
        on_plan: called with the time of the next end, after each change; returns the time at which all transfers are
            interrupted before that, or infinity.
        on_cut: called with each transfer that is interrupted.

    Attributes:
        sent_bits: bits sent so far, by the last change.
    """

    def __init__(
        self,
        env: Clock,
        rate_bps: float,
        on_plan: Callable[[float], float] | None = None,
        on_cut: Callable[[LinkTransfer], None] = lambda _: None,
    ) -> None:
        self._env = env
        self._rate_bps = rate_bps
        self._on_plan = on_plan
        self._on_cut = on_cut
        self._transfers: list[LinkTransfer] = []
        self._rates_bps = np.empty(0)
        self._since_s = 0.0
        self._plan = 0  # number of the newest; older ones have no effect
        self._is_planning = False
        self._busy_s = 0.0
        self.sent_bits = 0.0

    @property
    def count(self) -> int:
        """Number of transfers under way."""
        return len(self._transfers)

    def busy_by_s(self, now_s: float) -> float:
        """Return the time until *now_s* during which a transfer was under way."""
        if not self._transfers:
            return self._busy_s
        return self._busy_s + (now_s - self._since_s)

    def start(self, bits: float, on_end: Callable[[], None], limit_bps: float = np.inf) -> LinkTransfer:
        """Start a transfer of *bits* now; return it, for `cancel`."""
        self._advance()
        transfer = LinkTransfer(bits, limit_bps, on_end)
        self._transfers.append(transfer)
        self._change()
        return transfer

    def cancel(self, transfer: LinkTransfer) -> None:
        """End *transfer*, which is under way, without a call of its `on_end`."""
        self._advance()
        self._transfers.remove(transfer)
        self._change()

    def _advance(self) -> None:
        """Send until now at the present rates."""
        now_s = self._env.now
        elapsed_s = now_s - self._since_s
        self._since_s = now_s
        if not self._transfers or elapsed_s <= 0.0:
            return
        self._busy_s += elapsed_s
        for transfer, rate_bps in zip(self._transfers, self._rates_bps.tolist(), strict=True):
            sent_bits = min(transfer.left_bits, rate_bps * elapsed_s)
            transfer.left_bits -= sent_bits
            self.sent_bits += sent_bits

    def _change(self) -> None:
        """Share the rate among the transfers of now, and plan the next end once no other changes at this instant."""
        self._plan += 1
        self._rates_bps = np.zeros(len(self._transfers))  # nothing is sent within an instant
        if not self._is_planning:
            self._is_planning = True
            self._env.at_end(Stage.PORTS, self._plan_next)

    def _plan_next(self) -> None:
        self._is_planning = False
        if not self._transfers:
            return
        limits_bps = np.array([transfer.limit_bps for transfer in self._transfers])
        self._rates_bps = max_min_rates(self._rate_bps, limits_bps)
        end_s = self._since_s + float(self._needed_s().min())
        plan = self._plan
        cut_s = np.inf
        if self._on_plan is not None:
            cut_s = self._on_plan(end_s)
        if cut_s < end_s:
            call_at(self._env, cut_s, lambda _: self._cut(plan))
        else:
            call_at(self._env, end_s, lambda _: self._end(plan))

    def _needed_s(self) -> Floats:
        """Return the time that each transfer needs at its present rate, ``[n]``."""
        left_bits = np.array([transfer.left_bits for transfer in self._transfers])
        return np.asarray(left_bits / self._rates_bps)

    def _end(self, plan: int) -> None:
        """End the transfers of which all is sent at this instant, as their plan says, unless another has followed."""
        if plan != self._plan:
            return
        end_s = self._since_s + self._needed_s()
        has_ended = end_s <= after_rounding(self._env.now)
        self._advance()
        ended = [transfer for transfer, ends in zip(self._transfers, has_ended.tolist(), strict=True) if ends]
        self._transfers = [
            transfer for transfer, ends in zip(self._transfers, has_ended.tolist(), strict=True) if not ends
        ]
        for transfer in ended:  # up to rounding
            self.sent_bits += transfer.left_bits
            transfer.left_bits = 0.0
        self._change()
        for transfer in ended:
            transfer.on_end()

    def _cut(self, plan: int) -> None:
        """Interrupt all transfers, unless another plan has followed."""
        if plan != self._plan:
            return
        self._advance()
        cut = self._transfers
        self._transfers = []
        self._change()
        for transfer in cut:
            self._on_cut(transfer)
