"""User-defined codecs with errors."""

from netfl.learning.codec import Codec, Encoded


class Unsized(Codec):
    """Its size is 0."""

    def bits(self, parameters):
        return 0

    def encode(self, change, draws):
        return Encoded(change)


class Bare(Unsized):
    """It returns a tensor."""

    def bits(self, parameters):
        return 8.0 * parameters

    def encode(self, change, draws):
        return change


class Short(Bare):
    """It drops the last number."""

    def encode(self, change, draws):
        return Encoded(change[..., :-1])


class Writing(Bare):
    """It changes its argument."""

    def encode(self, change, draws):
        return Encoded(change.mul_(2))


class Failing(Bare):
    """It fails."""

    def encode(self, change, draws):
        raise RuntimeError("no")
