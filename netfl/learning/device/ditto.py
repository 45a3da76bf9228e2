"""Ditto: a second model on the device, which a term pulls to the global one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions
from netfl.learning.device import DeviceRule


class Ditto(DeviceRule):
    """A device trains its update as without this rule, and beside it a model v_k of its own, which it does not send.

    With the mini-batches and step sizes of the update, from version x that the device has received::

        v_k ← v_k - lr (∇f_k(v_k) + λ (v_k - x))

    v_k is as the last delivered update left it, and version 0 before the first.  It has the weight decay and the
    momentum of the learner; the pull acts on θ, not on buffers and t.  The second training costs as many gradients as
    the first.  In a network it takes no time: the times of training are those of the trace.

    Source: Li et al., "Ditto: fair and robust federated learning through personalization", ICML 2021, algorithm 1.  As
    in the authors' program, both trainings have the same mini-batches.

    Example::

        kind: ditto
        pull: 1
    """

    pull: Annotated[float, Field(ge=0)]
    """Strength λ of the pull to the version; with 0, v_k is trained on the user's data alone."""

    @property
    def own_pull(self) -> float:
        return self.pull

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        if learner.objective.pull:
            problem = "pulls its own model to the version itself, and the objective has a proximal term, too"
            yield Fault("", problem, "ditto", "use the objective 'erm'")
