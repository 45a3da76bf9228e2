"""The rule of agreement: Welch's interval equals that of SciPy, verdicts those by hand, and wrong values are found."""

import csv
import math

import numpy as np
import paper
import pytest
import tables
from agreement import Comparison, margin, order_answer, welch_half
from reproduction import Published, Row
from scipy import stats

FIVE = {"mean_of": 5, "basis": "5 runs"}


def test_the_interval_is_that_of_welch():
    """Two samples with a confidence interval by SciPy; the second one is known by its mean and deviation only."""
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(3.0, 1.0, 4), rng.normal(2.0, 2.5, 7)
    low, high = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    found = Comparison([*ours], Published(theirs.mean(), theirs.std(ddof=1), mean_of=7))
    assert found.difference == pytest.approx((low + high) / 2)
    assert found.half == pytest.approx((high - low) / 2)


def test_a_single_published_run_has_the_spread_of_ours():
    """By hand: s = 1.2910 for 9, 10, 11 and 12; one more run differs from the mean by t s √(1/4 + 1)."""
    values = [9.0, 10.0, 11.0, 12.0]
    expected = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) * math.sqrt(1.25)
    assert Comparison(values, Published(10.0)).half == pytest.approx(expected)
    assert Comparison(values, Published(10.0, spread=0.9)).half == pytest.approx(expected), (
        "± of splits is no ± of runs"
    )


@pytest.mark.parametrize(
    ("deviation", "spread", "mean_of", "half"),
    [
        (0.0, 0.0, 5, 0.0),
        (0.0, 0.0, 1, 0.0),
        (0.0, 1.0, 5, stats.t.ppf(0.975, 4) / math.sqrt(5)),
        (1.0, 0.0, 5, stats.t.ppf(0.975, 2) / math.sqrt(3)),
    ],
)
def test_equal_values_leave_the_spread_of_the_others(deviation, spread, mean_of, half):
    assert welch_half(deviation, 3, spread, mean_of) == pytest.approx(half)


@pytest.mark.parametrize(
    ("published", "effect", "expected"),
    [
        (Published(72.0, 4.2, **FIVE), 5.4, 2.7),  # half of the effect, however wide the published spread
        (Published(72.0, 0.3, **FIVE), math.nan, 0.65),  # 2 · 0.3 + 0.05
        (Published(72.0, 0.3, **FIVE), 0.0, 0.65),  # two equal values are no effect
        (Published(100.0, 0.0, **FIVE), math.nan, 0.05),
        (Published(724.0, 72.0, digits=0, **FIVE), math.nan, 144.5),
        (Published(low=45, high=55, text="about 50"), 25.0, 12.5),
    ],
)
def test_the_margin_is_half_of_the_effect_or_two_spreads_and_half_a_digit(published, effect, expected):
    assert margin(published, effect) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "published", "effect", "answer"),
    [
        # s = 1, n = 3, k = 5, s₀ = 0: q = 2.484
        ([9.0, 10.0, 11.0], Published(10.0, **FIVE), 5.0, "yes"),
        ([9.0, 10.0, 11.0], Published(10.0, **FIVE), 4.9, "open"),  # the interval is wider than the margin
        ([9.0, 10.0, 11.0], Published(12.0, **FIVE), 9.0, "yes"),  # 2 + 2.484 < 4.5
        ([9.0, 10.0, 11.0], Published(12.1, **FIVE), 9.0, "open"),
        ([9.0, 10.0, 11.0], Published(17.0, **FIVE), 9.0, "no"),  # 7 - 2.484 > 4.5
        ([9.0, 10.0, 11.0], Published(3.0, **FIVE), 9.0, "no"),
        ([9.0, 10.0, 11.0], Published(16.9, **FIVE), 9.0, "open"),
        # all replicas equal
        ([10.04, 10.04, 10.04], Published(10.0, **FIVE), math.nan, "yes"),  # the value was rounded
        ([10.06, 10.06, 10.06], Published(10.0, **FIVE), math.nan, "no"),
        ([10.0, 10.0, 10.0], Published(10.4, digits=0), math.nan, "yes"),
        # a range of words
        ([50.0, 50.0, 50.0], Published(low=45, high=55, text="about 50"), 25.0, "yes"),
        ([30.0, 30.0, 30.0], Published(low=45, high=55, text="about 50"), 25.0, "no"),  # 15 beyond the range
        ([34.0, 34.0, 34.0], Published(low=45, high=55, text="about 50"), 25.0, "yes"),
        ([10.0, 50.0, 90.0], Published(low=45, high=55, text="about 50"), 25.0, "open"),
        # no interval
        ([50.0], Published(50.0), 25.0, "open"),
        ([50.0, 50.0], Published(50.0), 25.0, "open"),
        ([50.0, 50.0, 50.0, math.nan], Published(50.0), 25.0, "open"),  # diverged
        ([], Published(50.0), 25.0, "open"),
    ],
)
def test_verdicts_on_values(values, published, effect, answer):
    assert Comparison(values, published, effect).answer == answer


def test_a_significant_difference_may_agree_and_a_wide_published_spread_may_not():
    """Two values of Table 2 of q-FFL: shirts with q = 5, and with AFL, whose ± is wider than half of the effect."""
    small = Comparison([74.62, 74.70, 74.78], Published(74.2, 0.3, **FIVE), 8.2)
    assert not small.includes_zero
    assert small.answer == "yes"
    wide = Comparison([66.3, 66.4, 66.5], Published(71.4, 4.2, **FIVE), 5.4)
    assert wide.answer == "open", "the value of q = 0 does not agree with that of AFL"


def test_without_an_effect_the_spread_alone_could_never_be_the_margin():
    """Even with a thousand equal runs, the interval of five published ones is ± 1.24 s."""
    found = welch_half(0.0, 1000, 1.0, 5)
    assert found == pytest.approx(1.2417, abs=1e-4)
    assert found < margin(Published(0.0, 1.0, **FIVE))


@pytest.mark.parametrize(("mean_of", "limit"), [(1, 6.0), (5, 3.0)])
@pytest.mark.quick_first
def test_values_at_the_margin_seldom_agree_and_equal_ones_seldom_disagree(mean_of, limit):
    """At a true difference of M, the rule says yes in at most 2.5 %; without a difference, no in far less."""
    rng, at_margin, equal, inside, draws = np.random.default_rng(8), 0, 0, 0, 800
    for _ in range(draws):
        ours, theirs = rng.normal(0.0, 1.0, 6), rng.normal(0.0, 1.0, mean_of)
        spread = theirs.std(ddof=1) if mean_of > 1 else 0.0
        same = Comparison([*ours], Published(theirs.mean(), spread, mean_of=mean_of), 2 * limit)
        inside += abs(same.difference) < same.half
        equal += same.answer == "no"
        at_margin += Comparison([*(ours + limit)], same.published, 2 * limit).answer == "yes"
    deviation = math.sqrt(0.025 * 0.975 / draws)
    assert at_margin / draws < 0.025 + 3 * deviation
    assert equal == 0
    assert inside / draws == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / draws))


def test_the_number_of_replicas_that_decides():
    """s = 1, s₀ = 0, d = 1 and M = 2.5: q falls to 1.5 between 4 (1.591) and 5 (1.242) replicas."""
    found = Comparison([9.0, 10.0, 11.0], Published(9.0, **FIVE), 5.0)
    assert (found.answer, found.needed) == ("open", 5)
    assert stats.t.ppf(0.975, 4) / math.sqrt(5) < 1.5 < stats.t.ppf(0.975, 3) / 2
    assert Comparison([9.0, 10.0, 11.0], Published(10.0, 2.0, **FIVE), 2.0).needed is None, (
        "the published mean is too wide"
    )
    assert Comparison([9.0], Published(10.0), 5.0).needed is None


@pytest.mark.parametrize(
    ("differences", "answer"),
    [
        ([1.0, 1.1, 0.9], "yes"),
        ([-1.0, -1.1, -0.9], "no"),
        ([1.0, -1.1, 0.9], "open"),
        ([0.0, 0.0, 0.0], "open"),
        ([2.0, 2.0, 2.0], "yes"),
        ([2.0, 2.0], "open"),
        ([2.0, 2.0, 2.0, math.nan], "open"),  # diverged
        ([], "open"),
    ],
)
def test_verdicts_on_orders(differences, answer):
    assert order_answer(differences) == answer


def test_values_of_0_and_100_percent_are_extreme():
    known = {value: Row("", (), "", "accuracy", Published(value)) for value in (0.0, 50.0, 99.9, 100.0)}
    assert [value for value, row in known.items() if row.is_extreme] == [0.0, 100.0]
    assert not Row("", (), "", "divergence", Published(0.0), scale=1.0).is_extreme
    assert not Row("", (), "", "accuracy").is_extreme


def test_the_margins_of_all_published_values_are_stored():
    stored = (paper.DOCS / "reproduction/margins.csv").read_text(encoding="utf-8")
    assert stored == tables.margins(paper.EXPERIMENTS.values())
    lines = {(line["experiment"], line["value"]): line for line in csv.DictReader(stored.splitlines())}
    assert len(lines) == len(stored.splitlines()) - 1
    shirt = lines["afl_fashion_mnist", "AFL: shirt"]
    assert (shirt["published"], shirt["spread"], shirt["effect"], shirt["margin"]) == ("71.4", "4.2", "5.4", "2.70")
    assert shirt["basis"].endswith("(assumed)")
    assert all(float(line["margin"]) > 0.0 for line in lines.values())


def test_the_former_verdicts_are_those_of_the_former_page():
    """65 agree, 20 are open and 2 disagree: as printed before the rule was changed."""
    former = [*tables.former_verdicts().values()]
    assert [former.count(answer) for answer in ("yes", "open", "no")] == [65, 20, 2]
