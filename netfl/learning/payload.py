"""Payloads: what an update and a broadcast of each learner hold, in bits without headers.

An update holds θ, with its buffers, and what the aggregation sends beside it (`Aggregation.uplink_extra`).  A broadcast
holds θ and `Aggregation.downlink_extra`.  Both hold t if any learner of the trace has it, so that t makes no payload
unequal, and neither holds the layers that stay on the devices (`DeviceRule.personal`).  A codec gives the size of θ
without its buffers; all else has 32 bits a number.  This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netfl.learning.aggregation import Aggregation
from netfl.learning.codec import NUMBER_BITS, WHOLE, Codecs, coded_bits
from netfl.learning.data import Data
from netfl.learning.model import Model
from netfl.learning.spec import LearnerSpec
from netfl.types import Payload

_MAX_NAMES = 4
"""Names of learners with equal payloads that are listed."""


def model_payload(learners: Mapping[str, LearnerSpec], model: Model, data: Data, codecs: Codecs = WHOLE) -> Payload:
    """Return the payload of a learner that sends only its model, and t if one of *learners* has it."""
    return _ModelSize.of(learners, model, data, needs_buffers=bool(codecs.named)).payload(codecs)


def learner_payloads(
    learners: Mapping[str, LearnerSpec], model: Model, data: Data, codecs: Codecs = WHOLE
) -> dict[str, Payload]:
    """Return the payload of each of *learners*, by name."""
    if not learners:
        return {}
    numbers = _ModelSize.of(learners, model, data, needs_buffers=False).numbers
    sends_more = any(_sends_more(learner.aggregation, numbers) for learner in learners.values())
    size = _ModelSize.of(learners, model, data, needs_buffers=sends_more or bool(codecs.named))
    of_model = size.payload(codecs)
    payloads = {}
    for name, learner in learners.items():
        personal = personal_numbers(learner, model, data)
        shared = size.trained - personal.trained
        more_up = NUMBER_BITS * (learner.aggregation.uplink_extra(shared) - personal.all)
        more_down = NUMBER_BITS * (learner.aggregation.downlink_extra(shared) - personal.all)
        payloads[name] = Payload(of_model.uplink_bits + more_up, of_model.downlink_bits + more_down)
    return payloads


def personal_numbers(learner: LearnerSpec, model: Model, data: Data) -> PersonalNumbers:
    """Count what stays on the devices of *learner*; this imports torch if its rule of devices has personal layers."""
    rule = learner.device
    if rule is None or not rule.has_personal_layers:
        return PersonalNumbers(0, 0)
    from netfl.learning.device_rules import personal_mask

    architecture = model.open(data.shape, data.classes, data.tokens)
    stays = personal_mask(rule, architecture)
    return PersonalNumbers(all=int(stays.sum()), trained=int(stays[: architecture.trained].sum()))


def largest_payload(payloads: Mapping[str, Payload]) -> Payload:
    """Return the largest size in each direction; the two may be of different learners.

    >>> print(largest_payload({"A": Payload(8.0, 4.0), "B": Payload(4.0, 16.0)}))
    8 bits up and 16 bits down
    """
    return Payload(
        max(payload.uplink_bits for payload in payloads.values()),
        max(payload.downlink_bits for payload in payloads.values()),
    )


def list_payloads(payloads: Mapping[str, Payload]) -> str:
    """Return the payloads in words, those of equal learners together.

    >>> list_payloads({"A": Payload(8.0, 8.0), "B": Payload(8.0, 8.0), "C": Payload(16.0, 8.0)})
    'A and B send 8 bits up and 8 bits down, C sends 16 bits up and 8 bits down'
    >>> list_payloads(dict.fromkeys("ABCDEF", Payload(8.0, 8.0)))
    'A, B, C and 3 more send 8 bits up and 8 bits down'
    """
    parts = []
    for payload in dict.fromkeys(payloads.values()):
        names = [name for name, other in payloads.items() if other == payload]
        if len(names) > _MAX_NAMES:
            names = [*names[: _MAX_NAMES - 1], f"{len(names) - _MAX_NAMES + 1} more"]
        *first, last = names
        senders = f"{', '.join(first)} and {last} send" if first else f"{last} sends"
        parts.append(f"{senders} {payload}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class PersonalNumbers:
    """Numbers of a model that stay on a device.

    Args:
        all: parameters and buffers.
        trained: parameters alone.
    """

    all: int
    trained: int


@dataclass(frozen=True, slots=True)
class _ModelSize:
    """Numbers of a model and of t.

    Args:
        parameters: length of θ with its buffers.
        buffers: of them, without gradient; 0 where nobody asks.
        has_t: whether t is sent, 1 or 0.
    """

    parameters: int
    buffers: int
    has_t: int

    @classmethod
    def of(cls, learners: Mapping[str, LearnerSpec], model: Model, data: Data, *, needs_buffers: bool) -> _ModelSize:
        """Return the size of *model*; buffers are counted where they are needed, because that may import torch."""
        has_t = any(learner.objective.t_rate > 0 for learner in learners.values())
        examples = (data.shape, data.classes, data.tokens)
        buffers = model.buffers(*examples) if needs_buffers else 0
        return cls(model.parameters(*examples), buffers, int(has_t))

    @property
    def numbers(self) -> int:
        """Length of the model and of t."""
        return self.parameters + self.has_t

    @property
    def trained(self) -> int:
        """Parameters and t, without buffers."""
        return self.numbers - self.buffers

    def payload(self, codecs: Codecs) -> Payload:
        """Return the size of an update and of a broadcast of these numbers."""
        theta = self.parameters - self.buffers
        whole_bits = NUMBER_BITS * (self.numbers - theta)
        return Payload(coded_bits(codecs.up, theta) + whole_bits, coded_bits(codecs.down, theta) + whole_bits)


def _sends_more(rule: Aggregation, parameters: int) -> bool:
    return rule.uplink_extra(parameters) > 0 or rule.downlink_extra(parameters) > 0
