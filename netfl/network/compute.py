"""How long users compute for one update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.errors import Fault
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Facts


def listed(value: Any) -> Any:
    """One thing as a list of one."""
    return value if isinstance(value, list | tuple) else [value]


class Compute(Spec):
    """The time that users train: samples / speed.

    With a spread σ, user i's speed is speed·exp(σ z_i), z_i standard normal, drawn once.
    """

    speed: Annotated[tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(listed), Field(min_length=1)]
    """Training samples per second: one number for all users (with a spread: their median), or a list, one for each."""
    spread: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the natural logarithm of the users' speeds; only where one speed is given for all."""
    samples: Annotated[float, Field(ge=0)] | None = None
    """Training samples that every user processes for one update, in place of the learners' own work."""

    @model_validator(mode="after")
    def _one_source(self) -> Compute:
        """A list of speeds leaves nothing to be drawn."""
        if self.spread and len(self.speed) > 1:
            raise ValueError("spread has no effect beside a list of speeds: leave one of them out")
        return self

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """A list for another number of users; no work to compute."""
        if len(self.speed) not in {1, facts.users}:
            remedy = f"give one number, or {facts.users} of them"
            yield Fault("speed", f"{len(self.speed)} speeds for {facts.users} users", None, remedy)
        if self.samples is None and not facts.trained:
            problem = "missing: without learners it is not known how much a user computes"
            yield Fault("samples", problem, None, "give the training samples of one update")

    def work(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        """Training samples that each user processes for one update: those given here, or the learners' *samples*."""
        return samples if self.samples is None else np.full(len(samples), self.samples)

    def time_s(self, samples: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """How long each user trains for one update, ``[users]``.

        Args:
            samples: the learners' own work, ``[users]``.
            streams: where the speeds are drawn.
        """
        work = self.work(samples)
        speed = np.broadcast_to(np.array(self.speed), len(work))
        if self.spread:
            speed = speed * np.exp(self.spread * streams.field("speed").normal(np.arange(len(work))))
        return np.asarray(work / speed)
