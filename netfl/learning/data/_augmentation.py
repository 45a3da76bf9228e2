"""What a scenario says of pictures that are moved about while they are trained on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from netfl.registry import Spec


class Augment(Spec):
    """Each picture of each mini-batch is cut out anew at a random place, and mirrored or not, as in CIFAR's training.

    He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016, section 4.2: ``crop`` zeros are
    put around a picture, from which it is cut out in its own size at a place drawn uniformly; with ``flip`` every
    other one, at random, is mirrored left to right.  Zero is what it is after scaling: black where pixels are ``unit``
    or ``raw``, the mean where they are standardised.  Test and validation examples, and the losses on what users hold,
    are never augmented.
    """

    crop: Annotated[int, Field(ge=0, le=64)] = 4
    """How many pixels a picture moves at most in each direction."""
    flip: bool = True
    """Whether half of the pictures are mirrored."""

    @model_validator(mode="after")
    def _does_something(self) -> Augment:
        """Refuse what leaves every picture as it is."""
        if not self.crop and not self.flip:
            raise ValueError("without crop and flip every picture stays as it is: leave 'augment' out")
        return self
