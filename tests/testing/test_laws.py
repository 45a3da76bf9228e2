"""The properties that models state about their draws, and `check_laws` on properties known to be right or wrong.

Each true claim fails with probability 1e-5. About 500 claims fail by chance for one seed in 200, so the seed is fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ConfigDict
from ruamel.yaml import YAML
from scipy import stats
from support.draw_counts import DRAWS

from netfl.core.descriptions import example, key_descriptions
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.spec import Spec
from netfl.network.channel._correlation_laws import autocorrelation, crossing_rate, fade_duration
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import Law, StatisticClaim

MODELS = [(family, kind) for family in FAMILIES for kind in list_kinds(base_of(family))]
SLOW_MODELS = {
    "access/selection/contract",
    "learning/data/synthetic",
    "network/channel/correlated_shadowing",
    "network/channel/nakagami",
    "network/channel/rician",
    "network/interference/sic",
    "network/mac/adaptive_aloha",
    "network/mac/csma_ca",
    "network/mac/lorawan",
    "network/mac/max_snr",
    "network/mac/multichannel_aloha",
    "network/mac/noma",
    "network/mac/priority",
    "network/mac/proportional_fair",
    "network/mac/pure_aloha",
    "network/mac/round_robin",
    "network/mac/slotted_aloha",
    "network/mac/tdma",
    "network/outage/inactivity",
    "network/queue/red",
}
"""Models whose properties take more than 0.2 s to check."""
SLOW_WITH_FEW_DRAWS = {"network/mac/lorawan", "network/mac/pure_aloha"}
"""Slow models that take as long with few draws."""
NEEDS_ALL_DRAWS = {f"network/channel/{kind}" for kind in ("correlated_shadowing", "nakagami", "rician")}
"""Slow models whose claims over time need all draws."""
SEED = 20_240_607


def from_example(family: str, kind: str) -> Spec:
    """Return the model of the YAML example in the docstring."""
    model = find_model(base_of(family), kind)
    fields = YAML(typ="safe").load(example(model))
    assert fields.pop("kind") == kind
    return model.model_validate(fields)


def model_case(family: str, kind: str) -> object:
    """Return a model as a parameter, marked as slow if it is."""
    model_id = f"{family}/{kind}"
    return pytest.param(family, kind, id=model_id, marks=[pytest.mark.slow] if model_id in SLOW_MODELS else [])


class TestEveryModel:
    @pytest.mark.parametrize(("family", "kind"), [model_case(*model) for model in MODELS])
    def test_the_model_has_its_properties(self, family, kind):
        assert check_laws(from_example(family, kind), Streams(SEED).at(family, kind), DRAWS) == []

    @pytest.mark.parametrize(("family", "kind"), MODELS)
    def test_the_example_round_trips(self, family, kind):
        model = from_example(family, kind)
        assert type(model).model_validate(model.model_dump(mode="json")) == model

    @pytest.mark.parametrize(("family", "kind"), MODELS)
    def test_every_field_is_documented(self, family, kind):
        model = find_model(base_of(family), kind)
        assert model.model_fields.keys() - key_descriptions(model).keys() == set()


@pytest.mark.parametrize("name", sorted(SLOW_MODELS - SLOW_WITH_FEW_DRAWS - NEEDS_ALL_DRAWS))
def test_slow_models_have_their_properties_with_few_draws(name):
    family, _, kind = name.rpartition("/")
    assert check_laws(from_example(family, kind), Streams(SEED).at(family, kind), DRAWS // 10) == []


OTHER_SETTINGS = [
    ("access/stationary", {"rho": "random_simplex"}),
    ("access/selection/score", {"draw": "top"}),
    ("learning/codec/rand_k", {"error_feedback": True}),
    ("learning/partition/iid", {"sizes": {"distribution": "lognormal", "sigma": 1}}),
    ("network/channel/correlated_shadowing", {"decorrelation_time": "1 s"}),
    ("network/channel/lognormal_shadowing", {"coherence": "10 s"}),
    ("network/interference/sic", {"order": "weakest_first"}),
    ("network/interference/sic", {"residual": 0.3}),
    ("network/interference/sic", {"residual": 1.0}),
    ("network/mac/controlled", {"channels": 1}),
    ("network/mac/lorawan", {"hopping": "permutation"}),
    ("network/mac/lorawan", {"spreading_factor": "random"}),
    ("network/mac/multichannel_aloha", {"hopping": "permutation"}),
    ("network/mac/noma", {"group": 3}),
    ("network/mac/noma", {"pairing": "adjacent"}),
    ("network/mac/noma", {"pairing": "random"}),
    ("network/mac/priority", {"by": "strict"}),
    ("network/mac/priority", {"by": "stride"}),
    ("network/motion/random_waypoint", {"start": "fresh"}),
    ("network/outage/disaster", {"start": "up"}),
    ("network/outage/inactivity", {"diversity": 0.5}),
    ("network/queue/relay", {"policy": "round_robin", "weights": None}),
    ("network/reception/lora", {"curve": "logistic", "width": "1 dB"}),
    ("network/reception/shannon", {"rate": None}),
    ("network/reception/waterfall", {"fading": "rayleigh"}),
    ("network/traffic/constant", {"synchronous": True}),
]
"""Changes of the examples with which models have other properties, and no file of their own that checks these."""


def other_case(name: str, changes: dict) -> object:
    """Return a model and changes of its example as a parameter, marked as slow if the model is."""
    marks = [pytest.mark.slow] if name in SLOW_MODELS else []
    return pytest.param(name, changes, id=f"{name} {changes}", marks=marks)


@pytest.mark.parametrize(("name", "changes"), [other_case(*each) for each in OTHER_SETTINGS])
def test_a_model_has_the_properties_of_its_other_settings(name, changes):
    family, _, kind = name.rpartition("/")
    usual = from_example(family, kind)
    model = type(usual).model_validate(usual.model_dump(mode="json", exclude_unset=True) | changes)
    assert model != usual
    assert check_laws(model, Streams(SEED).at(family, kind), 2_000) == []


class Claims(Spec):
    """A model with given claims."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    claimed: tuple[Law, ...]

    def laws(self) -> tuple[Law, ...]:
        return self.claimed


def exponential(streams: Streams, size: int) -> np.ndarray:
    return streams.field("power").exponential(np.arange(size))


def rayleigh(streams: Streams, size: int) -> np.ndarray:
    """Return the square root of an exponential, whose distribution is Rayleigh."""
    return np.sqrt(exponential(streams, size))


def coin(streams: Streams, size: int) -> np.ndarray:
    return (streams.field("coin").uniform(np.arange(size)) < 0.5).astype(float)


def dice(streams: Streams, size: int) -> np.ndarray:
    return streams.rng("dice").integers(1, 7, size).astype(float)


def violations(draw: Callable | None = None, seed: int = SEED, alarm: float = 1e-5, **claims) -> list[str]:
    return check_laws(
        Claims(claimed=(Law("figure", "claimed by the test", draw, **claims),)), Streams(seed), alarm=alarm
    )


class TestCheckLaws:
    def test_a_correct_claim_passes(self):
        assert violations(exponential, mean=1.0, variance=1.0, cdf=lambda x: 1 - np.exp(-x)) == []

    def test_rayleigh_instead_of_exponential_is_detected(self):
        assert len(violations(rayleigh, mean=1.0, variance=1.0, cdf=lambda x: 1 - np.exp(-x))) == 3

    @pytest.mark.parametrize(
        "claims",
        [
            {"mean": 1.05},
            {"mean": 1.0, "variance": 1.2},
            {"variance": 0.85},
            {"cdf": lambda x: 1 - np.exp(-x / 1.06)},
            # mean and variance equal those of the exponential; only the distribution function differs
            {"mean": 1.0, "variance": 1.0, "cdf": np.vectorize(lambda x: 0.5 * (1 + math.erf((x - 1) / math.sqrt(2))))},
        ],
    )
    def test_each_wrong_claim_is_detected(self, claims):
        assert len(violations(exponential, **claims)) == 1

    def test_claims_about_integers(self):
        assert violations(dice, mean=3.5, variance=35 / 12, cdf=lambda x: np.floor(x) / 6) == []
        assert violations(dice, cdf=lambda x: np.clip((x - 1) / 5, 0, 1)) != []

    def test_a_variance_with_a_constant_estimate(self):
        assert violations(coin, mean=0.5, variance=0.25) == []
        assert violations(coin, mean=0.5, variance=0.26) != []

    def test_a_constant_draw(self):
        constant = lambda streams, size: np.full(size, 600.0) + 1e-13 * (np.arange(size) % 7)  # noqa: E731
        assert violations(constant, mean=600.0, variance=0.0) == []
        assert violations(constant, mean=600.1, variance=0.0) != []

    def test_claims_that_cannot_be_checked_are_violations(self):
        assert "states no property" in check_laws(Claims(claimed=()), Streams(1))[0]
        assert "no draw function" in violations(mean=1.0)[0]
        assert "claims nothing" in violations(exponential)[0]
        assert "are needed" in violations(lambda streams, size: np.ones(size - 1), mean=1.0)[0]
        assert "are finite" in violations(lambda streams, size: np.full(size, np.nan), mean=1.0)[0]

    def test_a_stated_reason_for_no_claims_passes(self):
        assert check_laws(Claims(claimed=(Law.none("nothing is drawn"),)), Streams(1)) == []

    @pytest.mark.slow
    def test_the_false_alarm_rate(self):
        """300 seeds at 2 % for each of 3 claims. More than 40 alarms have a probability below 1e-5 (mean 18)."""
        claims = {"mean": 1.0, "variance": 1.0, "cdf": lambda x: 1 - np.exp(-x)}
        alarms = sum(len(violations(exponential, seed, 0.02, **claims)) for seed in range(300))
        assert 1 <= alarms <= 40


def ring(streams: Streams, size: int, times_s: np.ndarray, hz: float = 2.0) -> np.ndarray:
    """Return the power of scattered waves with Gaussian amplitudes and Doppler shift *hz*, as a direct sum."""
    number = np.arange(size)[:, None], np.arange(40)
    angle = 2 * np.pi * (number[1] + streams.field("angle").uniform(*number)) / 40
    real, imag = (streams.field(name).normal(*number) for name in ("real", "imag"))
    waves = (real + 1j * imag)[:, None] * np.exp(2j * np.pi * hz * np.cos(angle)[:, None] * times_s[:, None])
    return np.abs(waves.sum(axis=-1)) ** 2 / 80


def faster_ring(streams: Streams, size: int, times_s: np.ndarray) -> np.ndarray:
    """Return the power with a Doppler shift that is 10 % larger than claimed."""
    return ring(streams, size, times_s, 2.2)


LAGS, LEVELS, STEP_S = (0.04, 0.08, 0.125), (0.09, 0.36, 1.0), 0.005


def bessel_squared(lag_s: float) -> float:
    """Return J0(2π 2 Hz lag)², computed by its integral."""
    angle = np.linspace(0, np.pi, 2001)[:-1] + np.pi / 4000
    return float(np.cos(4 * np.pi * lag_s * np.sin(angle)).mean() ** 2)


def crossing_hz(level: float) -> float:
    """Return Rice's crossing rate of a Rayleigh amplitude at a level of power."""
    return math.sqrt(2 * math.pi * level) * 2.0 * math.exp(-level)


def fade_s(level: float) -> float:
    return math.expm1(level) / math.sqrt(2 * math.pi * level) / 2.0


def autocorrelation_claim(series: Callable, rho: Callable = bessel_squared) -> StatisticClaim:
    return autocorrelation("J0²", series, rho, LAGS, (1.0, 1.0))


def crossing_claim(series: Callable, rate_hz: Callable = crossing_hz) -> StatisticClaim:
    return crossing_rate("Rice", series, rate_hz, LEVELS, STEP_S)


def fade_claim(series: Callable, mean_s: Callable = fade_s) -> StatisticClaim:
    return fade_duration("Rice", series, mean_s, LEVELS, STEP_S)


class TestStatisticClaims:
    @pytest.mark.parametrize(
        "statistic",
        [autocorrelation_claim(ring), crossing_claim(ring), fade_claim(ring)],
        ids=lambda statistic: statistic.name,
    )
    @pytest.mark.quick_first
    def test_correct_statistics_pass(self, statistic):
        assert violations(statistics=(statistic,)) == []

    @pytest.mark.parametrize(
        "statistic",
        [
            autocorrelation_claim(faster_ring),
            autocorrelation_claim(ring, lambda lag_s: math.sqrt(bessel_squared(lag_s))),
            crossing_claim(ring, lambda level: crossing_hz(level**2)),
            crossing_claim(ring, lambda level: 1.2 * crossing_hz(level)),
            fade_claim(ring, lambda level: fade_s(level**2)),
            fade_claim(ring, lambda level: 1.2 * fade_s(level)),
        ],
        ids=["10 % too fast", "J0 for J0²", "power for amplitude", "20 % too often", "power, fades", "20 % too long"],
    )
    @pytest.mark.quick_first
    def test_wrong_statistics_are_detected(self, statistic):
        assert len(violations(statistics=(statistic,))) >= 1

    def test_claims_that_cannot_be_checked_are_violations(self):
        few = StatisticClaim("f", "", lambda s, n: np.ones((50, 1)), [1.0])
        assert violations(statistics=(few,)) == ["figure: f: 50 rows; draw at least 100"]
        wide = StatisticClaim("f", "", lambda s, n: np.ones((500, 2)), [1.0])
        assert violations(statistics=(wide,)) == ["figure: f: rows of shapes (500, 2) and (500, 2), not (500, 1)"]
        assert (
            "finite"
            in violations(statistics=(StatisticClaim("f", "", lambda s, n: np.full((500, 1), np.nan), [1.0]),))[0]
        )
        never = StatisticClaim("f", "", lambda s, n: (np.ones((500, 1)), np.zeros((500, 1))), [1.0])
        assert "finite" in violations(statistics=(never,))[0]

    @pytest.mark.slow
    def test_the_false_alarm_rate(self):
        """300 seeds at 2 % for each of 2 claims. More than 30 alarms have a probability below 1e-5 (mean 12)."""

        def ratio(streams, size):
            draws = exponential(streams, 2 * size).reshape(-1, 2)
            return draws * [1.0, 3.0], draws[:, ::-1]

        statistic = StatisticClaim("ratio", "E[X] / E[Y]", ratio, [1.0, 3.0])
        alarms = sum(len(violations(None, seed, 0.02, statistics=(statistic,))) for seed in range(300))
        assert 1 <= alarms <= 30


class TestClaims:
    def test_a_distribution_gives_moments_and_cdf(self):
        law = Law("power", "gamma", exponential, distribution=stats.gamma(1.5, scale=2.0))
        assert (law.mean, law.variance) == (3.0, 6.0)
        assert law.cdf(np.array([3.0])) == pytest.approx(stats.gamma.cdf(1.5, 1.5))
        assert law.claims() == [("distribution", "gamma(1.5, scale=2)"), ("mean", "3"), ("variance", "6")]
        assert violations(exponential, distribution=stats.expon()) == []
        assert len(violations(exponential, distribution=stats.rayleigh(scale=0.7979))) == 2  # the same mean

    def test_infinite_moments_are_not_claimed(self):
        law = Law("heavy", "Cauchy", exponential, distribution=stats.cauchy())
        assert (law.mean, law.variance) == (None, None)

    def test_claims_list_statistics(self):
        assert Law("power", "Rayleigh", statistics=(autocorrelation_claim(ring),)).claims() == [
            ("autocorrelation", "J0²")
        ]
        assert Law.none("nothing is drawn").claims() == [("none", "nothing is drawn")]
