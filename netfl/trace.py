"""Moved."""

from netfl.recording import *  # noqa: F403
