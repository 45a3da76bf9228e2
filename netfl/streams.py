"""Named random streams: a draw is keyed by what it is *for*, never by when it is made.

Two kinds of randomness cover all of netfl.  `Streams.rng` gives an ordinary NumPy generator for draws that
are made once, in one place.  `Streams.field` gives a `RandomField`: a function from (user, index) to random numbers
that needs no state, can be asked in any order, and is vectorised over users.  Both are keyed by the seed and the
path of names, so that changing one model of a scenario leaves every other model's draws as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_HALF = np.uint64(32)
_FEW = 6
"""So many counters are reckoned faster one by one than as arrays."""


def philox(counter: Sequence[NDArray[np.uint64]], key: tuple[int, int], rounds: int = 10) -> list[NDArray[np.uint64]]:
    """The four 32-bit words of Philox4x32 for each counter, held in uint64 arrays.

    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.

    Args:
        counter: four arrays, which broadcast against each other, each holding 32-bit words.
        key: the two 32-bit words of the key, or arrays of them, which broadcast against the counters.
        rounds: the number of rounds; 10 is the published generator, and from 3 on all words are of the whole shape.
    """
    a, b, c, d = counter
    one, two = map(np.uint64, _MULTIPLIERS)
    for k0, k1 in _schedule(*key, rounds):
        left, right = a * one, c * two
        a, c = (right >> _HALF) ^ b ^ np.uint64(k0), (left >> _HALF) ^ d ^ np.uint64(k1)
        b, d = right & _LOW, left & _LOW
    return [a, b, c, d]


def _schedule(first: int, second: int, rounds: int = 10) -> list[tuple[int, int]]:
    """The keys of the rounds."""
    return [((first + n * _WEYL[0]) & _MASK, (second + n * _WEYL[1]) & _MASK) for n in range(rounds)]


_kept_schedule = lru_cache(4096)(_schedule)


def _one_by_one(counters: Iterable[tuple[int, int, int, int]], key: tuple[int, int]) -> NDArray[np.uint64]:
    """What `philox` gives, by Python's own integers, ``[counters, 4]``."""
    keys, found = _kept_schedule(*key), []
    for a, b, c, d in counters:
        for k0, k1 in keys:
            left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
            a, b, c, d = (right >> 32) ^ b ^ k0, right & _MASK, (left >> 32) ^ d ^ k1, left & _MASK  # noqa: PLW2901
        found.append((a, b, c, d))
    return np.array(found, np.uint64).reshape(-1, 4)


@dataclass(frozen=True, slots=True)
class RandomField:
    """A random function of (user, index, draw): the same arguments always give the same numbers.

    *users*, *index* and *draw* broadcast against each other; all are non-negative integers, *users* and *draw*
    below 2**32, *index* below 2**64.

    >>> field = Streams(7).field("channel")
    >>> bool((field.uniform([3, 1], 5) == field.uniform([1, 3], 5)[::-1]).all())
    True
    """

    key: tuple[int, int]

    def words(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> list[NDArray[np.uint64]]:
        """Four independent 32-bit words for each (user, index, draw)."""
        user, at, sub = (np.asarray(one, np.uint64) for one in (users, index, draw))
        together = np.broadcast(user, at, sub)
        if together.size > _FEW or np.ndim(self.key[0]):
            return philox((user, sub, at & _LOW, at >> _HALF), self.key)
        each = ((int(u), int(s), int(i) & _MASK, int(i) >> 32) for u, i, s in together)
        return [*_one_by_one(each, self.key).T.reshape(4, *together.shape)]

    def uniform(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Uniform draws on the open interval (0, 1), with 53 random bits."""
        a, b, _, _ = self.words(users, index, draw)
        return _unit(a, b)

    def exponential(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Exponential draws of mean 1."""
        return np.asarray(-np.log(self.uniform(users, index, draw)))

    def normal(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Standard normal draws, by Box and Muller's transform."""
        a, b, c, d = self.words(users, index, draw)
        return np.asarray(np.sqrt(-2.0 * np.log(_unit(a, b))) * np.cos(2.0 * np.pi * _unit(c, d)))

    def geometric(
        self, probability: float, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0
    ) -> NDArray[np.int64]:
        """Numbers of Bernoulli trials up to and including the first success.

        Args:
            probability: of success in one trial, in (0, 1].
            users: as in `words`.
            index: as in `words`.
            draw: as in `words`.
        """
        if probability >= 1.0:
            return np.ones(np.broadcast_shapes(np.shape(users), np.shape(index), np.shape(draw)), np.int64)
        with np.errstate(over="ignore"):  # infinite, if it hardly ever happens
            trials = np.log(self.uniform(users, index, draw)) / np.log1p(-probability)
        return np.asarray(np.minimum(np.ceil(trials), 2.0**62), np.int64)


@dataclass(frozen=True, slots=True)
class Streams:
    """All the randomness of a run: a seed and a path of names.

    >>> streams = Streams(1)
    >>> float(streams.rng("placement").random()) == float(streams.at("placement").rng().random())
    True
    """

    seed: int
    path: tuple[str, ...] = ()

    def at(self, *names: str | int) -> Streams:
        """The streams below *names*."""
        return Streams(self.seed, self.path + tuple(map(str, names)))

    def rng(self, *names: str | int) -> np.random.Generator:
        """A fresh generator for *names*: each call gives it anew, from its start."""
        return np.random.default_rng(np.random.SeedSequence(list(self._digest(names, b"rng", 4))))

    def field(self, *names: str | int) -> RandomField:
        """The random function of (user, index) for *names*."""
        first, second = self._digest(names, b"field", 2)
        return RandomField((first, second))

    def _digest(self, names: tuple[str | int, ...], purpose: bytes, words: int) -> tuple[int, ...]:
        """32-bit words that depend on the seed, the whole path and the purpose."""
        path = self.path + tuple(map(str, names))
        told = b"".join(len(name.encode()).to_bytes(4, "little") + name.encode() for name in path)
        digest = blake2b(str(self.seed).encode() + b"\0" + told, digest_size=4 * words, person=purpose).digest()
        return tuple(int.from_bytes(digest[4 * i : 4 * i + 4], "little") for i in range(words))


def _unit(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Two 32-bit words as a number in (0, 1)."""
    bits = ((high << _HALF) | low) >> np.uint64(11)
    return np.asarray(np.minimum((bits.astype(np.float64) + 0.5) * 2.0**-53, 1.0 - 2.0**-53))
