"""What theories of links and MACs have in common: link budgets, and senders who never run dry."""

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

_SAME = 1e-9
"""By which share distances may differ, by rounding, and still be one."""


def is_static(channel: Channel) -> bool:
    """Whether a channel's gain is drawn nowhere, and follows from the places alone."""
    laws = channel.laws()
    return bool(laws) and all(law.draw is None and not law.figures for law in laws)


def random_channels(case: TheoryCase) -> list[Channel]:
    """The channels whose gains are drawn."""
    return [channel for channel in case.said.channel if not is_static(channel)]


def budget_db(case: TheoryCase) -> float:
    """The SNR of every user without what is drawn: power and gains over the noise."""
    assert case.said.radio is not None
    channels = [channel for channel in case.said.channel if is_static(channel)]
    air = LinkBudget(case.said.radio, channels, case.sites, case.streams)
    return float(air.snr_db(np.arange(1), 0.0)[0])


def budget_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Links that are not all alike, and users who move."""
    if case.said.motion is not None:
        yield misfit_fault("motion", "users who stand still")
    distances_m = case.sites.distance_m
    if np.ptp(distances_m) > _SAME * distances_m.max():
        yield misfit_fault("topology", "users at one distance")


def fading_of(case: TheoryCase) -> Fading | None:
    """The one fading among the channels; ``None`` if there is another number of what is drawn."""
    drawn = random_channels(case)
    return drawn[0] if len(drawn) == 1 and isinstance(drawn[0], Fading) else None


def threshold_of(case: TheoryCase) -> float | None:
    """The SNR in dB from which everything is received, nothing below; ``None`` where it is not so simple."""
    reception, radio = case.said.reception, case.said.radio
    if radio is None or not isinstance(reception, SnrThreshold | Shannon):
        return None
    return reception.threshold_db(radio.bandwidth)


def clear_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Air on which more fails than by collisions, or less."""
    said, least_db = case.said, threshold_of(case)
    yield from budget_misfits(case)
    if random_channels(case) or any(channel.speed_m_s < LIGHT_M_S for channel in said.channel):
        yield misfit_fault("channel", "air that neither fades nor delays")
    elif least_db is None:
        yield misfit_fault("reception", "snr_threshold or shannon, in which nothing but collisions fails")
    elif budget_db(case) < least_db:
        yield misfit_fault("radio", "users who are all received")
    yield from alone_misfits(case)


def alone_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Several towers, outages, collisions of which one survives."""
    said = case.said
    if said.interference != "collide":
        yield misfit_fault("interference", "collisions in which all are lost", said.interference)
    if said.capture is not None:
        yield misfit_fault("capture", "collisions in which all are lost", said.capture)
    if len(case.sites.towers) != 1:
        yield misfit_fault("topology", "one tower")
    if said.outages:
        yield misfit_fault("outages", "a network without outages")


def saturated_misfits(case: TheoryCase) -> Iterator[Fault]:
    """Users who do not always have a packet of the same size."""
    traffic = case.said.traffic
    if len(traffic) != 1 or not traffic[0].is_saturated or traffic[0].size.law != "fixed":
        yield misfit_fault("traffic", "saturated users, whose packets are all of one size")
