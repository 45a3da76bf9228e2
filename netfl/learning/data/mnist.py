"""MNIST: handwritten digits."""

from __future__ import annotations

from typing import ClassVar

from netfl.learning.data._formats import IdxImages


class Mnist(IdxImages):
    """MNIST: 60,000 handwritten digits for training and 10,000 for testing, 28 x 28 pixels of 256 levels of grey.

    LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", Proc. IEEE, 1998.  The
    four published files are read from ``mnist/`` in the cache (``NETFL_DATA``, or the user's cache folder) and checked
    against their SHA-256; ``netfl data fetch mnist`` downloads them.

    Example::

        kind: mnist
        train_scale: raw
        test_scale: unit
    """

    source: ClassVar[str] = "mnist"
