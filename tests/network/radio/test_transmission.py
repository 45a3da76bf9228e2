"""Shared channels: overlapping transmissions interfere, adjacent ones do not, at any time of the clock."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from netfl.network.radio.transmission import SharedChannel, Transmission


def transmission(start_s, end_s, channel=0):
    """Return a transmission of one user from *start_s* to *end_s*."""
    return Transmission(None, np.array([0]), [0], ("tower:0", 9), channel, start_s, end_s, 0, None, None)


def interfering_pairs(*spans, channels=None):
    """Return the pairs of interfering transmissions, which enter in the given order."""
    shared = SharedChannel()
    flights = [
        transmission(*span, channel_id) for span, channel_id in zip(spans, channels or [0] * len(spans), strict=True)
    ]
    for first in flights:
        shared.enter(first)
    pairs = {
        (i, j) for i, first in enumerate(flights) for j, second in enumerate(flights) if second in first.interferers
    }
    assert pairs == {(j, i) for i, j in pairs}, "interference is symmetric"
    return {pair for pair in pairs if pair[0] < pair[1]}


@pytest.mark.parametrize("offset_s", [0.0, 1.0, 1e4, 1e7])
@pytest.mark.parametrize("airtime_s", [1e-4, 0.3, 2.0])
def test_overlap_of_a_tenth_interferes(offset_s, airtime_s):
    starts_s = offset_s + airtime_s * np.array([0.0, 0.9, 1.8, 2.85])
    assert interfering_pairs(*zip(starts_s, starts_s + airtime_s, strict=True)) == {(0, 1), (1, 2)}


@pytest.mark.parametrize("first", [0, 10**5, 3 * 10**9])
@pytest.mark.parametrize("airtime_s", [0.1, 1 / 3, 0.0072])
def test_adjacent_transmissions_do_not_interfere(first, airtime_s):
    """Boundaries are rounded as products, as sums and as the clock adds them up, up to 10^9 s."""
    product = airtime_s * np.arange(first, first + 40)
    added = np.cumsum([product[0], *[airtime_s] * 39])
    for starts_s in (product, added):
        assert interfering_pairs(*zip(starts_s, starts_s + airtime_s, strict=True)) == set()
        assert interfering_pairs(*pairwise(starts_s)) == set()
    ends = product + ((product + airtime_s) - product)
    assert interfering_pairs(*zip(product, ends, strict=True)) == set()


def test_nested_transmissions_interfere():
    assert interfering_pairs((0.0, 10.0), (4.0, 5.0), (6.0, 6.5)) == {(0, 1), (0, 2)}
    assert interfering_pairs((4.0, 5.0), (0.0, 10.0)) == {(0, 1)}
    assert interfering_pairs((1.0, 2.0), (1.0, 2.0)) == {(0, 1)}


def test_transmissions_on_separate_channels_do_not_interfere():
    spans = [(0.0, 1.0)] * 4
    assert interfering_pairs(*spans, channels=[0, 1, 0, 2]) == {(0, 2)}


def test_delayed_transmission_interferes_at_its_arrival():
    """Slow signals enter when they are sent: transmissions sent later can arrive before them."""
    assert interfering_pairs((5.0, 6.0), (1.0, 2.0), (5.5, 6.5), (6.0, 7.0)) == {(0, 2), (2, 3)}


def test_ended_transmission_does_not_interfere():
    channel = SharedChannel()
    first, second = transmission(0.0, 1.0), transmission(0.5, 1.5)
    channel.enter(first)
    channel.leave(first)
    channel.enter(second)
    assert (first.interferers, second.interferers) == ([], [])
    with pytest.raises(ValueError, match="not in list"):
        channel.leave(first)


def test_transmission_grows_at_its_end():
    """It is built by place, as names take three times as long and there is one for each group of frames.

    Only a field after these keeps the values of the others where they are.
    """
    names = [each.name for each in fields(Transmission)]
    of_transmit_path = [
        "frames",
        "ids",
        "places",
        "tower",
        "channel",
        "start_s",
        "end_s",
        "mode",
        "limit",
        "interrupted",
        "begin_s",
        "airtime_s",
        "share",
        "power_offset_db",
        "outside",
        "link_uses",
        "spectrum",
    ]
    assert names[: len(of_transmit_path)] == of_transmit_path
