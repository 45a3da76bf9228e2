"""What lies in a period: one count for slots, blocks, windows and outages, exact on every boundary."""

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
def test_a_multiple_of_the_length_begins_its_period(length_s, first):
    """However it was reckoned: as a product, by an end before it, or from a decimal number."""
    numbers = first + np.arange(3000)
    products = numbers * length_s
    ends = (numbers - 1) * length_s + length_s
    for times_s in (products, ends, np.nextafter(products, 0.0), np.nextafter(products, np.inf)):
        assert (periods_of(times_s, length_s)[1:] == numbers[1:]).all()
        assert (periods_from(times_s, length_s)[1:] == numbers[1:]).all()
    for number, time_s in zip(numbers.tolist(), products.tolist(), strict=True):
        assert period_of(time_s, length_s) == period_from(time_s, length_s) == number


@given(st.floats(0.0, 1e12), st.floats(1e-9, 1e9))
def test_only_a_time_beside_a_boundary_is_moved_to_it(time_s, length_s):
    """Against exact fractions: by no more than 10⁻⁹ periods and some steps of the clock."""
    exact = Fraction(time_s) / Fraction(length_s)
    slack = Fraction(2, 10**9) + exact * Fraction(2, 10**15)
    of, start = period_of(time_s, length_s), period_from(time_s, length_s)
    if exact < 2**48:  # beyond that a step of the clock is more than a part of a period
        assert of <= exact + slack
        assert exact < of + 1
        assert exact <= start + slack
        assert start < exact + 1
        assert start - of in (0, 1)
    assert periods_of(time_s, length_s) == of
    assert periods_from([time_s], length_s)[0] == start


def test_a_time_that_really_lies_before_a_boundary_stays_there():
    assert period_of(1.0 - 2e-9, 1.0) == 0
    assert period_of(1e6 - 1e-8, 1.0) == 10**6 - 1
    assert period_from(1.0 + 2e-9, 1.0) == 2


def test_more_periods_than_can_be_counted_are_the_last():
    assert period_of(1e30, 1e-9) == period_from(1e30, 1e-9) == MAX_PERIOD
    assert periods_of([1e30, 0.5], 1e-9).tolist() == [MAX_PERIOD, 500_000_000]
    assert periods_from([1e30, 0.5], 1e-9).tolist() == [MAX_PERIOD, 500_000_000]


def test_fewer_periods_before_time_0_than_can_be_counted_are_the_first():
    """A process that has settled by time 0 has started before it."""
    assert periods_of([-1.0, 1.0], 1e-300).tolist() == [-MAX_PERIOD, MAX_PERIOD]


def test_a_time_is_moved_by_some_steps_of_the_clock():
    for time_s in (0.1, 1.0, 12345.678, 1e9):
        assert 4 <= (after_rounding(time_s) - time_s) / np.spacing(time_s) <= 10
        assert 4 <= (time_s - before_rounding(time_s)) / np.spacing(time_s) <= 20


def watched(tmp_path, slot_s, slots, mac, **more):
    """Return figures and events of one user who always has a packet of a slot."""
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
            **more.pop("access", {}),
        },
    } | more
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
def test_one_user_who_sends_in_every_slot_fills_every_slot(tmp_path, mac, slot_s):
    figures, events = watched(tmp_path, slot_s, 2000, mac)
    assert figures["delivered"] == 2000
    assert figures["throughput_bps"] == pytest.approx(1000.0 / slot_s, rel=1e-12)
    assert (np.rint(events["time_s"] / slot_s) == np.arange(1, 2001)).all()


@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3])
def test_every_slot_after_the_warmup_counts(tmp_path, slot_s):
    figures, _ = watched(tmp_path, slot_s, 800, MACS[0], warmup=300 * slot_s)
    assert figures["delivered"] == 500
    assert figures["throughput_bps"] == pytest.approx(1000.0 / slot_s, rel=1e-12)


FRAME, OPENS, CLOSES, DAYS = 10, 3, 7, 200


def outages(kind, slot_s, folder):
    """Return a way to say that a user is up in the slots 3 to 6 of every ten."""
    if kind == "diurnal":
        return {"period": FRAME * slot_s, "opens": OPENS * slot_s, "closes": CLOSES * slot_s, "nodes": "users"}
    if kind == "maintenance":
        window = (
            {"start": 0, "duration": OPENS * slot_s, "every": FRAME * slot_s},
            {
                "start": CLOSES * slot_s,
                "duration": (FRAME - CLOSES) * slot_s,
                "every": FRAME * slot_s,
            },
        )
        return {"windows": [{"nodes": "users", **each} for each in window]}
    spans = [(day * FRAME + CLOSES, (day + 1) * FRAME + OPENS) for day in range(-1, DAYS)]
    rows = [f"0,{max(0, begin) * slot_s!r},{end * slot_s!r}" for begin, end in spans]
    (folder / "calendar.csv").write_text("\n".join(["node,start_s,end_s", *rows]) + "\n", encoding="utf-8")
    return {"file": str(folder / "calendar.csv")}


@pytest.mark.quick_first
@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3])
@pytest.mark.parametrize("kind", ["diurnal", "maintenance", "calendar"])
def test_a_window_of_four_slots_carries_four_frames_and_cuts_none(tmp_path, kind, slot_s):
    access = {"outages": [{"kind": kind, **outages(kind, slot_s, tmp_path)}]}
    figures, events = watched(tmp_path, slot_s, FRAME * DAYS, {"kind": "tdma"}, access=access)
    ended = np.rint(events["time_s"] / slot_s).astype(int)
    assert np.bincount(ended % FRAME, minlength=FRAME).tolist() == [0, 0, 0, 0, DAYS, DAYS, DAYS, DAYS, 0, 0]
    assert figures["attempts"] == figures["delivered"] == 4 * DAYS


@pytest.mark.parametrize("period_s", [0.7, 0.1, 1 / 3, 10.0, 86400.0, 95040.0])
@pytest.mark.parametrize(("weights", "starts"), [([1, 0], 0.0), ([0, 1, 0], 1 / 3), ([2, 1], 0.0)])
def test_a_day_of_a_clock_that_stands_at_times_ends_where_it_goes_on(weights, starts, period_s):
    """Each sojourn is a day on the clock: it ends where the next one begins, whatever its number."""
    clock = DiurnalClock(weights, period_s, np.zeros(1), np.ones(1))
    rows, time_s = np.zeros(1, np.int64), np.zeros(1)
    for day in range(1, 1001):
        time_s = clock.after_s(rows, time_s, np.array([period_s]))
        assert time_s[0] / period_s == pytest.approx(day + starts, rel=1e-9)
