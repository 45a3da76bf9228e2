"""Payloads: what an update and a broadcast of each learner hold, in bits before compression and without headers.

An update holds θ, with its buffers, and what the aggregation sends beside it (`Aggregation.uplink_extra`).  A broadcast
holds θ and `Aggregation.downlink_extra`.  Both hold t if any learner of the trace has it, so that t makes no payload
unequal.  This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from netfl.learning.aggregation import Aggregation
from netfl.learning.data import Data
from netfl.learning.model import Model
from netfl.learning.spec import LearnerSpec
from netfl.types import Payload

_NUMBER_BITS = 32
"""Bits that carry one number."""
_MAX_NAMES = 4
"""Names of learners with equal payloads that are listed."""


def model_payload(learners: Mapping[str, LearnerSpec], model: Model, data: Data) -> Payload:
    """Return the payload of a learner that sends only its model, and t if one of *learners* has it."""
    bits = float(_NUMBER_BITS * _count_numbers(learners, model, data))
    return Payload(bits, bits)


def learner_payloads(learners: Mapping[str, LearnerSpec], model: Model, data: Data) -> dict[str, Payload]:
    """Return the payload of each of *learners*, by name."""
    if not learners:
        return {}
    numbers = trained = _count_numbers(learners, model, data)
    if any(_sends_more(learner.aggregation, numbers) for learner in learners.values()):
        trained -= model.buffers(data.shape, data.classes, data.tokens)  # imports torch, which others do not need
    payloads = {}
    for name, learner in learners.items():
        uplink = numbers + learner.aggregation.uplink_extra(trained)
        downlink = numbers + learner.aggregation.downlink_extra(trained)
        payloads[name] = Payload(float(_NUMBER_BITS * uplink), float(_NUMBER_BITS * downlink))
    return payloads


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


def _count_numbers(learners: Mapping[str, LearnerSpec], model: Model, data: Data) -> int:
    """Return the length of θ with its buffers, and of t."""
    has_t = any(learner.objective.t_rate > 0 for learner in learners.values())
    return model.parameters(data.shape, data.classes, data.tokens) + has_t


def _sends_more(rule: Aggregation, parameters: int) -> bool:
    return rule.uplink_extra(parameters) > 0 or rule.downlink_extra(parameters) > 0
