"""Options of the augmentation of training images; `netfl.learning.user_data.Augmentation` applies it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.core.spec import Spec


class Augment(Spec):
    """Random crops and reflections of the images of each mini-batch, as in the usual training on CIFAR.

    He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016, section 4.2: an image is padded
    by ``crop`` zeros on each side and cut out in its own size at a place drawn uniformly.  With ``flip`` it is then
    mirrored left to right with probability 1/2.  The padding is zero after scaling: black for ``unit`` and ``raw``
    pixels, the mean for standardised ones.  Test and validation examples, and the losses on the users' data, are never
    augmented.
    """

    crop: Annotated[int, Field(ge=0, le=64)] = 4
    """Largest shift of an image in each direction, in pixels."""
    flip: bool = True
    """Mirror half of the images."""
