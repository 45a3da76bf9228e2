"""FedRep: a head on the device, which is trained before the shared body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import check_one_of
from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions
from netfl.learning.device._personal_layers import PersonalLayers
from netfl.types import Ints

_OTHER_AMOUNT = {
    "head_epochs": "write head_steps, or give the learner local_epochs",
    "head_steps": "write head_epochs, or give the learner local_steps",
}
"""Remedy for an amount that the learner does not state in the same way."""


class Fedrep(PersonalLayers):
    """The personal layers are the head h_k: the first steps of an update train it alone, the others the body b alone.

    With the steps of the learner, ``local_epochs`` or ``local_steps``, of which ``head_epochs`` or ``head_steps`` are
    for the head::

        h_k ← h_k - lr ∇_h f_k(b, h_k)        first steps
        b_k ← b_k - lr ∇_b f_k(b_k, h_k)      all other steps; sent

    h_k is as the last delivered update left it, that of version 0 before.  A parameter that is not trained has no
    momentum and no weight decay.  Running statistics of normalisation layers follow all steps.

    Source: Collins et al., "Exploiting shared representations for personalized federated learning", ICML 2021,
    algorithm 1.  Its last round, in which all users train their heads, is ``evaluate.fine_tune``.

    Example::

        kind: fedrep
        personal_layers: 1
        head_steps: 1
    """

    head_epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the user's data that train the head, of the learner's ``local_epochs``."""
    head_steps: Annotated[int, Field(ge=1)] | None = None
    """Mini-batches that train the head, of the learner's ``local_steps``, in place of ``head_epochs``."""

    @model_validator(mode="after")
    def _require_one_amount(self) -> Fedrep:
        check_one_of(self, "head_epochs", "head_steps")
        return self

    def steps_of_head(self, per_pass: Ints) -> Ints:
        if self.head_epochs is not None:
            return self.head_epochs * per_pass
        return np.full_like(per_pass, self.head_steps)

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        for key, of_learner in (("head_epochs", "local_epochs"), ("head_steps", "local_steps")):
            head = getattr(self, key)
            total = getattr(learner, of_learner)
            if head is not None and total is None:
                yield Fault(
                    key, f"is a part of {of_learner}, which the learner does not have", head, _OTHER_AMOUNT[key]
                )
            elif head is not None and head >= total:
                problem = f"leaves nothing of {of_learner} ({total}) for the shared layers"
                yield Fault(key, problem, head, f"make it smaller than {of_learner}, the sum of both")
