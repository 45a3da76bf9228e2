"""Assumptions and link budgets that theories of links and MACs share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.channel._fading import Fading
from netfl.network.layout import LIGHT_M_S
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.theory import TheoryCase, misfit_fault

_ROUNDING = 1e-9
"""Relative tolerance of equal distances."""


def is_static(channel: Channel) -> bool:
    """Return whether a channel's gain is not random, and follows from the positions alone."""
    laws = channel.laws()
    return bool(laws) and all(law.draw is None and not law.figures for law in laws)


def random_channels(case: TheoryCase) -> list[Channel]:
    """Return the channels with random gains."""
    return [channel for channel in case.network.channel if not is_static(channel)]


def budget_db(case: TheoryCase) -> float:
    """Return the SNR of every user without random gains: power and gains over the noise."""
    assert case.network.radio is not None
    channels = [channel for channel in case.network.channel if is_static(channel)]
    budget = LinkBudget(case.network.radio, channels, case.layout, case.streams)
    return float(budget.snr_db(np.arange(1), 0.0)[0])


def budget_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Yield misfits of different links, and of moving users."""
    if case.network.motion is not None:
        yield misfit_fault("motion", "users who stand still")
    distances_m = case.layout.distance_m
    if np.ptp(distances_m) > _ROUNDING * distances_m.max():
        yield misfit_fault("topology", "users at one distance")


def find_fading(case: TheoryCase) -> Fading | None:
    """Return the only random channel if it is a fading, else ``None``."""
    channels = random_channels(case)
    return channels[0] if len(channels) == 1 and isinstance(channels[0], Fading) else None


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
        yield misfit_fault("channel", "air that neither fades nor delays")
    elif min_snr_db is None:
        yield misfit_fault("reception", "snr_threshold or shannon, in which nothing but collisions fails")
    elif budget_db(case) < min_snr_db:
        yield misfit_fault("radio", "users who are all received")
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
    if len(traffic) != 1 or not traffic[0].is_saturated or traffic[0].size.law != "fixed":
        yield misfit_fault("traffic", "saturated users, whose packets are all of one size")
