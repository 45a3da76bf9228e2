"""Temporary replacement of attributes of Flower's modules and classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace an attribute of *owner* until the context ends.

    Args:
        owner: a module, a class or an object.
        name: the attribute.
        replace: function of the present value that returns the other one.
    """
    is_own = name in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, replace(original))
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
