"""Evaluation of the model by users at the end of rounds: description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.compute import as_tuple
from netfl.types import Floats, ScenarioFacts
from netfl.units import PacketSize, Seconds

ANSWERS = "evaluation"
"""Name of the class of the answers in tables."""
FORWARD_COST = 1.0 / 3.0
"""Work of a forward pass over that of a training step of one sample: the backward pass takes two of three parts (J.
Kaplan et al., Scaling laws for neural language models, 2020, sec. 2.1)."""


class EvaluationRounds(Spec):
    """Evaluation of the new model by users at the end of rounds, before the next one opens.

    Once the rule of the round is satisfied, or its deadline has passed, the server takes no more updates.  It sends the
    new model to a share of all users, by the downlink that versions have.  Each of them takes cost · samples / speed
    for its examples, beside a training that it may have, and then sends its ``answer`` in one frame by the MAC, if
    there is one.  The round closes once all answers have come or are lost; with a ``deadline``, then at the latest.  A
    user that does not receive the model, or is disconnected when it comes, does not evaluate.  An update that arrives
    meanwhile comes to the next round as that opens, if it still counts there.

    Only the network changes: time, bits and joules.  The numbers of the learners, such as the accuracy, are those of
    ``evaluate``, and no answer has an effect on them.

    Example::

        samples: 1000
        every: 1
        share: 1.0
        answer: 100 B
    """

    samples: Annotated[tuple[Annotated[float, Field(ge=0)], ...], BeforeValidator(as_tuple), Field(min_length=1)]
    """Examples that a user evaluates: one number for all users, or a list, one for each."""
    every: Annotated[int, Field(ge=1)] = 1
    """Number of rounds from one evaluation to the next; the first is after round ``every``."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the users that evaluate, rounded to a number of at least 1; they are drawn for each evaluation."""
    cost: Annotated[float, Field(ge=0, le=1)] = FORWARD_COST
    """Work for an example over that for a training sample: a forward pass is about a third."""
    answer: Annotated[PacketSize, Field(gt=0)] | None = None
    """Size of the answer of a user; ``null``: it sends nothing, and the round waits for the computation only."""
    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Time of an evaluation after which the round closes without the answers that have not come."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if len(self.samples) not in {1, facts.users}:
            problem = f"{len(self.samples)} numbers for {facts.users} users"
            yield Fault("samples", problem, None, f"give one number, or {facts.users} of them")

    def is_due(self, round: int) -> bool:
        """Return whether users evaluate after *round*."""
        return round % self.every == 0

    def count(self, users: int) -> int:
        """Return the number of users that evaluate."""
        return max(1, round(self.share * users))

    def work(self, users: int) -> Floats:
        """Return the work of each user in training samples, ``[users]``."""
        work = np.zeros(users)
        work[:] = self.samples
        return work * self.cost
