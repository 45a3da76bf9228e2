"""Strict scalars: numbers of a scenario are read from numbers alone, and booleans from booleans alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from netfl.core.spec_errors import invalid

_MAX_INT = 10**12
"""Largest whole number of a key that states no maximum of its own."""
_MAX_DIGITS = 4000
"""Largest number of digits of a number in a scenario; Python converts up to 4,300."""
_WHOLE_NUMBER = "a whole number"
_PLAIN_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A number, without unit, blanks or digit separators."""
_SUBSCHEMAS = ("schema", "items_schema", "values_schema", "choices", "fields")
"""Keys below which a schema of pydantic has the schemas of its parts."""


class StrictScalars:
    """Annotation of a type whose numbers are read from numbers alone, and whose booleans from booleans alone.

    pydantic also reads ``true`` as 1, and ``"8.0"``, ``" 8 "``, ``"+8"`` and ``"1_0"`` as numbers.  A number with an
    integral value, such as ``1e3`` or ``2000.0``, remains a whole number.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = handler(source)
        resolved = handler.resolve_ref_schema(schema)
        strict: core_schema.CoreSchema = _strict_schema(resolved)
        if strict is resolved:
            return schema  # its parts are changed in place
        return strict


def _strict_schema(schema: Any) -> Any:
    """Return *schema* with a check before each number and boolean at or below it; parts are replaced in place."""
    check = _SCALAR_CHECKS.get(schema["type"])
    if check is _check_int and schema.keys().isdisjoint({"le", "lt"}):
        check = _check_unbounded_int
    if check is not None:
        return core_schema.no_info_before_validator_function(check, schema)
    if schema["type"] == "function-before" and schema["function"]["function"] in _CHECKS:
        return schema  # a model inside this one has done it
    if schema.get("keys_schema", {}).get("type") == "int":
        schema["keys_schema"] = core_schema.no_info_before_validator_function(_check_key, schema["keys_schema"])
    for key in _SUBSCHEMAS:
        part = schema.get(key)
        if isinstance(part, list):
            schema[key] = [_strict_schema(entry) if isinstance(entry, dict) else entry for entry in part]
        elif isinstance(part, dict) and isinstance(part.get("type"), str):
            schema[key] = _strict_schema(part)
        elif isinstance(part, dict):  # by name
            schema[key] = {name: _strict_schema(entry) for name, entry in part.items()}
    return schema


def _check_float(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise invalid("not a number", _number_remedy(value))
    return value


def _check_int(value: Any) -> Any:
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise invalid("not a whole number", _number_remedy(value, _WHOLE_NUMBER))
    if isinstance(value, float) and value.is_integer():  # pydantic converts those of 64 bits only
        return int(value)
    return value


def _check_unbounded_int(value: Any) -> Any:
    """Check a number whose key states no maximum; beyond `_MAX_INT` it would overflow in arrays."""
    value = _check_int(value)
    if isinstance(value, int) and abs(value) > _MAX_INT:
        raise invalid("too large a number", f"write at most {_MAX_INT}")
    return value


def _check_key(value: Any) -> Any:
    """Check a key of a mapping by whole numbers, which a file has as text."""
    if isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,18}", value):
        return int(value)
    return _check_int(value)


def _check_bool(value: Any) -> Any:
    if not isinstance(value, bool | np.bool_):
        raise invalid("neither true nor false", "write true or false")
    return value


_SCALAR_CHECKS: Mapping[str, Callable[[Any], Any]] = {"float": _check_float, "int": _check_int, "bool": _check_bool}
"""Checks of values before pydantic reads them, by pydantic's name of the type."""
_CHECKS = (*_SCALAR_CHECKS.values(), _check_unbounded_int)


def _number_remedy(value: object, wanted: str = "a number") -> str:
    """Return the number that a text probably stands for, as the remedy.

    >>> _number_remedy("8.0"), _number_remedy("1_000"), _number_remedy("10 %"), _number_remedy("0,5")
    ('write 8.0 without quotes', 'write 1000', 'write 0.1', 'write 0.5')
    >>> _number_remedy(True), _number_remedy("10%", _WHOLE_NUMBER), _number_remedy("9" * 5000)
    ('write a number', 'write a whole number', 'write a number of fewer digits')
    """
    if not isinstance(value, str):
        return f"write {wanted}"
    if len(value) > _MAX_DIGITS:
        return f"write {wanted} of fewer digits"
    text = re.sub(r"[\s_]", "", value)
    bare = text.removesuffix("%")
    if re.fullmatch(r"[-+]?[0-9]+,[0-9]{1,2}", bare):  # three digits after a comma may be thousands
        bare = bare.replace(",", ".")
    if not _PLAIN_NUMBER.fullmatch(bare):
        return f"write {wanted}"
    number = bare.removeprefix("+")
    if text.endswith("%"):
        number = f"{float(bare) / 100:.12g}"
    if wanted == _WHOLE_NUMBER and not float(number).is_integer():
        return f"write {wanted}"
    if number == value.removeprefix("+"):
        number += " without quotes"
    return f"write {number}"
