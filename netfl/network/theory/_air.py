"""What theories of links and MACs have in common: link budgets, and senders who never run dry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.channel._fading import Fading
from netfl.network.radio import Air
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.sites import LIGHT_M_S
from netfl.network.theory import Case, misfit

_SAME = 1e-9
"""By which share distances may differ, by rounding, and still be one."""


def still(channel: Channel) -> bool:
    """Whether a channel's gain is drawn nowhere, and follows from the places alone."""
    laws = channel.laws()
    return bool(laws) and all(law.draw is None and not law.figures for law in laws)


def lively(case: Case) -> list[Channel]:
    """The channels whose gains are drawn."""
    return [channel for channel in case.said.channel if not still(channel)]


def budget_db(case: Case) -> float:
    """The SNR of every user without what is drawn: power and gains over the noise."""
    assert case.said.radio is not None
    channels = [channel for channel in case.said.channel if still(channel)]
    air = Air(case.said.radio, channels, case.sites, case.streams)
    return float(air.snr_db(np.arange(1), 0.0)[0])


def budget_misfits(case: Case) -> Iterator[Fault]:
    """Links that are not all alike, and users who move."""
    if case.said.motion is not None:
        yield misfit("motion", "users who stand still")
    distances_m = case.sites.distance_m
    if np.ptp(distances_m) > _SAME * distances_m.max():
        yield misfit("topology", "users at one distance")


def fading_of(case: Case) -> Fading | None:
    """The one fading among the channels; ``None`` if there is another number of what is drawn."""
    drawn = lively(case)
    return drawn[0] if len(drawn) == 1 and isinstance(drawn[0], Fading) else None


def threshold_of(case: Case) -> float | None:
    """The SNR in dB from which everything is received, nothing below; ``None`` where it is not so simple."""
    reception, radio = case.said.reception, case.said.radio
    if radio is None or not isinstance(reception, SnrThreshold | Shannon):
        return None
    return reception.threshold_db(radio.bandwidth)


def clear_misfits(case: Case) -> Iterator[Fault]:
    """Air on which more fails than by collisions, or less."""
    said, least_db = case.said, threshold_of(case)
    yield from budget_misfits(case)
    if lively(case) or any(channel.speed_m_s < LIGHT_M_S for channel in said.channel):
        yield misfit("channel", "air that neither fades nor delays")
    elif least_db is None:
        yield misfit("reception", "snr_threshold or shannon, in which nothing but collisions fails")
    elif budget_db(case) < least_db:
        yield misfit("radio", "users who are all received")
    yield from alone_misfits(case)


def alone_misfits(case: Case) -> Iterator[Fault]:
    """Several towers, outages, collisions of which one survives."""
    said = case.said
    if said.interference != "collide":
        yield misfit("interference", "collisions in which all are lost", said.interference)
    if said.capture is not None:
        yield misfit("capture", "collisions in which all are lost", said.capture)
    if len(case.sites.towers) != 1:
        yield misfit("topology", "one tower")
    if said.outages:
        yield misfit("outages", "a network without outages")


def saturated_misfits(case: Case) -> Iterator[Fault]:
    """Users who do not always have a packet of the same size."""
    traffic = case.said.traffic
    if len(traffic) != 1 or not traffic[0].saturated or traffic[0].size.law != "fixed":
        yield misfit("traffic", "saturated users, whose packets are all of one size")
