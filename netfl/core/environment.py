"""Variables of the environment that are set for a while, also for the processes that begin meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def variable_set(name: str) -> Iterator[None]:
    """Set the variable *name* to 1 inside this context."""
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
