"""Every model of every family is held to its laws, and the judge is tried on laws known to be right or wrong.

The rate of false alarms: each claim is called violated with probability 1e-5 if it is true, so with some 300 claims the
whole family of tests would fail by chance for one seed in 300; the seed is fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ConfigDict
from ruamel.yaml import YAML

from netfl.laws import check
from netfl.registry import FAMILIES, Spec, base_of, example, find, kinds
from netfl.streams import Streams
from netfl.types import Law

MODELS = [(family, kind) for family in FAMILIES for kind in kinds(base_of(family))]
SEED = 20_240_607


def from_example(family: str, kind: str) -> Spec:
    """The model that the docstring's YAML example describes."""
    model = find(base_of(family), kind)
    fields = YAML(typ="safe").load(example(model))
    assert fields.pop("kind") == kind
    return model.model_validate(fields)


@pytest.mark.parametrize(("family", "kind"), MODELS, ids=[f"{family}/{kind}" for family, kind in MODELS])
class TestEveryModel:
    def test_holds_its_laws(self, family, kind):
        assert check(from_example(family, kind), Streams(SEED).at(family, kind)) == []

    def test_its_example_round_trips(self, family, kind):
        model = from_example(family, kind)
        assert type(model).model_validate(model.model_dump(mode="json")) == model

    def test_every_field_is_documented(self, family, kind):
        fields = find(base_of(family), kind).model_fields
        assert [name for name, field in fields.items() if not field.description] == []


class Claims(Spec):
    """A model that claims what the test tells it to."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    claimed: tuple[Law, ...]

    def laws(self) -> tuple[Law, ...]:
        return self.claimed


def exponential(streams: Streams, size: int) -> np.ndarray:
    return streams.field("power").exponential(np.arange(size))


def amplitude(streams: Streams, size: int) -> np.ndarray:
    """The square root of an exponential: Rayleigh's law, which is not the power's."""
    return np.sqrt(exponential(streams, size))


def coin(streams: Streams, size: int) -> np.ndarray:
    return (streams.field("coin").uniform(np.arange(size)) < 0.5).astype(float)


def dice(streams: Streams, size: int) -> np.ndarray:
    return streams.rng("dice").integers(1, 7, size).astype(float)


def violated(draw: Callable | None = None, seed: int = SEED, alarm: float = 1e-5, **claims) -> list[str]:
    return check(Claims(claimed=(Law("figure", "as the test says", draw, **claims),)), Streams(seed), alarm=alarm)


class TestTheJudge:
    def test_a_right_law_passes(self):
        assert violated(exponential, mean=1.0, variance=1.0, cdf=lambda x: 1 - np.exp(-x)) == []

    def test_power_that_follows_the_amplitudes_law_is_caught(self):
        assert len(violated(amplitude, mean=1.0, variance=1.0, cdf=lambda x: 1 - np.exp(-x))) == 3

    @pytest.mark.parametrize(
        "claims",
        [
            {"mean": 1.05},
            {"mean": 1.0, "variance": 1.2},
            {"variance": 0.85},
            {"cdf": lambda x: 1 - np.exp(-x / 1.06)},
            # the same mean and variance as the exponential: only the distribution function can tell
            {"mean": 1.0, "variance": 1.0, "cdf": np.vectorize(lambda x: 0.5 * (1 + math.erf((x - 1) / math.sqrt(2))))},
        ],
    )
    def test_each_wrong_claim_is_caught_alone(self, claims):
        assert len(violated(exponential, **claims)) == 1

    def test_laws_of_whole_numbers(self):
        assert violated(dice, mean=3.5, variance=35 / 12, cdf=lambda x: np.floor(x) / 6) == []
        assert violated(dice, cdf=lambda x: np.clip((x - 1) / 5, 0, 1)) != []

    def test_a_variance_whose_estimate_has_none(self):
        assert violated(coin, mean=0.5, variance=0.25) == []
        assert violated(coin, mean=0.5, variance=0.26) != []

    def test_a_constant(self):
        constant = lambda streams, size: np.full(size, 600.0) + 1e-13 * (np.arange(size) % 7)  # noqa: E731
        assert violated(constant, mean=600.0, variance=0.0) == []
        assert violated(constant, mean=600.1, variance=0.0) != []

    def test_what_cannot_be_judged_is_a_violation(self):
        assert "states no law" in check(Claims(claimed=()), Streams(1))[0]
        assert "nothing to draw" in violated(mean=1.0)[0]
        assert "claims nothing" in violated(exponential)[0]
        assert "are wanted" in violated(lambda streams, size: np.ones(size - 1), mean=1.0)[0]
        assert "are finite" in violated(lambda streams, size: np.full(size, np.nan), mean=1.0)[0]

    def test_no_law_with_a_reason_is_no_violation(self):
        assert check(Claims(claimed=(Law.none("nothing is drawn"),)), Streams(1)) == []

    def test_false_alarms_are_as_rare_as_stated(self):
        """300 seeds at 2 % for each of 3 claims: more than 40 alarms has a probability under 1e-5 (mean 18)."""
        claims = {"mean": 1.0, "variance": 1.0, "cdf": lambda x: 1 - np.exp(-x)}
        alarms = sum(len(violated(exponential, seed, 0.02, **claims)) for seed in range(300))
        assert 1 <= alarms <= 40
