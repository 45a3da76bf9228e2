"""User-defined codecs with errors."""

from typing import ClassVar

from netfl.learning.codec import Codec, Encoded


class Unsized(Codec):
    """Its size is 0."""

    def bits(self, parameters):
        return 0

    def encode(self, change, draws):
        return Encoded(change)


class Bare(Unsized):
    """Return a tensor."""

    def bits(self, parameters):
        return 8.0 * parameters

    def encode(self, change, draws):
        return change


class Short(Bare):
    """Drop the last number."""

    def encode(self, change, draws):
        return Encoded(change[..., :-1])


class Writing(Bare):
    """Change its argument."""

    def encode(self, change, draws):
        return Encoded(change.mul_(2))


class Failing(Bare):
    """Fail."""

    def encode(self, change, draws):
        raise RuntimeError("no")


class Broken(Bare):
    """Return NaN."""

    codes_versions: ClassVar[bool] = True

    def encode(self, change, draws):
        return Encoded(change * float("nan"))


class Hidden(Bare):
    """Send one parameter, and do not state that only some are sent."""

    def encode(self, change, draws):
        position = draws.choose(change.shape[-1], 1)
        return Encoded(change.gather(-1, position.expand(*change.shape[:-1], 1)), position, change.shape[-1])


class Shown(Hidden):
    """Send one parameter, and state it."""

    is_sparse: ClassVar[bool] = True


class MixedUpdates(Bare):
    """Subtract the mean over updates."""

    def encode(self, change, draws):
        return Encoded(change - change.mean(0))


class MixedLanes(Bare):
    """Scale by the largest number of all lanes."""

    def encode(self, change, draws):
        scale = change.abs().amax((1, 2), keepdim=True)
        return Encoded((change / scale * 4).round() / 4 * scale)


class OwnDraws(Bare):
    """Draw from the generator of torch."""

    def encode(self, change, draws):
        return Encoded(change + change.new_empty(change.shape).uniform_())


class Dithered(Bare):
    """Round up or down at random, in units of the norm of a row: correct."""

    def encode(self, change, draws):
        scale = change.norm(dim=-1, keepdim=True) / 8
        return Encoded((change / scale + draws.uniform(change.shape[-1])).floor() * scale)


class HalfPrecision(Codec):
    """Return half precision, in place of the type of the change."""

    def bits(self, parameters):
        return 16.0 * parameters

    def encode(self, change, draws):
        return Encoded(change.half())


class SinglePrecision(HalfPrecision):
    """Return single precision whatever the type of the change."""

    def encode(self, change, draws):
        return Encoded(change.float())
