"""Small colour pictures of a hundred kinds of things: CIFAR-100."""

from __future__ import annotations

from netfl.learning.data import _download as cache
from netfl.learning.data import _formats as cifar
from netfl.learning.data._images import Images, Pictures


class Cifar100(Images):
    """CIFAR-100: 50,000 colour pictures of 32 x 32 pixels to train on and 10,000 to test with.

    Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.  The published archive
    ``cifar-100-binary.tar.gz`` is read from ``cifar-100/`` in the cache (``NETFL_DATA``, or the user's cache folder)
    and checked against its SHA-256; ``netfl data fetch cifar100`` gets it.

    Example::

        kind: cifar100
    """

    coarse: bool = False
    """Whether the 20 kinds of kinds are the labels, in place of the 100 kinds."""

    @property
    def labels(self) -> int:
        """All kinds."""
        return 20 if self.coarse else 100

    def pictures(self) -> Pictures:
        """Read the archive."""
        (archive,) = cache.contents("cifar100")
        train, test = cifar.archive_members(archive, ["train.bin", "test.bin"])
        label = 0 if self.coarse else 1
        return Pictures(*cifar.read_records([train], 2, label), *cifar.read_records([test], 2, label))
