"""Links one after the other, crossed by packets that keep their size."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._ports import TandemLine, line_misfits, tandem_line
from netfl.registry import kind_of
from netfl.types import Law

_BLOCKS = 100
"""Stretches of packets whose means are taken to be independent."""
_PER_HOP = 1 << 18
"""Packets that are followed at most where rooms are limited, which goes packet by packet."""

Series = NDArray[np.float64]


class Tandem(Theory):
    """No closed form: Lindley's recursion, hop by hop, on packets of its own, whose sizes stay what they are.

    On link j packet n ends at D_n = max(D_(n-1), A_n) + S_n, where A_n is when it left the link before, and S_n follows
    from its one size.  Theories that take the hops for independent (Jackson's product form, Kleinrock's assumption) say
    Σ 1/(μ_j - λ), which is told as ``delay_independent_s``: far too much here, as behind a long packet the ones that
    wait for it are short of gaps, and it keeps them together.  D. V. Lindley, Proc. Cambridge Phil. Soc. 48, 1952;
    O. J. Boxma, "On a tandem queueing model with identical service times at both counters", Adv. Appl. Prob. 11, 1979.

    Where ports have limited room a packet is turned away by a port that holds as many as it can.  ``delay_theory_se_s``
    and ``loss_ratio_theory_se`` are the standard errors of what is told.  Without limits the first link, whose mean
    delay is known, steadies the estimate (a control variate).

    Example::

        kind: tandem
        packets: 500000
    """

    packets: Annotated[int, Field(ge=10_000, le=10**8)] = 4_000_000
    """How many packets the recursion follows; no more than 2^18 where rooms are limited."""

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Another line of queues."""
        finite = getattr(case.said.queue, "capacity", None) is not None
        yield from line_misfits(case, None if finite else "exponential", hops=None, finite=finite)

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """What the recursion comes to."""
        line, (traffic,) = tandem_line(case), case.said.traffic
        count = self.packets if line.room is None else min(self.packets, _PER_HOP)
        rng = case.streams.rng("theory", kind_of(type(self)))
        born_s = np.cumsum(rng.exponential(1.0 / line.rate_hz, count))
        sizes = traffic.size.draw(rng, count) / traffic.size.mean
        if line.room is not None:
            return _lossy(line, born_s, sizes)
        mean_s, error_s = _controlled(line, *_through(line, born_s, sizes))
        independent_s = sum(service_s / (1.0 - line.rate_hz * service_s) for service_s in line.service_s)
        told = {"delay_theory_s": line.delay_s + mean_s, "delay_theory_se_s": error_s}
        return told | {"delay_independent_s": line.delay_s + independent_s}

    def laws(self) -> tuple[Law, ...]:
        """A calculation."""
        return (Law.none("a calculation on draws of its own; held to an independent one in its tests"),)


def _through(line: TandemLine, born_s: Series, sizes: Series) -> tuple[Series, Series]:
    """Each packet's delay on the first link, and on all."""
    now_s, first_s = born_s, born_s
    for hop, service_s in enumerate(line.service_s):
        work_s = np.cumsum(sizes * service_s)
        now_s = work_s + np.maximum.accumulate(now_s - work_s + sizes * service_s)
        first_s = now_s if hop == 0 else first_s
    return first_s - born_s, now_s - born_s


def _controlled(line: TandemLine, first_s: Series, whole_s: Series) -> tuple[float, float]:
    """The mean of *whole_s* and its standard error, helped by the known mean of *first_s*."""
    first, whole = _means(first_s), _means(whole_s)
    known_s = line.service_s[0] / (1.0 - line.rate_hz * line.service_s[0])
    slope = float(np.cov(first, whole)[0, 1] / first.var(ddof=1))
    better = whole - slope * (first - known_s)
    return float(better.mean()), float(better.std(ddof=2) / np.sqrt(len(better)))


def _means(values: Series) -> Series:
    """The means of even stretches, less the first, in which queues fill."""
    length = len(values) // _BLOCKS
    return np.asarray(values[: length * _BLOCKS].reshape(_BLOCKS, length).mean(axis=1)[1:])


def _lossy(line: TandemLine, born_s: Series, sizes: Series) -> Mapping[str, float]:
    """Losses, and the delays of those that got through."""
    ports = [(service_s, deque[float](maxlen=line.room)) for service_s in line.service_s]
    delays_s = np.full(len(born_s), np.nan)
    for number, (came_s, size) in enumerate(zip(born_s.tolist(), sizes.tolist(), strict=True)):
        now_s = came_s
        for service_s, ends_s in ports:
            if len(ends_s) == line.room and ends_s[0] > now_s:  # the packet so many places before is still there
                break
            now_s = (max(now_s, ends_s[-1]) if ends_s else now_s) + size * service_s
            ends_s.append(now_s)
        else:
            delays_s[number] = now_s - came_s
    lost = np.isnan(delays_s)
    losses, counts = _means(lost.astype(float)), _means((~lost).astype(float))
    delays = _means(np.nan_to_num(delays_s)) / counts
    return {
        "loss_ratio_theory": float(losses.mean()),
        "loss_ratio_theory_se": float(losses.std(ddof=1) / np.sqrt(len(losses))),
        "delay_theory_s": line.delay_s + float(np.average(delays, weights=counts)),
        "delay_theory_se_s": float(delays.std(ddof=1) / np.sqrt(len(delays))),
    }
