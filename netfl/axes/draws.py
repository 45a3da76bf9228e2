"""Values that are drawn at random: one for each draw, by inverting a distribution."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from netfl.errors import suggest
from netfl.registry import Spec


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    """Two bounds, the lower one first."""
    if bounds[0] >= bounds[1]:
        raise ValueError("the first bound is not below the second")
    return bounds


class Drawn(Spec):
    """A distribution that values are drawn from."""

    @abstractmethod
    def at(self, share: float) -> Any:
        """The value below which *share* of the distribution lies, with *share* in (0, 1)."""


class Uniform(Drawn):
    """Evenly between two bounds."""

    uniform: Annotated[tuple[float, float], AfterValidator(_rising)]
    """The bounds, in the unit of the key."""

    def at(self, share: float) -> float:
        """Between the bounds."""
        low, high = self.uniform
        return low + share * (high - low)


class LogUniform(Drawn):
    """Evenly in the logarithm, as step sizes are searched."""

    log_uniform: Annotated[tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], AfterValidator(_rising)]
    """The bounds, above 0, in the unit of the key."""

    def at(self, share: float) -> float:
        """Between the logarithms of the bounds."""
        low, high = map(math.log, self.log_uniform)
        return math.exp(low + share * (high - low))


class Integer(Drawn):
    """A whole number, each as likely."""

    integer: Annotated[tuple[int, int], AfterValidator(_rising)]
    """The least and the greatest."""

    def at(self, share: float) -> int:
        """One of them."""
        low, high = self.integer
        return low + int(share * (high - low + 1))


class Choice(Drawn):
    """One of some values, each as likely."""

    choice: Annotated[tuple[Any, ...], Field(min_length=1)]
    """The values."""

    def at(self, share: float) -> Any:
        """One of them."""
        return self.choice[int(share * len(self.choice))]


_FORMS: Mapping[str, type[Drawn]] = {
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integer": Integer,
    "choice": Choice,
}


def _read(value: object) -> object:
    """Choose by the word that is written, so that one mistake is one fault."""
    if isinstance(value, Drawn):
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise PydanticCustomError("draw", "no distribution", {"remedy": "write one such as {uniform: [0, 1]}"})
    word = str(next(iter(value)))
    if word not in _FORMS:
        raise PydanticCustomError("draw", "no such distribution", {"remedy": suggest(word, [*_FORMS])})
    return _FORMS[word].model_validate(value)


Draw = Annotated[Uniform | LogUniform | Integer | Choice, BeforeValidator(_read)]
"""``{uniform: [low, high]}``, ``{log_uniform: [low, high]}``, ``{integer: [low, high]}`` or ``{choice: [...]}``."""
