"""Numbers of periods for slots, blocks, windows and outages, exact at every boundary."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netfl
from netfl.network.outage._daily import DiurnalClock
from netfl.network.periods import (
    MAX_PERIOD,
    after_rounding,
    before_rounding,
    period_from,
    period_of,
    periods_from,
    periods_of,
)

LENGTHS = [0.1, 1 / 3, 7e-3, 1e-3, 9e-6, 50e-6, 0.02, 1.1, math.pi, 86400.0]


@pytest.mark.parametrize("length_s", LENGTHS)
@pytest.mark.parametrize("first", [0, 10**6, 10**10, 2**40])
def test_multiple_of_length_starts_period(length_s, first):
    """The multiple is a product, a sum with the previous start, or one step beside the product."""
    numbers = first + np.arange(3000)
    products = numbers * length_s
    ends = (numbers - 1) * length_s + length_s
    for times_s in (products, ends, np.nextafter(products, 0.0), np.nextafter(products, np.inf)):
        assert (periods_of(times_s, length_s)[1:] == numbers[1:]).all()
        assert (periods_from(times_s, length_s)[1:] == numbers[1:]).all()
    for number, time_s in zip(numbers.tolist(), products.tolist(), strict=True):
        assert period_of(time_s, length_s) == period_from(time_s, length_s) == number


@given(st.floats(0.0, 1e12), st.floats(1e-9, 1e9))
def test_only_times_near_boundary_are_rounded(time_s, length_s):
    """Times are compared with exact fractions; the tolerance is 10⁻⁹ periods and some steps of the clock."""
    exact = Fraction(time_s) / Fraction(length_s)
    tolerance = Fraction(2, 10**9) + exact * Fraction(2, 10**15)
    number, number_from = period_of(time_s, length_s), period_from(time_s, length_s)
    if exact < 2**48:  # beyond that one step of the clock exceeds the tolerance
        assert number <= exact + tolerance
        assert exact < number + 1
        assert exact <= number_from + tolerance
        assert number_from < exact + 1
        assert number_from - number in (0, 1)
    assert periods_of(time_s, length_s) == number
    assert periods_from([time_s], length_s)[0] == number_from


def test_time_before_boundary_is_not_rounded():
    assert period_of(1.0 - 2e-9, 1.0) == 0
    assert period_of(1e6 - 1e-8, 1.0) == 10**6 - 1
    assert period_from(1.0 + 2e-9, 1.0) == 2


def test_period_numbers_are_capped():
    assert period_of(1e30, 1e-9) == period_from(1e30, 1e-9) == MAX_PERIOD
    assert periods_of([1e30, 0.5], 1e-9).tolist() == [MAX_PERIOD, 500_000_000]
    assert periods_from([1e30, 0.5], 1e-9).tolist() == [MAX_PERIOD, 500_000_000]


def test_negative_period_numbers_are_capped():
    """A process that is stationary at time 0 starts before it."""
    assert periods_of([-1.0, 1.0], 1e-300).tolist() == [-MAX_PERIOD, MAX_PERIOD]


def test_an_instant_is_a_nanosecond_and_some_steps_of_the_clock():
    for time_s in (0.0, 0.1, 1.0, 12345.678, 1e9):
        for moved_s in (after_rounding(time_s), before_rounding(time_s)):
            difference_s = abs(moved_s - time_s)
            assert difference_s == pytest.approx(1e-15 * time_s + 1e-9, abs=2 * np.spacing(time_s))


def is_same_instant(one_s, other_s):
    return before_rounding(one_s) <= other_s <= after_rounding(one_s)


@pytest.mark.parametrize("terms", [[0.1] * 7, [0.1, 0.2, 0.3], [1 / 3, 2 / 7, 86_400.0], [1e5, 1e-3, 0.7] * 5])
def test_sums_in_any_order_are_one_instant(terms):
    assert is_same_instant(sum(terms), sum(reversed(terms)))
    assert is_same_instant(sum(terms), math.fsum(terms))
    assert not is_same_instant(sum(terms), sum(terms) + 3e-9)


def run_saturated(tmp_path, slot_s, slots, mac, **overrides):
    """Return the metrics and events of one user who always has a packet that fills a slot."""
    scenario = {
        "name": "watched",
        "users": 1,
        "duration": slots * slot_s,
        "record": ["delivered"],
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "1 m"},
            "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": 1000.0 / slot_s},
            "mac": mac,
            "traffic": {"kind": "saturated", "size": {"mean": 1000}, "destination": "tower"},
            **overrides.pop("access", {}),
        },
    } | overrides
    run = netfl.trace(netfl.Scenario.model_validate(scenario), tmp_path / "run")
    return run.final_metrics.set_index("metric")["value"], run.events


MACS = [
    {"kind": "slotted_aloha", "probability": 1.0},
    {"kind": "slotted_aloha", "adaptive": "known"},
    {"kind": "slotted_aloha", "adaptive": "backoff"},
    {"kind": "tdma"},
]


@pytest.mark.quick_first
@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3, 1e-3])
@pytest.mark.parametrize("mac", MACS, ids=lambda mac: "-".join(map(str, mac.values())))
def test_single_user_fills_every_slot(tmp_path, mac, slot_s):
    metrics, events = run_saturated(tmp_path, slot_s, 2000, mac)
    assert metrics["delivered"] == 1999, "the last frame ends with the run, and so outside of it"
    assert metrics["throughput_bps"] == pytest.approx(1999 / 2000 * 1000.0 / slot_s, rel=1e-12)
    assert (np.rint(events["time_s"] / slot_s) == np.arange(1, 2000)).all()


@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3])
def test_all_slots_after_warmup_count(tmp_path, slot_s):
    metrics, _ = run_saturated(tmp_path, slot_s, 800, MACS[0], warmup=300 * slot_s)
    assert metrics["delivered"] == 500
    assert metrics["throughput_bps"] == pytest.approx(1000.0 / slot_s, rel=1e-12)


FRAME, OPENS, CLOSES, DAYS = 10, 3, 7, 200


def build_outages(kind, slot_s, folder):
    """Return outages with which a user is up in slots 3 to 6 of every ten."""
    if kind == "diurnal":
        return {"period": FRAME * slot_s, "opens": OPENS * slot_s, "closes": CLOSES * slot_s, "nodes": "users"}
    if kind == "maintenance":
        windows = (
            {"start": 0, "duration": OPENS * slot_s, "every": FRAME * slot_s},
            {
                "start": CLOSES * slot_s,
                "duration": (FRAME - CLOSES) * slot_s,
                "every": FRAME * slot_s,
            },
        )
        return {"windows": [{"nodes": "users", **window} for window in windows]}
    spans = [(day * FRAME + CLOSES, (day + 1) * FRAME + OPENS) for day in range(-1, DAYS)]
    rows = [f"0,{max(0, begin) * slot_s!r},{end * slot_s!r}" for begin, end in spans]
    (folder / "calendar.csv").write_text("\n".join(["node,start_s,end_s", *rows]) + "\n", encoding="utf-8")
    return {"file": str(folder / "calendar.csv")}


@pytest.mark.quick_first
@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3])
@pytest.mark.parametrize("kind", ["diurnal", "maintenance", "calendar"])
def test_window_of_four_slots_carries_four_frames(tmp_path, kind, slot_s):
    access = {"outages": [{"kind": kind, **build_outages(kind, slot_s, tmp_path)}]}
    metrics, events = run_saturated(tmp_path, slot_s, FRAME * DAYS, {"kind": "tdma"}, access=access)
    ended = np.rint(events["time_s"] / slot_s).astype(int)
    assert np.bincount(ended % FRAME, minlength=FRAME).tolist() == [0, 0, 0, 0, DAYS, DAYS, DAYS, DAYS, 0, 0]
    assert metrics["attempts"] == metrics["delivered"] == 4 * DAYS


@pytest.mark.parametrize("period_s", [0.7, 0.1, 1 / 3, 10.0, 86400.0, 95040.0])
@pytest.mark.parametrize(("weights", "starts"), [([1, 0], 0.0), ([0, 1, 0], 1 / 3), ([2, 1], 0.0)])
def test_day_of_paused_clock_ends_where_clock_resumes(weights, starts, period_s):
    """Each sojourn is one day on the clock and ends where the next day starts."""
    clock = DiurnalClock(weights, period_s, np.zeros(1), np.ones(1))
    rows, time_s = np.zeros(1, np.int64), np.zeros(1)
    for day in range(1, 1001):
        time_s = clock.after_s(rows, time_s, np.array([period_s]))
        assert time_s[0] / period_s == pytest.approx(day + starts, rel=1e-9)
