"""Exports of a run for other tools and for other runs, one format per module."""

from netfl.results.export.availability import availability, presence_by_rounds

__all__ = ["availability", "presence_by_rounds"]
