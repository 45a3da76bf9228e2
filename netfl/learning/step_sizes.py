"""The step sizes of local training, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from netfl.learning.tensors import upload
from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.spec import LearnerSpec


class StepSizes:
    """Step sizes on θ and on t of learners; without a schedule they are the same tensor in all rounds.

    Args:
        specs: of the learners.
        like: has the type and the device of the step sizes.
    """

    def __init__(self, specs: Sequence[LearnerSpec], like: Tensor) -> None:
        self._specs = specs
        self._device = like.device
        self._dtype = like.dtype
        of_first = self._upload(np.zeros(1, np.int64))
        self._constant = of_first if all(spec.has_constant_rates for spec in specs) else None
        self._newest_version = 0
        self._newest: Sequence[Tensor] = of_first[0].unbind()

    def of(self, times: Ints) -> Tensor:
        """Return the step sizes of users by the *times* of their bases, ``[users, learners, 2]``.  Read only.

        Args:
            times: in rounds of the server, ``[users]``; see `netfl.types.VersionRef`.
        """
        if self._constant is None:
            return self._upload(times)
        return self._constant.expand(len(times), -1, -1)

    def of_version(self, version: int) -> Sequence[Tensor]:
        """Return the step sizes of each learner from the server's *version*, ``[2]`` each; the last are kept."""
        if self._constant is None and self._newest_version != version:
            self._newest = self._upload(np.array([version]))[0].unbind()
            self._newest_version = version
        return self._newest

    def _upload(self, times: Ints) -> Tensor:
        rates = np.stack([spec.rates(times) for spec in self._specs], axis=1)
        return upload(rates, self._device, self._dtype)
