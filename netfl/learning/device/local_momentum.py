"""Momentum of local SGD that stays on the device between updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions
from netfl.learning.device import DeviceRule


class LocalMomentum(DeviceRule):
    """The momentum buffer of local SGD stays on the device: an update begins with the one its last has ended with.

    The buffer is PyTorch's: ``v ← m v + g``, then ``θ ← θ - lr v``, with m the learner's ``momentum`` and g the
    gradient with all terms.  It is 0 before the first delivered update.  Without this rule, each update begins with 0.
    An update with a step size of 0, which a schedule may reach, leaves it as it is.

    Source: Wang et al., "SlowMo: improving communication-efficient distributed SGD with slow momentum", ICLR 2020,
    algorithm 1, where workers maintain their buffers; all of them take part in each round.

    Example::

        kind: local_momentum
    """

    keeps_momentum: ClassVar[bool] = True

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        if not learner.momentum:
            yield Fault("", "the learner has no momentum to keep", "local_momentum", "write momentum: 0.9 beside it")
