"""Queues in series, with packets that keep their size."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.kinds import kind_of
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._queues import LINE, POISSON, STABLE, TandemLine, build_line, has_limits, size_distribution
from netfl.types import Floats, Law

_BATCHES = 100
"""Batches of packets whose means count as independent."""
_MAX_FINITE = 1 << 18
"""Maximum number of packets with limited room, which are computed one by one."""


class Tandem(Theory):
    """Lindley's recursion, hop by hop, on simulated packets that keep their size; there is no closed form.

    On link j packet n ends at D_n = max(D_(n-1), A_n) + S_n, where A_n is its departure from the link before, and S_n
    follows from its size.  Theories with independent hops (Jackson's product form, Kleinrock's assumption) give
    Σ 1/(μ_j - λ), reported as ``delay_independent_s``.  That is far too much here, as the packets behind a long one
    stay together on the following links.  D. V. Lindley, Proc. Cambridge Phil. Soc. 48, 1952;
    O. J. Boxma, "On a tandem queueing model with identical service times at both counters", Adv. Appl. Prob. 11, 1979.

    A full port drops the packet.  ``delay_theory_se_s`` and ``loss_ratio_theory_se`` are the standard errors.  Without
    limits the first link, whose mean delay is known, is a control variate of the estimate.

    Example::

        kind: tandem
        packets: 500000
    """

    packets: Annotated[int, Field(ge=10_000, le=10**8)] = 4_000_000
    """Number of simulated packets; at most 2^18 with limited room."""

    conditions = (
        *LINE,
        Condition(
            "queue",
            "drop_tail without limits, or with a capacity in messages",
            lambda case: has_limits(case, messages=False) or has_limits(case, messages=True),
        ),
        Condition(
            "traffic",
            "packets of exponential size, unless a capacity limits the queues",
            lambda case: has_limits(case, messages=True) or size_distribution(case) == "exponential",
            size_distribution,
            given=(POISSON,),
        ),
        STABLE,
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        line, (traffic,) = build_line(case), case.network.traffic
        count = self.packets if line.room is None else min(self.packets, _MAX_FINITE)
        rng = case.streams.rng("theory", kind_of(type(self)))
        arrivals_s = np.cumsum(rng.exponential(1.0 / line.rate_hz, count))
        sizes = traffic.size.draw(rng, count) / traffic.size.mean
        if line.room is not None:
            return _lossy(line, arrivals_s, sizes)
        mean_s, error_s = _controlled_mean(line, *_through(line, arrivals_s, sizes))
        independent_s = sum(service_s / (1.0 - line.rate_hz * service_s) for service_s in line.service_s)
        metrics = {"delay_theory_s": line.delay_s + mean_s, "delay_theory_se_s": error_s}
        return metrics | {"delay_independent_s": line.delay_s + independent_s}

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a calculation with random draws, compared with an independent one in its tests"),)


def _through(line: TandemLine, arrivals_s: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return each packet's delay on the first link, and on all."""
    now_s, first_s = arrivals_s, arrivals_s
    for hop, service_s in enumerate(line.service_s):
        work_s = np.cumsum(sizes * service_s)
        now_s = work_s + np.maximum.accumulate(now_s - work_s + sizes * service_s)
        first_s = now_s if hop == 0 else first_s
    return first_s - arrivals_s, now_s - arrivals_s


def _controlled_mean(line: TandemLine, first_s: Floats, whole_s: Floats) -> tuple[float, float]:
    """Return the mean of *whole_s* and its standard error, with *first_s* of known mean as a control variate."""
    first, whole = _batch_means(first_s), _batch_means(whole_s)
    known_s = line.service_s[0] / (1.0 - line.rate_hz * line.service_s[0])
    slope = float(np.cov(first, whole)[0, 1] / first.var(ddof=1))
    corrected = whole - slope * (first - known_s)
    return float(corrected.mean()), float(corrected.std(ddof=2) / np.sqrt(len(corrected)))


def _batch_means(values: Floats) -> Floats:
    """Return the means of equal batches, without the first, in which queues fill."""
    length = len(values) // _BATCHES
    return np.asarray(values[: length * _BATCHES].reshape(_BATCHES, length).mean(axis=1)[1:])


def _lossy(line: TandemLine, arrivals_s: Floats, sizes: Floats) -> Mapping[str, float]:
    """Return the losses, and the delays of the delivered packets."""
    ports = [(service_s, deque[float](maxlen=line.room)) for service_s in line.service_s]
    delays_s = np.full(len(arrivals_s), np.nan)
    for number, (arrival_s, size) in enumerate(zip(arrivals_s.tolist(), sizes.tolist(), strict=True)):
        now_s = arrival_s
        for service_s, ends_s in ports:
            if len(ends_s) == line.room and ends_s[0] > now_s:  # the port is full
                break
            now_s = (max(now_s, ends_s[-1]) if ends_s else now_s) + size * service_s
            ends_s.append(now_s)
        else:
            delays_s[number] = now_s - arrival_s
    lost = np.isnan(delays_s)
    losses, counts = _batch_means(lost.astype(float)), _batch_means((~lost).astype(float))
    has_deliveries = counts > 0  # not all batches have some on a line whose load is far too high
    delay_s = delay_se_s = np.nan
    if has_deliveries.any():
        delays = _batch_means(np.nan_to_num(delays_s))[has_deliveries] / counts[has_deliveries]
        delay_s = line.delay_s + float(np.average(delays, weights=counts[has_deliveries]))
        if len(delays) > 1:
            delay_se_s = float(delays.std(ddof=1) / np.sqrt(len(delays)))
    return {
        "loss_ratio_theory": float(losses.mean()),
        "loss_ratio_theory_se": float(losses.std(ddof=1) / np.sqrt(len(losses))),
        "delay_theory_s": delay_s,
        "delay_theory_se_s": delay_se_s,
    }
