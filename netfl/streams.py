"""Named random streams: a draw is keyed by its purpose, never by the time at which it is made.

`Streams.rng` returns a NumPy generator, for draws that are made once, in one place.  `Streams.field` returns a
`RandomField`: a function from (user, index) to random numbers without state, vectorised over users, that can be
evaluated in any order.  Both are keyed by the seed and the path of names.  A change of one model in a scenario
therefore leaves the draws of all other models as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_LOW, _HALF = np.array(_MASK, np.uint64), np.array(32, np.uint64)
_FIRST, _SECOND = (np.array(multiplier, np.uint64) for multiplier in _MULTIPLIERS)
"""Arrays without dimensions: NumPy combines them with arrays in less time than its scalars."""
_SCALAR_UP_TO = 6
"""Number of counters up to which Python integers are faster than arrays."""


def philox(counter: Sequence[NDArray[np.uint64]], key: tuple[int, int], rounds: int = 10) -> list[NDArray[np.uint64]]:
    """Return the four 32-bit words of Philox4x32 for each counter, in uint64 arrays.

    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.

    Args:
        counter: four arrays of 32-bit words that broadcast against each other.
        key: the two 32-bit words of the key, or arrays that broadcast against the counters.
        rounds: the number of rounds; the published generator has 10.
    """
    if isinstance(key[0], int):
        keys = _kept_arrays(*key, rounds)
    else:  # arrays of keys, which occur once
        keys = _arrays(*key, rounds)
    a, b, c, d = counter
    for k0, k1 in keys:
        left = a * _FIRST  # 64 bits
        right = c * _SECOND
        a = (right >> _HALF) ^ b ^ k0
        c = (left >> _HALF) ^ d ^ k1
        b = right & _LOW
        d = left & _LOW
    return [a, b, c, d]


def _schedule(first: int, second: int, rounds: int = 10) -> list[tuple[int, int]]:
    return [((first + n * _WEYL[0]) & _MASK, (second + n * _WEYL[1]) & _MASK) for n in range(rounds)]


def _arrays(first: int, second: int, rounds: int = 10) -> list[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    return [(np.asarray(k0, np.uint64), np.asarray(k1, np.uint64)) for k0, k1 in _schedule(first, second, rounds)]


_kept_schedule = lru_cache(4096)(_schedule)
_kept_arrays = lru_cache(1024)(_arrays)


def _one_by_one(counters: Iterable[tuple[int, int, int, int]], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Return the words of `philox`, computed with Python integers, ``[counters, 4]``."""
    keys = _kept_schedule(*key)
    words = [_philox_of(counter, keys) for counter in counters]
    return np.array(words, np.uint64).reshape(-1, 4)


def _philox_of(counter: tuple[int, int, int, int], keys: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    """Return the words of `philox` for one counter, with the keys of its rounds."""
    a, b, c, d = counter
    for k0, k1 in keys:
        left = a * _MULTIPLIERS[0]
        right = c * _MULTIPLIERS[1]
        a = (right >> 32) ^ b ^ k0
        c = (left >> 32) ^ d ^ k1
        b = right & _MASK
        d = left & _MASK
    return a, b, c, d


@dataclass(frozen=True, slots=True)
class RandomField:
    """Random function of (user, index, draw): equal arguments give equal numbers.

    *users*, *index* and *draw* broadcast against each other; all are non-negative integers, *users* and *draw*
    below 2**32, *index* below 2**64.

    >>> field = Streams(7).field("channel")
    >>> bool((field.uniform([3, 1], 5) == field.uniform([1, 3], 5)[::-1]).all())
    True
    """

    key: tuple[int, int]

    def words(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> list[NDArray[np.uint64]]:
        """Return four independent 32-bit words for each (user, index, draw)."""
        user, at, sub = (np.asarray(values, np.uint64) for values in (users, index, draw))
        together = np.broadcast(user, at, sub)
        if together.size > _SCALAR_UP_TO or np.ndim(self.key[0]):
            return philox((user, sub, at & _LOW, at >> _HALF), self.key)
        each = ((int(u), int(s), int(i) & _MASK, int(i) >> 32) for u, i, s in together)
        return [*_one_by_one(each, self.key).T.reshape(4, *together.shape)]

    def uniform(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Return uniform draws from the open interval (0, 1), with 53 random bits."""
        user, at, sub = (np.asarray(values, np.uint64) for values in (users, index, draw))
        if user.size == at.size == sub.size == 1 and not np.ndim(self.key[0]):
            single = np.empty((1,) * max(user.ndim, at.ndim, sub.ndim))
            single.fill(self.uniform_of(user.item(), at.item(), sub.item()))
            return single
        a, b, _, _ = self.words(user, at, sub)
        return _unit(a, b)

    def order(self, users: Sequence[int], index: int, draw: int = 0) -> list[int]:
        """Return the places of *users* in a random order; a user that occurs twice keeps the order of its places.

        >>> sorted(Streams(7).field("tie").order([3, 1, 1, 8], 5))
        [0, 1, 2, 3]
        """
        keys = self.uniform(users, index, draw)
        return [int(place) for place in np.argsort(keys, kind="stable")]

    def uniform_of(self, user: int, index: int = 0, draw: int = 0) -> float:
        """Return `uniform` of one (user, index, draw), computed with Python integers."""
        counter = (user, draw, index & _MASK, index >> 32)
        high, low, _, _ = _philox_of(counter, _kept_schedule(*self.key))
        bits = ((high << 32) | low) >> 11
        return min((bits + 0.5) * 2.0**-53, 1.0 - 2.0**-53)

    def exponential(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Return exponential draws of mean 1."""
        return np.asarray(-np.log(self.uniform(users, index, draw)))

    def normal(self, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0) -> NDArray[np.float64]:
        """Return standard normal draws, by the Box-Muller transform."""
        a, b, c, d = self.words(users, index, draw)
        return np.asarray(np.sqrt(-2.0 * np.log(_unit(a, b))) * np.cos(2.0 * np.pi * _unit(c, d)))

    def geometric(
        self, probability: float, users: ArrayLike, index: ArrayLike = 0, draw: ArrayLike = 0
    ) -> NDArray[np.int64]:
        """Return the numbers of Bernoulli trials up to and including the first success.

        Args:
            probability: of success in one trial, in (0, 1].
            users: as in `words`.
            index: as in `words`.
            draw: as in `words`.
        """
        if probability >= 1.0:
            return np.ones(np.broadcast_shapes(np.shape(users), np.shape(index), np.shape(draw)), np.int64)
        with np.errstate(over="ignore"):  # infinite for a tiny probability
            trials = np.log(self.uniform(users, index, draw)) / np.log1p(-probability)
        return np.asarray(np.minimum(np.ceil(trials), 2.0**62), np.int64)


@dataclass(frozen=True, slots=True)
class Streams:
    """The randomness of a run: a seed and a path of names.

    >>> streams = Streams(1)
    >>> float(streams.rng("placement").random()) == float(streams.at("placement").rng().random())
    True
    """

    seed: int
    path: tuple[str, ...] = ()

    def at(self, *names: str | int) -> Streams:
        """Return the streams below *names*."""
        return Streams(self.seed, self.path + tuple(map(str, names)))

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a new generator for *names*, which starts at its first draw."""
        return np.random.default_rng(np.random.SeedSequence(list(self._digest(names, b"rng", 4))))

    def rngs(self, name: str | int, keys: Sequence[int]) -> Iterator[np.random.Generator]:
        """Yield the generators ``rng(name, key)`` of many keys, in a fraction of the time.

        >>> one, many = Streams(1).rng("sizes", 7), [*Streams(1).rngs("sizes", range(9))]
        >>> float(one.random()) == float(many[7].random())
        True
        """
        digests = [self._digest((name, key), b"rng", 4) for key in keys]
        for words in _seed_states(np.array(digests, np.uint32).reshape(-1, 4)):
            yield np.random.Generator(np.random.PCG64(_SeedWords(words)))  # type: ignore[arg-type]

    def field(self, *names: str | int) -> RandomField:
        """Return the random function of (user, index) for *names*."""
        first, second = self._digest(names, b"field", 2)
        return RandomField((first, second))

    def _digest(self, names: tuple[str | int, ...], purpose: bytes, words: int) -> tuple[int, ...]:
        """Return 32-bit words that depend on the seed, the whole path and the purpose."""
        digest = blake2b(_encode(self.seed, self.path), digest_size=4 * words, person=purpose)
        digest.update(_encode_names(names))
        return struct.unpack(f"<{words}I", digest.digest())


@lru_cache(256)
def _encode(seed: int, path: tuple[str, ...]) -> bytes:
    return str(seed).encode() + b"\0" + _encode_names(path)


def _encode_names(names: Iterable[str | int]) -> bytes:
    encoded = [str(name).encode() for name in names]
    return b"".join([len(name).to_bytes(4, "little") + name for name in encoded])


class _SeedWords(np.random.bit_generator.ISeedSequence):
    """The words that seed a generator."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        return self._words


def _seed_states(entropy: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the 256 bits by which ``numpy.random.SeedSequence`` seeds a PCG64, for each row of entropy, ``[n, 4]``.

    M. E. O'Neill, "Developing a seed_seq alternative", 2015, as in NumPy, whose stream is guaranteed (NEP 19).  The
    multiplier of a hash changes from call to call, in the same way for all rows.
    """
    hashed = _hasher(0x43B0D7E5, 0x931E8875)
    pool = [hashed(entropy[:, word]) for word in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                mixed = np.uint32(0xCA01F9DD) * pool[target] - np.uint32(0x4973F715) * hashed(pool[source])
                pool[target] = mixed ^ (mixed >> np.uint32(16))
    hashed = _hasher(0x8B51F9DD, 0x58F38DED)
    words = [hashed(pool[word % 4]) for word in range(8)]
    return np.ascontiguousarray(np.column_stack(words)).view(np.uint64)


def _hasher(constant: int, multiplier: int) -> Callable[[NDArray[np.uint32]], NDArray[np.uint32]]:
    def hashed(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        nonlocal constant
        values = values ^ np.uint32(constant)
        constant = constant * multiplier & _MASK
        values = values * np.uint32(constant)
        return values ^ (values >> np.uint32(16))

    return hashed


def _unit(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return two 32-bit words as a number in (0, 1)."""
    bits = ((high << _HALF) | low) >> np.uint64(11)
    return np.asarray(np.minimum((bits.astype(np.float64) + 0.5) * 2.0**-53, 1.0 - 2.0**-53))
