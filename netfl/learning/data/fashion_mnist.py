"""Fashion-MNIST: images of clothes."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.data.mnist import Mnist


class FashionMnist(Mnist):
    """Fashion-MNIST: 60,000 images of ten kinds of clothes for training and 10,000 for testing, in MNIST's format.

    Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.
    Labels 0 to 9: T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.  Files:
    ``fashion-mnist/`` in the cache, from ``netfl data fetch fashion_mnist``.

    Example::

        kind: fashion_mnist
    """

    source: ClassVar[str] = "fashion_mnist"
