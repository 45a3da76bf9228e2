"""Sizes of updates, versions and frames, as they are sent."""

from __future__ import annotations

from netfl.network.spec import NetworkSpec
from netfl.network.transport.spec import Segmentation, Transport
from netfl.types import AccessContext, Payload


def design_payload(spec: NetworkSpec, context: AccessContext) -> Payload:
    """Return the sizes of an update and of a broadcast, before compression, for which the network is built."""
    controls = context.controls
    if controls is not None and controls.design_bits is not None:
        return Payload(controls.design_bits, controls.design_bits)
    if spec.update_size is not None:
        return Payload(spec.update_size, spec.update_size)
    return Payload(context.uplink_bits, context.downlink_bits)


def transport_of(spec: NetworkSpec, bits: float) -> Transport:
    """Return the transport of an update of *bits* before an assumed compression."""
    transport = spec.transport or Transport()
    frame_bits = None
    if spec.mac is not None:
        frame_bits = spec.mac.max_payload_bits
    return transport.settled(bits / transport.assumed_compression, frame_bits)


def broadcast_bits(spec: NetworkSpec, context: AccessContext) -> float:
    """Return the size of a version as sent."""
    payload = design_payload(spec, context)
    transport = transport_of(spec, payload.uplink_bits)
    return payload.downlink_bits / transport.assumed_compression_down


def update_cut(spec: NetworkSpec, context: AccessContext) -> Segmentation:
    """Return the frames that an update is sent in."""
    update_bits = design_payload(spec, context).uplink_bits
    transport = transport_of(spec, update_bits)
    return transport.cut(update_bits / transport.assumed_compression)


def largest_frame_bits(spec: NetworkSpec, context: AccessContext) -> float:
    """Return the size of the largest frame that users send; of traffic, the mean."""
    sizes_bits = [traffic.size.mean for traffic in spec.user_traffic]
    if context.duration_s is None:
        sizes_bits.append(update_cut(spec, context).max_bits)
    if spec.evaluation is not None and spec.evaluation.answer is not None:
        sizes_bits.append(spec.evaluation.answer)
    return max(sizes_bits, default=0.0)
