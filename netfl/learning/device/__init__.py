'''The device family: what devices keep between their updates, from where they train, and what they train.

To add one, derive a class from `DeviceRule` in a file of this package, or in a module of your own.  This one is
complete::

    class HalfWay(DeviceRule):
        """A device starts half way between the version and the model that it trained last."""

        def start(self, base, kept):
            return (base + kept["model"]) / 2 if "model" in kept else base

        def keep(self, start, trained, kept):
            return {"model": trained}

- A rule belongs to a learner, and serves its devices in all replicas.  A model is a flat vector ``[size + 1]``: θ with
  its buffers and, last, the scalar t of the objective.
- `start` says from which model a device trains, and `keep` what it keeps of an update.  Both see one device at a time,
  and may not write into their arguments.  What is kept is in checkpoints.
- A device that keeps some layers names them in `personal`.  Netfl then starts from the kept layers, leaves them out of
  updates and broadcasts, and bills what is sent.
- `steps_of_head` splits an update into steps of the personal layers alone and steps of the others alone.
- `own_pull` asks for a second training of a model of the device's own, which a term pulls to the version.
- `keeps_momentum` carries the momentum of local SGD from one update to the next.
- Of a device, only delivered updates change what it keeps: one whose update is lost is as it was before, unless the
  learner has ``on_loss: keep``.
- Use only methods and operators of tensors.  A file that needs torch itself imports it inside the method.
'''

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netfl.core.kinds import exported_models, kind_of
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions
from netfl.types import Ints, Law

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = object  # torch is imported by runs that learn, not by scenarios

_FEWER = "name fewer layers, or use a model with more"
Layout = Mapping[str, tuple[int, ...]]
"""Names and shapes of the parameters and buffers of a model, in the order of its flat vector."""


class DeviceRule(Spec):
    """Base class of all rules of devices; by itself, a device keeps nothing and starts from what it has received."""

    def start(self, base: Tensor, kept: Mapping[str, Tensor]) -> Tensor:
        """Return the model from which a device trains, ``[size + 1]``; by default *base*.

        A proximal term pulls towards it.  The change that the device sends is still that from *base*.  Personal layers
        are put in afterwards.

        Args:
            base: the version that the device has received.
            kept: what `keep` has returned after the last delivered update; empty before the first.
        """
        return base

    def keep(self, start: Tensor, trained: Tensor, kept: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what a device keeps of a delivered update, vectors by name; a name always has the same length.

        Args:
            start: model from which the device has trained.
            trained: its model after training, before a codec.
            kept: as in `start`.
        """
        return {}

    def personal(self, layout: Layout) -> Sequence[str]:
        """Return the names in *layout* of the parameters and buffers that stay on the device; by default none."""
        return ()

    def layer_faults(self, layout: Layout) -> Iterator[Fault]:
        """Yield the errors of this rule for a model with this *layout*; keys are relative to the rule."""
        kind = kind_of(type(self))
        names = self.personal(layout)
        unknown = [name for name in names if name not in layout]
        if unknown:
            yield Fault("", f"the model has no '{unknown[0]}' to keep", kind, f"it has {', '.join(layout)}")
        elif len({*names}) == len(layout):
            yield Fault("", "all layers of the model stay on the device, which leaves nothing to send", kind, _FEWER)

    def steps_of_head(self, per_pass: Ints) -> Ints | None:
        """Return how many steps of an update, the first ones, train the personal parameters alone, ``[users]``.

        The other steps then train the other parameters alone.  t moves in all steps.  ``None``, the default: every step
        trains everything.

        Args:
            per_pass: mini-batches of a pass over the examples of each user, ``[users]``.
        """
        return None

    @property
    def trains_head_first(self) -> bool:
        """True if some steps of an update train the personal parameters alone; see `steps_of_head`."""
        return self.steps_of_head(np.ones(1, np.int64)) is not None

    @property
    def own_pull(self) -> float | None:
        """Strength of the pull to the version in a second training; ``None``, the default, without a second training.

        The device trains a model of its own with the same mini-batches and step sizes, from where its last such
        training has ended, or from version 0 before the first.  It sends nothing of it.
        """
        return None

    @property
    def keeps_momentum(self) -> bool:
        """True if local SGD begins with the momentum with which the last delivered update has ended."""
        return False

    def memory(self, parameters: int) -> int:
        """Return how many numbers `keep` keeps of a device, about; *parameters* is the size of θ."""
        return 0

    def kept_numbers(self, parameters: int, personal: int) -> int:
        """Return how many numbers a device keeps, about, of which *personal* are those of its layers."""
        models = int(self.own_pull is not None) + int(self.keeps_momentum)
        return models * (parameters + 1) + personal + self.memory(parameters)

    @property
    def has_personal_layers(self) -> bool:
        """True if the rule names `personal` layers."""
        return type(self).personal is not DeviceRule.personal

    @property
    def moves_start(self) -> bool:
        """True if `start` may return another model than its base; the change of an update then holds this move, too."""
        return type(self).start is not DeviceRule.start

    @property
    def changes_start(self) -> bool:
        """True if devices may start from another model than the version that they have received."""
        return self.has_personal_layers or self.moves_start

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        """Yield conflicts with other options of *learner*; keys are relative to the rule."""
        yield from ()

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a rule of devices draws nothing"),)


__getattr__ = exported_models(__name__)
