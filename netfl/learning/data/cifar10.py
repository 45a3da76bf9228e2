"""Small colour pictures of ten kinds of things: CIFAR-10."""

from __future__ import annotations

from netfl.learning.data import _download as cache
from netfl.learning.data import _formats as cifar
from netfl.learning.data._images import Images, Pictures

_FILES = [f"data_batch_{number}.bin" for number in range(1, 6)]


class Cifar10(Images):
    """CIFAR-10: 50,000 colour pictures of 32 x 32 pixels to train on and 10,000 to test with.

    Krizhevsky, "Learning multiple layers of features from tiny images", technical report, 2009.  Labels 0 to 9:
    airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.  Read from ``cifar-10/`` in the cache
    (``NETFL_DATA``, or the user's cache folder): the published archive ``cifar-10-binary.tar.gz``, checked against its
    SHA-256, which ``netfl data fetch cifar10`` gets; or the six files ``data_batch_1.bin`` … ``test_batch.bin``
    (``.xz`` after the name if they are packed) of an edition in which 111 pictures are JPEG approximations, checked
    against their SHA-256.

    Example::

        kind: cifar10
        train_scale: channels
        test_scale: channels
    """

    def pictures(self) -> Pictures:
        """Read the archive, or the six files."""
        files = [*cache.contents("cifar10")]
        if len(files) == 1:
            files = cifar.archive_members(files[0], [*_FILES, "test_batch.bin"])
        return Pictures(*cifar.read_records(files[:-1], 1), *cifar.read_records(files[-1:], 1))
