"""Codecs that send a share of the numbers of a change."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netfl.learning.codec import Codec


class SparseCodec(Codec):
    """A codec that sends k numbers of a change whole."""

    is_sparse: ClassVar[bool] = True
    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the parameters that are sent."""
    error_feedback: bool
    """Users add the errors of their last delivered update to their next change."""

    @property
    def has_error_feedback(self) -> bool:
        return self.error_feedback

    def count(self, parameters: int) -> int:
        """Return k for so many *parameters*."""
        return max(1, round(self.share * parameters))
