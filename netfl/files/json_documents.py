"""JSON documents in which no key occurs twice and every number is finite."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn


def parse_json(text: str) -> Any:
    """Return the content of a JSON document.

    Raises:
        ValueError: it is not valid JSON, a key occurs twice in an object, a number is not finite, or it is nested too
            deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
