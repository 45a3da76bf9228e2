"""The JSON Schema of scenarios, with which editors complete and check them.

The schema is generated from the pydantic models.  A family is a choice among its models by ``kind``.  The schema covers
keys, types, bounds and units; `netfl check` also finds sections that do not fit together.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.spec import Spec
from netfl.scenario.scenario import Scenario
from netfl.units import Unit, units_of

DIALECT = "http://json-schema.org/draft-07/schema#"
"""The version of JSON Schema that most editors support."""
_NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*"
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_OUTSIDE = {
    "type": "string",
    "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
    "description": "A model of your own: package.module:Class.",
}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, extended by families and quantities."""

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        """Return a reference to the family."""
        family = (schema.get("metadata") or {}).get("family")
        return {"$family": family} if family else {}

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """Accept a text for a quantity, and one entry for a list that is read that way."""
        inner = self.generate_inner(schema.get("json_schema_input_schema", schema["schema"]))
        unit = getattr(schema["function"]["function"], "__self__", None)
        if isinstance(unit, Unit):
            types: str | list[str] = ["number", "string"]
            if unit.is_level:  # a number without dB or dBm could be either
                types = "string"
            return inner | {"type": types, "pattern": _quantity(unit.symbol), "$unit": unit.symbol}
        if inner.get("type") == "array":
            entry = inner["items"] if "items" in inner else inner["prefixItems"][0]
            return {"anyOf": [entry, inner]}
        return inner


@cache
def _quantity(symbol: str) -> str:
    """Return the pattern of a number with one of the units that `netfl.units.units_of` lists."""
    units = "|".join(re.escape(unit) for unit in units_of(symbol))
    return rf"{_NUMBER}({units})\s*$"


def scenario_schema() -> dict[str, Any]:
    """Return the schema as plain data."""
    families: dict[str, dict[str, type[Spec]]] = {}
    for family in FAMILIES:
        base = base_of(family)
        families[family] = {kind: find_model(base, kind) for kind in list_kinds(base)}
    models: list[type[Spec]] = [Scenario, *(model for members in families.values() for model in members.values())]
    placed, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/definitions/{model}", schema_generator=_Generator
    )
    content = definitions["$defs"]
    for family, members in families.items():
        for kind, model in members.items():
            definition = content[_name(placed[model, "validation"])]
            kind_schema = {"const": kind, "description": _summary(model)}
            definition["properties"] = {"kind": kind_schema, **definition.get("properties", {})}
            definition["required"] = ["kind", *definition.get("required", [])]
        places = {kind: placed[model, "validation"] for kind, model in members.items()}
        content[_key(family)] = _choice(family, members, places)
    scenario = content.pop(_name(placed[Scenario, "validation"]))
    whole = {"$schema": DIALECT, **scenario, "title": "A netfl scenario", "definitions": dict(sorted(content.items()))}
    return dict(_finished(whole))


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(scenario_schema(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _name(reference: JsonSchemaValue) -> str:
    return str(reference["$ref"]).removeprefix("#/definitions/")


def _key(family: str) -> str:
    return family.replace("/", ".")


def _choice(family: str, models: dict[str, type[Spec]], places: dict[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Return the schema of a member of a family: a kind, if it needs no other keys, or a mapping."""
    bare = []
    for kind, model in models.items():
        if not any(field.is_required() for field in model.model_fields.values()):
            bare.append(kind)
    outside = {
        "type": "object",
        "properties": {"kind": _OUTSIDE},
        "required": ["kind"],
        "description": _OUTSIDE["description"],
    }
    words = []
    if bare:
        words = [{"enum": bare, "description": f"A kind of {family} that needs no other keys."}]
    short = [_short_form(kind, model.short_key, places[kind]) for kind, model in models.items() if model.short_key]
    return {
        "description": _summary(inspect.getmodule(base_of(family))),
        "anyOf": [*words, *places.values(), *short, outside, _OUTSIDE],
    }


def _short_form(kind: str, key: str, place: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of ``{KIND: VALUE}``, with the value of *key*."""
    value = {"$ref": f"{place['$ref']}/properties/{key}"}
    return {"type": "object", "properties": {kind: value}, "required": [kind], "additionalProperties": False}


def _summary(thing: Any) -> str:
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    if inspect.ismodule(thing):  # of a family: the contract stands after a colon
        first = first.partition(": ")[2] or first
    return _plain(first)


def _plain(text: str) -> str:
    """Return the first paragraph of a docstring in one line, without its markup."""
    first = text.partition("\n\n")[0]
    first = re.sub(r"\*\*|``", "", first)
    return re.sub(r"\s+", " ", first).strip()


def _finished(value: Any) -> Any:
    if isinstance(value, list):
        return [_finished(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return dict(_entries(value))


def _entries(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    unit = value.get("$unit")
    for key, entry in value.items():
        if key == "$family":
            yield "$ref", f"#/definitions/{_key(entry)}"
        elif key == "description" and isinstance(entry, str):
            description = _plain(entry)
            if unit:
                description += f" In {unit}."
            yield key, description
        elif key == "prefixItems":  # as draft 7 calls them
            yield "items", _finished(entry)
        elif key in _BOUNDS and isinstance(entry, int | float):  # pydantic's, of a quantity
            yield _BOUNDS[key], entry
        elif key in {"minLength", "maxLength"} and value.get("type") != "string":  # pydantic's, of a list read before
            yield key.replace("Length", "Items"), entry
        elif key != "$unit" and not (key == "title" and isinstance(entry, str) and "$schema" not in value):
            yield key, _finished(entry)
    if unit and "description" not in value:
        yield "description", f"In {unit}, or a text with a unit."
