"""Validation of sums in the air: what they need of the other parts of a network, and what they exclude."""

from __future__ import annotations

import math
from collections.abc import Iterator

from netfl.core.kinds import kind_of
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.round.available import Available
from netfl.network.spec import NetworkSpec


def sum_faults(spec: NetworkSpec) -> Iterator[Fault]:
    """Yield the parts that do not fit sums in the air, and analogue signals that nothing sums."""
    is_analogue = spec.reception is not None and spec.reception.is_analogue
    if spec.interference.sums:
        yield from _needed_parts(spec, is_analogue=is_analogue)
        yield from _excluded_parts(spec)
        yield from _untimely_parts(spec)
    elif is_analogue:
        problem = "nothing decodes analogue signals: they are for sums in the air"
        yield Fault("reception", problem, _kind(spec.reception), "set interference: over_the_air, or another reception")


def _needed_parts(spec: NetworkSpec, *, is_analogue: bool) -> Iterator[Fault]:
    if spec.reception is not None and not is_analogue:
        yield Fault("reception", "sums in the air are of analogue signals", _kind(spec.reception), "set analogue")
    if spec.mac is not None and not spec.mac.makes_sums:
        yield Fault("mac", "sums in the air are of users that send at once", _kind(spec.mac), "set simultaneous")
    if spec.power_control.highest_snr_db == math.inf:
        problem = "signals that add up have to arrive with one amplitude"
        remedy = "set inversion or truncated_inversion with a target"
        yield Fault("power_control", problem, _kind(spec.power_control), remedy)
    if spec.radio is not None and spec.radio.common_bandwidth_hz is None:
        problem = "symbols that add up have to be of one length"
        yield Fault("radio.bandwidth", problem, None, "give all users one bandwidth")
    if spec.round is None:
        yield Fault("interference", "sums updates of rounds, but there are no rounds", "over_the_air", "give round")
    elif not isinstance(spec.round, Available):
        problem = "it can close before the whole sum has arrived"
        yield Fault("round", problem, _kind(spec.round), "set available, perhaps with a deadline")


def _excluded_parts(spec: NetworkSpec) -> Iterator[Fault]:
    for name, digital in {"downlink": spec.downlink, "transport": spec.transport}.items():
        if digital is not None:
            yield Fault(name, "sends bits, but the radio sends analogue symbols", None, "leave it out")
    if spec.user_traffic:
        yield Fault("traffic", "packets of users have bits, which no sum has", None, "set source: towers")
    for name, value in {"receivers": "own", "shared_air": False, "common_loss": 0.0}.items():
        if getattr(spec, name) != value:
            yield Fault(
                name, "a sum is of the users of one tower, and received there", getattr(spec, name), "leave it out"
            )
    if spec.association.can_move:
        yield Fault("association", "a sum is of the users of one tower", _kind(spec.association), "leave it out")
    if spec.jammer is not None:
        problem = "a sum has no model of the bursts that would be added to it"
        yield Fault("jammer", problem, None, "leave it out, or set another interference")
    if spec.allocation is not None:
        yield Fault("allocation", "all users of a sum have the whole band", _kind(spec.allocation), "leave it out")


def _untimely_parts(spec: NetworkSpec) -> Iterator[Fault]:
    """Yield what lets signals of one slot arrive out of step, or updates of several versions meet in one slot."""
    for index, channel in enumerate(spec.channel):
        if channel.has_delay:
            problem = "signals that travel for different times do not arrive in step"
            yield Fault(f"channel.{index}", problem, _kind(channel), "take a channel without delay")
    if not spec.is_punctual or spec.staleness:
        key = "staleness" if spec.staleness else "on_new_version"
        problem = "an update of an older version would be in the sum of a newer one"
        yield Fault(key, problem, getattr(spec, key), "leave it out")


def _kind(part: Spec | None) -> str | None:
    """Return the kind of a part of the network."""
    return None if part is None else kind_of(type(part))
