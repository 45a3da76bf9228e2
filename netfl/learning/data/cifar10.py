"""CIFAR-10: small colour images of ten classes."""

from __future__ import annotations

from netfl.learning.data._archives import extract_members, read_cifar_records
from netfl.learning.data._download import read_files
from netfl.learning.data._images import Images, ImageSet

_TRAIN_FILES = [f"data_batch_{number}.bin" for number in range(1, 6)]


class Cifar10(Images):
    """CIFAR-10: 50,000 colour images of 32 x 32 pixels to train on and 10,000 to test with.

    Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.  Labels 0 to 9:
    airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.  Files: ``cifar-10/`` in the cache, from
    ``netfl data fetch cifar10``; or six files ``data_batch_1.bin`` … ``test_batch.bin`` of an edition in which 111
    images are JPEG approximations.

    Example::

        kind: cifar10
        train_scale: channels
        test_scale: channels
    """

    def read_images(self) -> ImageSet:
        files = [*read_files("cifar10")]
        if len(files) == 1:
            files = extract_members(files[0], [*_TRAIN_FILES, "test_batch.bin"])
        return ImageSet(*read_cifar_records(files[:-1], 1), *read_cifar_records(files[-1:], 1))
