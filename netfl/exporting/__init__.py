"""What a run tells, for other tools and for other runs: each module here writes one form of it."""

from netfl.exporting.presence import availability, by_rounds

__all__ = ["availability", "by_rounds"]
