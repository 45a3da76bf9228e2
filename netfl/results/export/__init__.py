"""Exports of a run for other tools and for other runs, one format per module."""
