"""A link that transfers share: rates, times of ends, conservation of bits, and the queue M/G/1-PS."""

from collections.abc import Callable

import numpy as np
import pytest

from netfl.network.backhaul.shared_link import SharedLink, max_min_rates
from netfl.network.clock import Clock, call_after

RNG = np.random.default_rng(20_261_129)


def is_max_min(rates, capacity, limits):
    """Return whether *rates* fill the link or all limits, and whoever is below its limit has the largest rate."""
    is_full = np.isclose(rates.sum(), min(capacity, limits.sum()))
    below = rates < limits * (1 - 1e-12)
    has_most = not below.any() or np.allclose(rates[below], rates.max())
    return is_full and has_most and (rates <= limits).all()


class Transfers:
    """Transfers on a link, with the times at which they end."""

    def __init__(self, rate_bps=1e6):
        self.env = Clock()
        self.link = SharedLink(self.env, rate_bps)
        self.ended_s = {}

    def at(self, start_s, name, bits, limit_bps=np.inf):
        def end():
            self.ended_s[name] = self.env.now

        call_after(self.env, start_s, lambda _: self.link.start(bits, end, limit_bps))

    def run(self):
        self.env.run()
        return self.ended_s


class TestRates:
    @pytest.mark.parametrize("count", [1, 2, 5, 40])
    def test_are_max_min_fair(self, count):
        for _ in range(50):
            limits = RNG.exponential(1.0, count)
            limits[RNG.random(count) < 0.3] = np.inf
            capacity = RNG.exponential(count / 2)
            rates = max_min_rates(capacity, limits)
            assert is_max_min(rates, capacity, limits)

    def test_equal_limits_give_equal_rates(self):
        assert max_min_rates(10.0, np.full(4, np.inf)).tolist() == [2.5] * 4
        assert max_min_rates(10.0, np.full(4, 3.0)).tolist() == [2.5] * 4
        assert max_min_rates(10.0, np.full(4, 2.0)).tolist() == [2.0] * 4


class TestEnds:
    @pytest.mark.parametrize("count", [1, 2, 7, 100])
    def test_equal_transfers_that_start_together_end_together(self, count):
        transfers = Transfers(rate_bps=2e6)
        for name in range(count):
            transfers.at(0.25, name, 1e5)
        ended_s = transfers.run()
        assert set(ended_s.values()) == {0.25 + count * 1e5 / 2e6}
        assert transfers.link.busy_by_s(99.0) == pytest.approx(count * 1e5 / 2e6)

    def test_short_one_delays_long_one_by_its_size(self):
        """Sizes 3 and 1 at rate 1: the short one ends at 2, the long one at 4."""
        transfers = Transfers(rate_bps=1.0)
        transfers.at(0.0, "long", 3.0)
        transfers.at(0.0, "short", 1.0)
        assert transfers.run() == pytest.approx({"short": 2.0, "long": 4.0})

    def test_late_start(self):
        """The first has sent 1 of 3 alone, then both have half the rate: 3 + 1 more, and 5 in all."""
        transfers = Transfers(rate_bps=1.0)
        transfers.at(0.0, "first", 3.0)
        transfers.at(1.0, "second", 2.0)
        assert transfers.run() == pytest.approx({"first": 5.0, "second": 5.0})

    def test_limit_leaves_the_rest_to_others(self):
        """At rate 4 with limits 1 and none: the slow one ends at 8, the other has 3 and ends at 2."""
        transfers = Transfers(rate_bps=4.0)
        transfers.at(0.0, "slow", 8.0, limit_bps=1.0)
        transfers.at(0.0, "fast", 6.0)
        assert transfers.run() == pytest.approx({"fast": 2.0, "slow": 8.0})

    def test_cancelled_one_leaves_its_rate(self):
        transfers = Transfers(rate_bps=1.0)
        transfers.at(0.0, "kept", 3.0)
        cancelled = transfers.link.start(3.0, lambda: pytest.fail("it was cancelled"))
        call_after(transfers.env, 2.0, lambda _: transfers.link.cancel(cancelled))
        assert transfers.run() == pytest.approx({"kept": 4.0})
        assert transfers.link.sent_bits == pytest.approx(4.0)


class TestConservation:
    @pytest.mark.parametrize("has_limits", [False, True])
    def test_bits_that_start_are_sent(self, has_limits):
        transfers = Transfers(rate_bps=3.0)
        sizes = RNG.exponential(1.0, 300)
        times = np.cumsum(RNG.exponential(0.5, 300))
        for name, (start_s, bits) in enumerate(zip(times, sizes, strict=True)):
            transfers.at(start_s, name, bits, RNG.uniform(0.1, 3.0) if has_limits else np.inf)
        ended_s = transfers.run()
        assert len(ended_s) == 300
        assert transfers.link.sent_bits == pytest.approx(sizes.sum(), rel=1e-9)
        if not has_limits:  # work is conserved: the link is busy exactly for the bits
            assert transfers.link.busy_by_s(1e9) == pytest.approx(sizes.sum() / 3.0, rel=1e-9)

    def test_ends_equal_those_of_small_steps(self):
        """An independent calculation: fluid steps of 1 ms with the rates of water-filling by bisection."""
        sizes = RNG.exponential(1.0, 12)
        times = np.cumsum(RNG.exponential(0.2, 12))
        limits = RNG.uniform(0.2, 2.0, 12)
        transfers = Transfers(rate_bps=2.0)
        for name in range(12):
            transfers.at(times[name], name, sizes[name], limits[name])
        ended_s = transfers.run()
        step_s = 1e-3
        left, stepped_s, now_s = sizes.copy(), np.full(12, np.nan), 0.0
        while np.isnan(stepped_s).any():
            is_on = (times <= now_s) & (left > 0)
            low, high = 0.0, 2.0
            for _ in range(40):
                level = (low + high) / 2
                if np.minimum(limits[is_on], level).sum() > 2.0:
                    high = level
                else:
                    low = level
            left[is_on] -= np.minimum(limits[is_on], high) * step_s
            now_s += step_s
            stepped_s[is_on & (left <= 0)] = now_s
        assert [ended_s[name] for name in range(12)] == pytest.approx(stepped_s, abs=2e-2)


SIZES: dict[str, Callable[[int], np.ndarray]] = {
    "fixed": lambda count: np.full(count, 1.0),
    "exponential": lambda count: RNG.exponential(1.0, count),
    "hyperexponential": lambda count: RNG.exponential(1.0, count) * np.where(RNG.random(count) < 0.1, 5.5, 0.5),
}
"""Sizes of mean 1, whose squared coefficients of variation are 0, 1 and 5.5."""


class TestQueue:
    @pytest.mark.slow
    @pytest.mark.parametrize("distribution", SIZES)
    def test_mean_time_is_that_of_processor_sharing(self, distribution):
        """M/G/1-PS (Kleinrock 1967): a transfer of size S takes S / (1 - load) in the mean, whatever the others are."""
        count, load = 20_000, 0.6
        sizes = SIZES[distribution](count)
        starts = np.cumsum(RNG.exponential(1.0 / load, count))
        transfers = Transfers(rate_bps=1.0)
        for name, (start_s, bits) in enumerate(zip(starts, sizes, strict=True)):
            transfers.at(start_s, name, bits)
        ended_s = transfers.run()
        times = np.array([ended_s[name] for name in range(count)]) - starts
        batches = times.reshape(40, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(40)
        assert times.mean() == pytest.approx(1.0 / (1.0 - load), abs=4 * error)
        assert error < 0.2
        if distribution == "hyperexponential":  # proportional to the size
            is_long = sizes > 4.0
            assert (times[is_long] / sizes[is_long]).mean() == pytest.approx(2.5, rel=0.12)
            is_short = (sizes > 0.3) & (sizes < 0.7)
            assert (times[is_short] / sizes[is_short]).mean() == pytest.approx(2.5, rel=0.12)
