"""CIFAR-100: small colour images of a hundred classes."""

from __future__ import annotations

from netfl.learning.data._archives import extract_members, read_cifar_records
from netfl.learning.data._download import read_files
from netfl.learning.data._images import Images, ImageSet


class Cifar100(Images):
    """CIFAR-100: 50,000 colour images of 32 x 32 pixels to train on and 10,000 to test with.

    Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.  Files: ``cifar-100/``
    in the cache, from ``netfl data fetch cifar100``.

    Example::

        kind: cifar100
    """

    coarse: bool = False
    """Use the 20 superclasses as labels instead of the 100 classes."""

    @property
    def labels(self) -> int:
        return 20 if self.coarse else 100

    def read_images(self) -> ImageSet:
        (archive,) = read_files("cifar100")
        train, test = extract_members(archive, ["train.bin", "test.bin"])
        label = 0 if self.coarse else 1  # a record has both
        return ImageSet(*read_cifar_records([train], 2, label), *read_cifar_records([test], 2, label))
