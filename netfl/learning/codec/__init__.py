"""The codec family: what an update keeps of its change of θ, and how many bits that takes on the air.

To add one, derive a class from `Codec` in a file of this package, or in a module of your own.  This one is complete::

    class Halves(Codec):
        \"\"\"Each number is rounded to a multiple of ``step`` in 8 bits; larger ones are cut.\"\"\"

        step: float = 0.001

        def bits(self, parameters):
            return 8.0 * parameters

        def encode(self, change, draws):
            return Encoded((change / self.step).round().clamp(-128, 127) * self.step)

- A codec acts on the change of θ, ``θ_user - θ_base``, after local training and before the aggregation.  Buffers of the
  model, t and what an aggregation sends beside the model travel whole, with 32 bits a number.
- `encode` gets the changes of several updates in several lanes, ``[updates, lanes, parameters]``.  Each row of
  parameters is encoded by itself.  It returns the numbers that the receiver reads, in the type of the change.
- `bits` is the exact size of one encoded row, which networks bill.  A file of this package imports no torch at its
  head, because networks ask for sizes without learning.
- An access may erase parts of an update.  The entries of an update share its bits in their order; those in a lost part
  are read as 0.  Numbers that are sent once, such as a norm, are taken as received.  Of a codec that sends only some
  parameters, the receiver does not know those between the neighbours of a lost entry, unless `Codec.knows_positions`.
- Random draws come from `CodecDraws`, which are keyed by replica, user, base version and repeat, as mini-batches are.
  All lanes of a replica have the same draws, so that learners are compared in pairs.
- A codec that loses information systematically has an error feedback: what an update did not carry is added to the
  user's next change (`Codec.has_error_feedback`).  Netfl keeps this memory for each user and lane.
- Use only methods and operators of tensors.  A file that needs torch itself imports it inside the method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor as Tensor

    from netfl.learning.codec_draws import CodecDraws as CodecDraws
else:
    Tensor = CodecDraws = object  # torch is imported by runs that learn, not by scenarios

NUMBER_BITS = 32
"""Bits of a number that travels whole, in any precision of the arithmetic."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded changes: the numbers that the receiver reads.

    Args:
        values: of each update in each lane, ``[updates, lanes, entries]``.
        positions: the parameter of each entry, in rising order, ``[updates, lanes or 1, entries]``, int64; ``None`` if
            there is an entry for each parameter.  Only if `Codec.is_sparse`.
        parameters: number of parameters; needed with *positions*.
    """

    values: Tensor
    positions: Tensor | None = None
    parameters: int = 0


class Codec(Spec):
    """Base class of all codecs."""

    is_sparse: ClassVar[bool] = False
    """True if it sends only some parameters; those that are not sent count as unchanged."""
    knows_positions: ClassVar[bool] = False
    """True if the receiver knows which parameters are sent, so that it knows which are in a lost part."""
    is_whole: ClassVar[bool] = False
    """True if numbers travel whole, as without a codec."""
    codes_versions: ClassVar[bool] = False
    """True if the codec can encode a whole version for the downlink; false if it keeps only parts of a change."""

    @abstractmethod
    def bits(self, parameters: int) -> float:
        """Return the size of an encoded change of θ with so many *parameters*, in bits."""

    @abstractmethod
    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        """Return the encoded changes; *change* must not be written into.

        Args:
            change: of θ, ``[updates, lanes, parameters]``.
            draws: random numbers of each update.
        """

    def decode(self, encoded: Encoded, received: Tensor | None = None) -> Tensor:
        """Return the changes that the receiver reads, ``[updates, lanes, parameters]``; 0 without an entry.

        Args:
            encoded: as `encode` has returned it.
            received: whether the receiver has each entry, ``[updates, 1, entries]``; ``None`` for all.
        """
        values = encoded.values
        if received is not None:
            values = values.where(received, 0.0)
        if encoded.positions is None:
            return values
        change = values.new_zeros(*values.shape[:-1], encoded.parameters)
        return change.scatter_(-1, encoded.positions.expand_as(values), values)

    @property
    def has_error_feedback(self) -> bool:
        """True if each user adds what its last delivered update did not carry to its next change."""
        return False

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a codec without draws"),)


def coded_bits(codec: Codec | None, parameters: int) -> float:
    """Return the size of *parameters* numbers of θ as sent, in bits."""
    if codec is None:
        return float(NUMBER_BITS * parameters)
    return float(codec.bits(parameters))


@dataclass(frozen=True, slots=True)
class Codecs:
    """The codecs of a scenario; ``None`` where numbers travel whole.

    Args:
        up: of updates.
        down: of broadcasts.
    """

    up: Codec | None = None
    down: Codec | None = None

    @classmethod
    def of(cls, up: Codec | None, down: Codec | None) -> Codecs:
        """Return the codecs of a scenario, without those that change nothing."""
        if up is not None and up.is_whole:
            up = None
        if down is not None and down.is_whole:
            down = None
        return cls(up, down)

    @property
    def named(self) -> Mapping[str, Codec]:
        """The codecs of the directions that have one, by their key in a scenario."""
        codecs = {"codec": self.up, "codec_down": self.down}
        return {key: codec for key, codec in codecs.items() if codec is not None}


WHOLE = Codecs()
"""No codec in either direction."""

__getattr__ = exported_models(__name__)
