"""JSON documents in which no key occurs twice and every number is finite."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NoReturn

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape of one half of a character; JSON writes a character beyond U+FFFF as two halves."""
_MAX_DIGITS = 308
"""Digits of an integer that is surely within the range of a number of 64 bits."""


def parse_json(text: str) -> Any:
    """Return the content of a JSON document.

    Raises:
        ValueError: it is not valid JSON, a key occurs twice in an object, a number is too large for 64 bits, a text has
            half of a character, or it is nested too deeply.
    """
    try:
        content = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_finite_integer
        )
        if _SURROGATE.search(text):
            _check_characters(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


class RepeatedKeyError(ValueError):
    """A key occurs twice in an object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        key, count = Counter(key for key, _ in pairs).most_common(1)[0]
        first = json.dumps(dict(pairs[:1]), default=str)[:60]
        raise RepeatedKeyError(f"the key '{key}' occurs {count} times in the object that begins with {first}")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {text} is too large")
    return number


def _finite_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"the number {text[:20]}… of {len(text)} digits is too large")
    return int(text)


def _check_characters(content: object) -> None:
    """Check that all texts are complete characters, which alone can be written to a file.

    Raises:
        ValueError: one is not.
    """
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end].encode("unicode_escape").decode("ascii")
        raise ValueError(f"a text has half of a character, {half}") from None
