"""Pictures of clothes: Fashion-MNIST."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.data._formats import IdxImages


class FashionMnist(IdxImages):
    """Fashion-MNIST: 60,000 pictures of ten kinds of clothes to train on and 10,000 to test with, in MNIST's format.

    Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.
    Labels 0 to 9: T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.  The four published
    files are read from ``fashion-mnist/`` in the cache (``NETFL_DATA``, or the user's cache folder) and checked against
    their SHA-256; ``netfl data fetch fashion_mnist`` gets them.

    Example::

        kind: fashion_mnist
    """

    source: ClassVar[str] = "fashion_mnist"
