"""Codecs in NumPy, independent of netfl: what the receiver reads of one change, given the random words of an update."""

import itertools
from fractions import Fraction

import numpy as np

from netfl.streams import Streams


def words(field, user, base, repeat, count):
    """Return the random words of an update, by the stream of its replica: the halves of 64 bits, the lower first."""
    drawn = np.random.Philox(key=field.key, counter=[0, user, repeat, base]).random_raw(count)
    return np.stack([drawn & 0xFFFFFFFF, drawn >> 32], axis=1).ravel()[:count]


def whole(change, drawn):
    return change


def half(change, drawn):
    return change.astype(np.float16).astype(float)


def brain(change, drawn):
    """Round the bits of single precision to the 16 upper ones, halves to even."""
    bits = change.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded >> 16 << 16).astype(np.uint32).view(np.float32).astype(float)


def uniform(bits):
    def code(change, drawn):
        step = (change.max() - change.min()) / (2**bits - 1)
        if step == 0:
            return change
        return np.round((change - change.min()) / step) * step + change.min()

    return code


def qsgd(bits, bucket=None):
    levels = 2 ** (bits - 1) - 1

    def code(change, drawn):
        read = np.zeros(len(change))
        chances = np.floor(drawn / 2**8) / 2**24
        for start in range(0, len(change), bucket or len(change)):
            part = slice(start, start + (bucket or len(change)))
            norm = np.sqrt((change[part] ** 2).sum())
            if norm == 0:
                continue
            scaled = np.abs(change[part]) / norm * levels
            level = np.minimum(np.floor(scaled + chances[part]), levels)
            read[part] = np.sign(change[part]) * level * norm / levels
        return read

    return code


def sign(change, drawn):
    return np.where(change < 0, -1, 1) * np.abs(change).sum() / len(change)


def top(count):
    def code(change, drawn):
        read = np.zeros(len(change))
        for place in sorted(range(len(change)), key=lambda place: (-abs(change[place]), place))[:count]:
            read[place] = change[place]
        return read

    return code


def random_places(count, scale):
    def code(change, drawn):
        read = np.zeros(len(change))
        for place in sorted(range(len(change)), key=lambda place: (drawn[place], place))[:count]:
            read[place] = scale * change[place]
        return read

    return code


def arrived(parts, theta_bits, entries, rest):
    """Return which entries of θ and which numbers of 32 bits after them lie in parts that arrived alone."""
    width = Fraction(int(theta_bits), entries)
    edges = [width * entry for entry in range(entries)] + [theta_bits + 32 * number for number in range(rest + 1)]
    size = Fraction(edges[-1]) / len(parts)
    lost = [(size * part, size * (part + 1)) for part, is_received in enumerate(parts) if not is_received]
    return np.array(
        [all(end <= first or begin >= last for first, last in lost) for begin, end in itertools.pairwise(edges)]
    )


class PlainCoder:
    """Codes the updates of a lane one by one, with an error feedback if *has_memory*.

    *received* returns which entries of an update arrive, given its user and base.
    """

    def __init__(self, code, streams, *, has_memory, received=lambda user, base: True):
        self.received = received
        self.code, self.field, self.has_memory = code, streams.field("codec"), has_memory
        self.left = {}

    def __call__(self, change, user, base, repeat):
        change = change + self.left.get(user, 0.0)
        read = self.code(change, words(self.field, user, base, repeat, len(change)))
        read = np.where(self.received(user, base), read, 0.0)
        if self.has_memory:
            self.left[user] = change - read
        return read


class PlainSparseCoder(PlainCoder):
    """Codes updates of which only some numbers are sent, in the order of their places, and parts are lost.

    *arrived* returns which of so many entries of an update arrive, given its user and base.  *known* has whether the
    receiver knows each number, of each update in turn by its user and base.
    """

    def __init__(self, code, streams, *, has_memory, arrived, knows_places):
        super().__init__(code, streams, has_memory=has_memory)
        self.arrived, self.knows_places, self.known = arrived, knows_places, {}

    def __call__(self, change, user, base, repeat):
        change = change + self.left.get(user, 0.0)
        read = self.code(change, words(self.field, user, base, repeat, len(change)))
        sent = np.flatnonzero(read).tolist()
        arrived = self.arrived(user, base, len(sent))
        known = [True] * len(change)
        for entry, place in enumerate(sent):
            if arrived[entry]:
                continue
            read[place] = 0.0
            known[place] = False
            if self.knows_places:
                continue
            before = max((other for other, is_there in zip(sent, arrived, strict=True) if is_there and other < place),
                         default=-1)  # fmt: skip
            after = min((other for other, is_there in zip(sent, arrived, strict=True) if is_there and other > place),
                        default=len(change))  # fmt: skip
            known[before + 1 : after] = [False] * (after - before - 1)
        self.known.setdefault((user, base), []).append(known)
        if self.has_memory:
            self.left[user] = change - read
        return read


def plain_sender(code, streams):
    """Return a function that codes θ of a version, given its number."""
    field = Streams(streams.seed, streams.path).field("codec_down")
    return lambda theta, number: code(theta, words(field, 0, number, 0, len(theta)))
