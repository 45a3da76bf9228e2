"""What an alternating renewal process claims."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from netfl.network.outage._alternating_renewal import AlternatingRenewal, Start, availability
from netfl.network.outage._distributions import DurationDistribution
from netfl.streams import Streams
from netfl.types import Law


def process_laws(up: DurationDistribution, down: DurationDistribution, start: Start = "stationary") -> tuple[Law, ...]:
    """What an alternating process with these sojourns claims."""

    def opened(streams: Streams, size: int) -> tuple[AlternatingRenewal, NDArray[np.int64]]:
        rows = np.arange(size)
        return AlternatingRenewal(rows, up, down, streams, start), rows

    def sojourn(wanted: bool, streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        begin_s = process.next_change(rows, 0.0)
        begin_s = np.where(process.up(rows, begin_s) == wanted, begin_s, process.next_change(rows, begin_s))
        return process.next_change(rows, begin_s) - begin_s

    laws = [
        Law(
            f"sojourn {word} in s",
            f"{law.law} with mean {law.mean:g} s, all sojourns independent",
            draw=partial(sojourn, wanted),
            mean=law.mean if law.provable(1) else None,
            variance=law.variance if law.provable(2) else None,
            cdf=None if law.law == "fixed" else law.cdf,
        )
        for word, wanted, law in (("up", True, up), ("down", False, down))
    ]
    return (*laws, *_stationary_laws(up, down, opened)) if start == "stationary" else tuple(laws)


def _stationary_laws(
    up: DurationDistribution,
    down: DurationDistribution,
    opened: Callable[[Streams, int], tuple[AlternatingRenewal, NDArray[np.int64]]],
) -> tuple[Law, ...]:
    """What it claims besides when it starts stationary: the same at every instant."""
    share, instant_s = availability(up, down), 1.7 * (up.mean + down.mean)

    def state(streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        return process.up(rows, instant_s).astype(float)

    def rest(streams: Streams, size: int) -> NDArray[np.float64]:
        process, rows = opened(streams, size)
        return process.next_change(rows, instant_s) - instant_s

    state_law = Law(
        "state at any instant (1 is up)",
        "up with probability E[up] / (E[up] + E[down])",
        draw=state,
        mean=share,
        variance=share * (1.0 - share),
    )
    if max(up.moment(3), down.moment(3)) == np.inf:
        return (state_law,)
    first, second = (
        share * up.moment(power + 1) / ((power + 1) * up.mean)
        + (1.0 - share) * down.moment(power + 1) / ((power + 1) * down.mean)
        for power in (1, 2)
    )
    rest_law = Law(
        "time to the next change, from any instant, in s",
        "the equilibrium residual: E[R] = E[X²] / 2E[X], E[R²] = E[X³] / 3E[X] of the sojourn X that one is in",
        draw=rest,
        mean=first,
        variance=second - first**2 if max(up.moment(5), down.moment(5)) < np.inf else None,
    )
    return (state_law, rest_law)
