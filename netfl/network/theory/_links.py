"""Assumptions and link budgets that theories of links and MACs share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.layout import LIGHT_M_S
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.theory import TheoryCase, misfit_fault

ChannelT = TypeVar("ChannelT", bound=Channel)
_ROUNDING = 1e-9
"""Relative tolerance of equal distances."""


def random_channels(case: TheoryCase) -> list[Channel]:
    """Return the channels whose gains are random, and do not follow from the positions alone."""
    channels = case.network.channel
    return [channel for channel in channels if any(law.draw or law.statistics for law in channel.laws())]


def budget_db(case: TheoryCase) -> float:
    """Return the SNR of every user without random gains: power and gains over the noise."""
    assert case.network.radio is not None
    is_random = random_channels(case)
    channels = [channel for channel in case.network.channel if channel not in is_random]
    budget = LinkBudget(case.network.radio, channels, case.layout, case.streams)
    return float(budget.snr_db(np.arange(1), 0.0)[0])


def budget_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Yield misfits of different links, and of moving users."""
    if case.network.motion is not None:
        yield misfit_fault("motion", "users that do not move")
    distances_m = case.layout.distance_m
    if np.ptp(distances_m) > _ROUNDING * distances_m.max():
        yield misfit_fault("topology", "users at one distance")


def find_random_channel(case: TheoryCase, *kinds: type[ChannelT]) -> ChannelT | None:
    """Return the only random channel if it is of one of *kinds*, else ``None``."""
    channels = random_channels(case)
    return channels[0] if len(channels) == 1 and isinstance(channels[0], kinds) else None


def find_threshold(case: TheoryCase) -> float | None:
    """Return the SNR in dB of an all-or-nothing reception, or ``None`` for other receptions."""
    reception, radio = case.network.reception, case.network.radio
    if radio is None or not isinstance(reception, SnrThreshold | Shannon):
        return None
    return reception.threshold_db(radio.bandwidth)


def medium_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Yield misfits of a medium in which frames fail for other reasons than collisions, or survive them."""
    network, min_snr_db = case.network, find_threshold(case)
    yield from budget_misfits(case)
    if random_channels(case) or any(channel.speed_m_s < LIGHT_M_S for channel in network.channel):
        yield misfit_fault("channel", "channels with no fading or delay")
    elif min_snr_db is None:
        yield misfit_fault("reception", "snr_threshold or shannon, in which only collisions cause losses")
    elif budget_db(case) < min_snr_db:
        yield misfit_fault("radio", "users that are all received without collisions")
    yield from cell_misfits(case)


def cell_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Yield misfits of several towers, of outages, and of collisions that a frame survives."""
    network = case.network
    if network.interference != "collide":
        yield misfit_fault("interference", "collisions in which all are lost", network.interference)
    if network.capture is not None:
        yield misfit_fault("capture", "collisions in which all are lost", network.capture)
    if len(case.layout.towers) != 1:
        yield misfit_fault("topology", "one tower")
    if network.outages:
        yield misfit_fault("outages", "a network without outages")


def saturated_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Yield misfits of users that do not always have a packet, all of one size."""
    traffic = case.network.traffic
    if len(traffic) != 1 or not traffic[0].is_saturated or traffic[0].size.distribution != "fixed":
        yield misfit_fault("traffic", "saturated users with packets of one size")
