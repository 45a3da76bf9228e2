"""Every model of every family is held to its laws, and the judge is tried on laws known to be right or wrong.

The rate of false alarms: each claim is called violated with probability 1e-5 if it is true, so with some 500 claims the
whole family of tests would fail by chance for one seed in 200; the seed is fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ConfigDict
from ruamel.yaml import YAML
from scipy import stats
from support.draw_counts import DRAWS

from netfl.network.channel._correlation_laws import autocorrelation, crossing_rate, fade_duration
from netfl.registry import FAMILIES, Spec, base_of, example, find_model, list_kinds
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import Law, StatisticClaim

MODELS = [(family, kind) for family in FAMILIES for kind in list_kinds(base_of(family))]
LONG = {
    "access/selection/contract",
    "learning/data/synthetic",
    "network/channel/correlated_shadowing",
    "network/channel/nakagami",
    "network/channel/rician",
    "network/mac/adaptive_aloha",
    "network/mac/csma_ca",
    "network/mac/lorawan",
    "network/mac/max_snr",
    "network/mac/multichannel_aloha",
    "network/mac/priority",
    "network/mac/proportional_fair",
    "network/mac/pure_aloha",
    "network/mac/round_robin",
    "network/mac/slotted_aloha",
    "network/mac/tdma",
    "network/outage/inactivity",
    "network/queue/red",
}
"""Models whose laws take more than 0.2 s to check."""
LONG_WITH_FEW = {"network/mac/lorawan", "network/mac/pure_aloha"}
"""Those of them that take as long with few draws."""
UNSURE_WITH_FEW = {f"network/channel/{kind}" for kind in ("correlated_shadowing", "nakagami", "rician")}
"""Those of them whose claims over time need all draws to be judged."""
SEED = 20_240_607


def from_example(family: str, kind: str) -> Spec:
    """The model that the docstring's YAML example describes."""
    model = find_model(base_of(family), kind)
    fields = YAML(typ="safe").load(example(model))
    assert fields.pop("kind") == kind
    return model.model_validate(fields)


def each(family: str, kind: str) -> object:
    """A model as a parameter of the tests of all."""
    name = f"{family}/{kind}"
    return pytest.param(family, kind, id=name, marks=[pytest.mark.slow] if name in LONG else [])


class TestEveryModel:
    @pytest.mark.parametrize(("family", "kind"), [each(*model) for model in MODELS])
    def test_holds_its_laws(self, family, kind):
        assert check_laws(from_example(family, kind), Streams(SEED).at(family, kind), DRAWS) == []

    @pytest.mark.parametrize(("family", "kind"), MODELS)
    def test_its_example_round_trips(self, family, kind):
        model = from_example(family, kind)
        assert type(model).model_validate(model.model_dump(mode="json")) == model

    @pytest.mark.parametrize(("family", "kind"), MODELS)
    def test_every_field_is_documented(self, family, kind):
        fields = find_model(base_of(family), kind).model_fields
        assert [name for name, field in fields.items() if not field.description] == []


@pytest.mark.parametrize("name", sorted(LONG - LONG_WITH_FEW - UNSURE_WITH_FEW))
def test_laws_of_slow_models_hold_for_few_draws(name):
    family, _, kind = name.rpartition("/")
    assert check_laws(from_example(family, kind), Streams(SEED).at(family, kind), DRAWS // 10) == []


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
    return check_laws(Claims(claimed=(Law("figure", "as the test says", draw, **claims),)), Streams(seed), alarm=alarm)


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
        assert "states no property" in check_laws(Claims(claimed=()), Streams(1))[0]
        assert "no draw function" in violated(mean=1.0)[0]
        assert "claims nothing" in violated(exponential)[0]
        assert "are needed" in violated(lambda streams, size: np.ones(size - 1), mean=1.0)[0]
        assert "are finite" in violated(lambda streams, size: np.full(size, np.nan), mean=1.0)[0]

    def test_no_law_with_a_reason_is_no_violation(self):
        assert check_laws(Claims(claimed=(Law.none("nothing is drawn"),)), Streams(1)) == []

    @pytest.mark.slow
    def test_false_alarms_are_as_rare_as_stated(self):
        """300 seeds at 2 % for each of 3 claims: more than 40 alarms has a probability under 1e-5 (mean 18)."""
        claims = {"mean": 1.0, "variance": 1.0, "cdf": lambda x: 1 - np.exp(-x)}
        alarms = sum(len(violated(exponential, seed, 0.02, **claims)) for seed in range(300))
        assert 1 <= alarms <= 40


def ring(streams: Streams, size: int, times_s: np.ndarray, hz: float = 2.0) -> np.ndarray:
    """Scattered waves of Gaussian amplitudes around a user of Doppler shift *hz*: the power, from a direct sum."""
    number = np.arange(size)[:, None], np.arange(40)
    angle = 2 * np.pi * (number[1] + streams.field("angle").uniform(*number)) / 40
    real, imag = (streams.field(name).normal(*number) for name in ("real", "imag"))
    waves = (real + 1j * imag)[:, None] * np.exp(2j * np.pi * hz * np.cos(angle)[:, None] * times_s[:, None])
    return np.abs(waves.sum(axis=-1)) ** 2 / 80


def faster(streams: Streams, size: int, times_s: np.ndarray) -> np.ndarray:
    """10 % more Doppler shift than claimed."""
    return ring(streams, size, times_s, 2.2)


LAGS, LEVELS, STEP_S = (0.04, 0.08, 0.125), (0.09, 0.36, 1.0), 0.005


def bessel(lag_s: float) -> float:
    """J0(2π 2 Hz lag)², by its integral."""
    turn = np.linspace(0, np.pi, 2001)[:-1] + np.pi / 4000
    return float(np.cos(4 * np.pi * lag_s * np.sin(turn)).mean() ** 2)


def falls(level: float) -> float:
    """Rice's rate for a Rayleigh amplitude, at a level of power."""
    return math.sqrt(2 * math.pi * level) * 2.0 * math.exp(-level)


def fades(level: float) -> float:
    return math.expm1(level) / math.sqrt(2 * math.pi * level) / 2.0


def correlated(series: Callable, rho: Callable = bessel) -> StatisticClaim:
    return autocorrelation("J0²", series, rho, LAGS, (1.0, 1.0))


def crossed(series: Callable, rate_hz: Callable = falls) -> StatisticClaim:
    return crossing_rate("Rice", series, rate_hz, LEVELS, STEP_S)


def faded(series: Callable, mean_s: Callable = fades) -> StatisticClaim:
    return fade_duration("Rice", series, mean_s, LEVELS, STEP_S)


class TestTheJudgeOfFigures:
    @pytest.mark.parametrize("figure", [correlated(ring), crossed(ring), faded(ring)], ids=lambda figure: figure.name)
    @pytest.mark.quick_first
    def test_right_figures_pass(self, figure):
        assert violated(statistics=(figure,)) == []

    @pytest.mark.parametrize(
        "figure",
        [
            correlated(faster),
            correlated(ring, lambda lag_s: math.sqrt(bessel(lag_s))),
            crossed(ring, lambda level: falls(level**2)),
            crossed(ring, lambda level: 1.2 * falls(level)),
            faded(ring, lambda level: fades(level**2)),
            faded(ring, lambda level: 1.2 * fades(level)),
        ],
        ids=["10 % too fast", "J0 for J0²", "power for amplitude", "20 % too often", "power, fades", "20 % too long"],
    )
    @pytest.mark.quick_first
    def test_wrong_figures_are_caught(self, figure):
        assert len(violated(statistics=(figure,))) >= 1

    def test_what_cannot_be_judged_is_a_violation(self):
        assert "too few" in violated(statistics=(StatisticClaim("f", "", lambda s, n: np.ones((50, 1)), [1.0]),))[0]
        assert "too few" in violated(statistics=(StatisticClaim("f", "", lambda s, n: np.ones((500, 2)), [1.0]),))[0]
        assert (
            "finite"
            in violated(statistics=(StatisticClaim("f", "", lambda s, n: np.full((500, 1), np.nan), [1.0]),))[0]
        )
        never = StatisticClaim("f", "", lambda s, n: (np.ones((500, 1)), np.zeros((500, 1))), [1.0])
        assert "finite" in violated(statistics=(never,))[0]

    @pytest.mark.slow
    def test_false_alarms_are_as_rare_as_stated(self):
        """300 seeds at 2 % for each of 2 claims: more than 30 alarms has a probability under 1e-5 (mean 12)."""

        def ratio(streams, size):
            drawn = exponential(streams, 2 * size).reshape(-1, 2)
            return drawn * [1.0, 3.0], drawn[:, ::-1]

        figure = StatisticClaim("ratio", "E[X] / E[Y]", ratio, [1.0, 3.0])
        alarms = sum(len(violated(None, seed, 0.02, statistics=(figure,))) for seed in range(300))
        assert 1 <= alarms <= 30


class TestClaims:
    def test_a_distribution_gives_moments_and_cdf(self):
        law = Law("power", "gamma", exponential, distribution=stats.gamma(1.5, scale=2.0))
        assert (law.mean, law.variance) == (3.0, 6.0)
        assert law.cdf(np.array([3.0])) == pytest.approx(stats.gamma.cdf(1.5, 1.5))
        assert law.claims() == [("distribution", "gamma(1.5, scale=2)"), ("mean", "3"), ("variance", "6")]
        assert violated(exponential, distribution=stats.expon()) == []
        assert len(violated(exponential, distribution=stats.rayleigh(scale=0.7979))) == 2  # the same mean

    def test_moments_that_there_are_not_are_not_claimed(self):
        law = Law("heavy", "Cauchy", exponential, distribution=stats.cauchy())
        assert (law.mean, law.variance) == (None, None)

    def test_figures_are_told(self):
        assert Law("power", "Rayleigh", statistics=(correlated(ring),)).claims() == [("autocorrelation", "J0²")]
        assert Law.none("nothing is drawn").claims() == [("none", "nothing is drawn")]
