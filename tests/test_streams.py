"""Streams compared with published vectors; a draw depends only on its purpose."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from netfl.streams import Streams, philox

ALARM = 1e-6
"""Rate of false alarms of each statistical test."""
N = 20_000

VECTORS = [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_matches_published_words(counter, key, expected):
    words = philox(tuple(np.array([word], np.uint64) for word in counter), key)
    assert " ".join(f"{int(word[0]):08x}" for word in words) == expected


def test_philox_of_few_counters_takes_one_key_each():
    counters = tuple(np.random.default_rng(4).integers(0, 2**32, (4, 3), dtype=np.uint64))
    keys = np.array([[1, 2, 3], [4, 5, 6]], np.uint64)
    together = np.array(philox(counters, (keys[0], keys[1])))
    for at, (first, second) in enumerate(keys.T.tolist()):
        single = np.array(philox(tuple(words[at : at + 1] for words in counters), (first, second)))
        assert (together[:, at : at + 1] == single).all()


def test_philox_is_vectorised_over_counters():
    rng = np.random.default_rng(0)
    counters = rng.integers(0, 2**32, (4, 50), dtype=np.uint64)
    together = np.array(philox(tuple(counters), (7, 8)))
    for at in range(50):
        single = np.array(philox(tuple(counters[:, at : at + 1]), (7, 8)))
        assert (together[:, at : at + 1] == single).all()
    assert together.max() < 2**32


@pytest.mark.parametrize("number", [0, 1, 2, 6, 7, 30])
def test_field_words_match_philox(number):
    field = Streams(11).field("words")
    rng = np.random.default_rng(number)
    users, draws = rng.integers(0, 2**32, (2, number), dtype=np.uint64)
    index = rng.integers(0, 2**64, number, dtype=np.uint64)
    counters = (users, draws, index & np.uint64(2**32 - 1), index >> np.uint64(32))
    assert np.array_equal(field.words(users, index, draws), philox(counters, field.key))
    for draw in (3, 2**32 - 1):
        single = philox(
            (
                users[:, None],
                np.full((1, 2), draw, np.uint64),
                np.array([[5, 6]], np.uint64),
                users[:, None] * np.uint64(0),
            ),
            field.key,
        )
        assert np.array_equal(field.words(users[:, None], [5, 6], draw), single)


@given(st.permutations(range(12)), st.integers(0, 2**64 - 1))
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
def test_draws_do_not_depend_on_the_order_of_queries(order, index):
    field = Streams(5).field("channel")
    users = np.array(order)
    draws = field.uniform(users, index)
    assert (draws == field.uniform(np.arange(12), index)[users]).all()
    assert draws[3] == field.uniform(order[3], index)


def test_users_index_and_draw_broadcast():
    field = Streams(5).field("x")
    grid = field.normal(np.arange(4)[:, None, None], np.arange(3)[:, None], np.arange(2))
    assert grid.shape == (4, 3, 2)
    assert grid[2, 1, 1] == field.normal(2, 1, 1)
    assert field.uniform([]).shape == (0,)
    assert field.geometric(1.0, np.arange(4)[:, None], np.arange(3)).shape == (4, 3)


def test_user_index_and_draw_change_the_value():
    field = Streams(5).field("x")
    base = field.uniform(1, 2, 3)
    others = [field.uniform(2, 2, 3), field.uniform(1, 2 + 2**32, 3), field.uniform(1, 3, 3), field.uniform(1, 2, 4)]
    assert base not in others
    assert len({float(first) for first in others}) == 4


def test_index_uses_64_bits():
    draws = Streams(1).field("x").uniform(0, [2**bit for bit in range(64)])
    assert len(np.unique(draws)) == 64


@pytest.mark.parametrize(
    ("draw", "cdf"),
    [
        (lambda field: field.uniform(np.arange(N)), stats.uniform.cdf),
        (lambda field: field.uniform(3, np.arange(N)), stats.uniform.cdf),
        (lambda field: field.uniform(3, 0, np.arange(N)), stats.uniform.cdf),
        (lambda field: field.exponential(np.arange(N), 9), stats.expon.cdf),
        (lambda field: field.normal(np.arange(N), 9), stats.norm.cdf),
    ],
    ids=["users", "index", "draw", "exponential", "normal"],
)
def test_distributions(draw, cdf):
    assert stats.kstest(draw(Streams(11).field("law")), cdf).pvalue > ALARM


@pytest.mark.parametrize("p", [1e-9, 0.01, 0.3, 0.999])
def test_geometric_has_correct_mean_and_support(p):
    draws = Streams(11).field("law").geometric(p, np.arange(N)).astype(float)
    assert draws.min() >= 1
    error = math.sqrt((1 - p) / p**2 / N)
    assert abs(draws.mean() - 1 / p) < stats.norm.isf(ALARM / 2) * error
    ones = stats.binomtest(int((draws == 1).sum()), N, p)
    assert ones.pvalue > ALARM


def test_neighbouring_users_and_indices_are_uncorrelated():
    field = Streams(3).field("x")
    draws = field.normal(np.arange(200)[:, None], np.arange(200))
    bound = stats.norm.isf(ALARM / 2) / 200
    assert abs(np.mean(draws[1:] * draws[:-1])) < bound
    assert abs(np.mean(draws[:, 1:] * draws[:, :-1])) < bound


def test_uniform_draws_exclude_both_ends():
    draws = Streams(2).field("x").uniform(np.arange(N))
    assert draws.min() > 0
    assert draws.max() < 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        (("a",), ("a", "")),
        (("a", "bc"), ("ab", "c")),
        (("1", "11"), ("11", "1")),
        (("a\0b",), ("a", "b")),
        (("ü",), ("u",)),
        ((), ("",)),
    ],
)
def test_similar_paths_have_different_streams(first, second):
    assert Streams(1).field(*first) != Streams(1).field(*second)
    assert Streams(1).rng(*first).random() != Streams(1).rng(*second).random()


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_streams_are_equal_if_and_only_if_paths_are(first, second):
    assert (Streams(1).field(*first) == Streams(1).field(*second)) == (first == second)


def test_similar_seeds_have_different_streams():
    assert len({Streams(seed).field("x").key for seed in (0, 1, 10, 2**32, 2**64 + 1)}) == 5
    assert Streams(1).at("1").field("x") != Streams(11).field("x")


def test_numbers_in_paths_are_digits_and_at_continues_the_path():
    streams = Streams(4)
    assert streams.field("replica", 3) == streams.at("replica").field("3")
    assert streams.at("a", "b") == streams.at("a").at("b")


def test_generator_restarts_and_ignores_other_streams():
    streams = Streams(4)
    first = streams.rng("placement").random(5)
    streams.rng("other").random(100)
    streams.field("placement").uniform(np.arange(100))
    assert (streams.rng("placement").random(5) == first).all()


def test_generator_and_field_of_one_name_differ():
    digests = {Streams(1)._digest(("x",), purpose, 2) for purpose in (b"rng", b"field")}
    assert len(digests) == 2


def test_draws_do_not_use_global_generators():
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    Streams(1).rng("x").random(10)
    Streams(1).field("x").normal(np.arange(10))
    after = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    assert (before[1][1] == after[1][1]).all()


@pytest.mark.parametrize("streams", [Streams(1), Streams(2**70, ("traffic", "ü"))])
def test_many_generators_equal_single_ones(streams):
    keys = [0, 1, 7, 255, 10**9]
    for key, rng in zip(keys, streams.rngs("times", keys), strict=True):
        assert rng.bit_generator.state == streams.rng("times", key).bit_generator.state
    assert [*streams.rngs("times", [])] == []


def test_single_draws_equal_those_of_arrays():
    field, rng = Streams(3).field("fading"), np.random.default_rng(1)
    users, index = rng.integers(0, 2**32, 500), rng.integers(0, 2**63, 500)
    together = field.uniform(users, index, 5)
    assert [field.uniform_of(*key, 5) for key in zip(users.tolist(), index.tolist(), strict=True)] == together.tolist()
    assert [field.uniform(users[at], index[[at]], 5)[0] for at in range(20)] == together[:20].tolist()
    assert field.uniform(users[:1], index[:1, None]).shape == (1, 1)
