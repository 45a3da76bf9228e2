"""What meets on the air: overlapping flights are rivals, touching ones are not, at any time of the clock."""

from itertools import pairwise

import numpy as np
import pytest

from netfl.network.radio.transmission import SharedChannel, Transmission


def flight(start_s, end_s, channel=0):
    """One user on the air from *start_s* to *end_s*."""
    return Transmission(None, np.array([0]), [0], ("tower:0", 9), channel, start_s, end_s, 0, None, None)


def rivals(*spans, channels=None):
    """Pairs of flights, by number, that meet; they enter in the order in which they are given."""
    ether = SharedChannel()
    flights = [flight(*span, channel) for span, channel in zip(spans, channels or [0] * len(spans), strict=True)]
    for one in flights:
        ether.enter(one)
    found = {(i, j) for i, one in enumerate(flights) for j, other in enumerate(flights) if other in one.interferers}
    assert found == {(j, i) for i, j in found}, "if one meets the other, the other meets it"
    return {pair for pair in found if pair[0] < pair[1]}


@pytest.mark.parametrize("later", [0.0, 1.0, 1e4, 1e7])
@pytest.mark.parametrize("airtime_s", [1e-4, 0.3, 2.0])
def test_a_tenth_of_an_airtime_is_enough_to_meet(later, airtime_s):
    begins = later + airtime_s * np.array([0.0, 0.9, 1.8, 2.85])
    assert rivals(*zip(begins, begins + airtime_s, strict=True)) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("first", [0, 10**5, 3 * 10**9])
@pytest.mark.parametrize("airtime_s", [0.1, 1 / 3, 0.0072])
def test_what_touches_does_not_meet(first, airtime_s):
    """Boundaries by four ways of rounding: as products, as sums, as the clock adds them up, up to 10^9 s."""
    product = airtime_s * np.arange(first, first + 40)
    added = np.cumsum([product[0], *[airtime_s] * 39])
    for begins in (product, added):
        assert rivals(*zip(begins, begins + airtime_s, strict=True)) == set()
        assert rivals(*pairwise(begins)) == set()
    ends = product + ((product + airtime_s) - product)
    assert rivals(*zip(product, ends, strict=True)) == set()


def test_one_in_the_midst_of_another_and_one_around_it():
    assert rivals((0.0, 10.0), (4.0, 5.0), (6.0, 6.5)) == {(0, 1), (0, 2)}
    assert rivals((4.0, 5.0), (0.0, 10.0)) == {(0, 1)}
    assert rivals((1.0, 2.0), (1.0, 2.0)) == {(0, 1)}


def test_channels_keep_apart():
    spans = [(0.0, 1.0)] * 4
    assert rivals(*spans, channels=[0, 1, 0, 2]) == {(0, 2)}


def test_what_will_arrive_later_meets_only_what_is_there_then():
    """Slow signals enter when they are sent: one is on its way until 5, what is sent after it arrives before it."""
    assert rivals((5.0, 6.0), (1.0, 2.0), (5.5, 6.5), (6.0, 7.0)) == {(0, 2), (2, 3)}


def test_who_has_left_is_not_met_again():
    ether = SharedChannel()
    one, other = flight(0.0, 1.0), flight(0.5, 1.5)
    ether.enter(one)
    ether.leave(one)
    ether.enter(other)
    assert (one.interferers, other.interferers) == ([], [])
    with pytest.raises(ValueError, match="not in list"):
        ether.leave(one)
