"""Conditions and link budgets that theories of links and MACs share."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from netfl.core.kinds import kind_of
from netfl.network.channel import Channel
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.theory import Condition, TheoryCase
from netfl.types import Floats

ChannelT = TypeVar("ChannelT", bound=Channel)
_ROUNDING = 1e-9
"""Relative tolerance of equal distances."""


def random_channels(case: TheoryCase) -> list[Channel]:
    """Return the channels whose gains are random, and do not follow from the positions alone."""
    return [channel for channel in case.network.channel if any(law.draw or law.statistics for law in channel.laws())]


def budgets_db(case: TheoryCase, tower: str = "") -> Floats:
    """Return the SNR of each user without random gains, ``[users]``: power and gains over the noise.

    It is that at *tower*, by default at the tower of each.
    """
    assert case.network.radio is not None
    random = random_channels(case)
    channels = [channel for channel in case.network.channel if channel not in random]
    budget = LinkBudget(case.network.radio, channels, case.layout, case.streams)
    return budget.snr_db(np.arange(case.layout.users), 0.0, tower)


def budget_db(case: TheoryCase) -> float:
    """Return the SNR of every user, if all have the same."""
    return float(budgets_db(case)[0])


def find_random_channel(case: TheoryCase, *kinds: type[ChannelT]) -> ChannelT | None:
    """Return the only random channel if it is of one of *kinds*, else ``None``."""
    channels = random_channels(case)
    return channels[0] if len(channels) == 1 and isinstance(channels[0], kinds) else None


def find_threshold(case: TheoryCase) -> float | None:
    """Return the SNR in dB of an all-or-nothing reception, or ``None`` for other receptions."""
    reception = case.network.reception
    radio = case.network.radio
    if radio is None or not isinstance(reception, SnrThreshold | Shannon):
        return None
    if reception.follows_snr:
        return None
    if radio.common_bandwidth_hz is None:
        return None
    return reception.threshold_db(radio.common_bandwidth_hz)


def _is_at_one_distance(case: TheoryCase) -> bool:
    distances_m = case.layout.distance_m
    return float(np.ptp(distances_m)) <= _ROUNDING * float(distances_m.max())


def _has_no_fading(case: TheoryCase) -> bool:
    has_delay = any(channel.has_delay for channel in case.network.channel)
    return not random_channels(case) and not has_delay


def _receives_all(case: TheoryCase) -> bool:
    min_snr_db = find_threshold(case)
    return min_snr_db is not None and budget_db(case) >= min_snr_db


def _is_saturated(case: TheoryCase) -> bool:
    traffic = case.network.traffic
    return len(traffic) == 1 and traffic[0].is_saturated and traffic[0].size.distribution == "fixed"


NO_OUTAGES = Condition("outages", "a network without outages", lambda case: not case.network.has_outages)
SATURATED = Condition("traffic", "saturated users with packets of one size", _is_saturated)

ONE_RADIO = Condition(
    "radio",
    "users of one radio, and towers of one radio",
    lambda case: case.network.radio is None or (case.network.radio.is_one and case.network.radio.channel_noise is None),
)
OWN_TOWER = Condition(
    "receivers",
    "frames that the user's own tower alone receives, without common_loss",
    lambda case: case.network.receivers == "own" and not case.network.common_loss,
)
FULL_POWER = Condition(
    "power_control",
    "frames of full power",
    lambda case: case.network.power_control.is_full,
    lambda case: kind_of(type(case.network.power_control)),
)
EQUAL_LINKS = (
    ONE_RADIO,
    OWN_TOWER,
    FULL_POWER,
    Condition("association", "users that keep their towers", lambda case: not case.network.association.can_move),
    Condition("motion", "users that do not move", lambda case: case.network.motion is None),
    Condition("topology", "users at one distance", _is_at_one_distance),
)
"""Conditions under which all users have the same link budget at all times."""

ONE_CELL = (
    Condition(
        "interference",
        "collisions in which all are lost",
        lambda case: case.network.interference.loses_all,
        lambda case: kind_of(type(case.network.interference)),
    ),
    Condition("topology", "one tower", lambda case: len(case.layout.towers) == 1),
    NO_OUTAGES,
)
"""One tower without outages, and no frame survives a collision."""

NO_FADING = Condition("channel", "channels with no fading or delay", _has_no_fading)
_THRESHOLD = Condition(
    "reception",
    "snr_threshold or shannon with a rate, in which only collisions cause losses",
    lambda case: find_threshold(case) is not None,
    given=(NO_FADING, ONE_RADIO),
)
ONLY_COLLISIONS = (
    *EQUAL_LINKS,
    NO_FADING,
    _THRESHOLD,
    Condition("radio", "users that are all received without collisions", _receives_all, given=(_THRESHOLD,)),
    *ONE_CELL,
)
"""Frames fail by collisions alone, and by each."""
