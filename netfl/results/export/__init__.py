"""What a run tells, for other tools and for other runs: each module here writes one form of it."""

from netfl.results.export.availability import availability, presence_by_rounds

__all__ = ["availability", "presence_by_rounds"]
