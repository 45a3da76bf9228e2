"""YAML that no scenario has: each error names the file, the line and the key."""

import re

import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.scenario.yaml_document import parse, read_text

HEAD = """name: x
users: 5
rounds: 3
access: {kind: stationary, deliveries: 1, rho: {zipf: 1.0}}
"""
"""Four correct lines."""
_DEEP = 150
REFUSED = {
    "null key": ("~: 1", 5, "", "a key is empty (~)"),
    "word null": ("null: 1", 5, "", "a key is empty (null)"),
    "empty key": (": 1", 5, "", "a key is empty (nothing)"),
    "null key in a section": ("partition:\n  kind: iid\n  ~: 2", 7, "partition", "a key is empty"),
    "list as key": ("partition:\n  [a, b]: 1", 6, "partition", "a list is used as a key"),
    "long list as key": ("? - a\n  - b\n: 1", 5, "", "a list is used as a key"),
    "mapping as key": ("description: {{name}: 1}", 5, "description", "a mapping is used as a key"),
    "template": ("description: {{ name }}", 5, "description", "a mapping is used as a key"),
    "alias of a list as key": ("description: &a [b]\npartition:\n  *a : 1", 5, "partition", "a list is used as a key"),
    "self-alias in a list": ("description: &a [*a]", 5, "description.0", "an alias is inside of what it stands for"),
    "self-alias in a mapping": ("partition: &a\n  kind: iid\n  b: *a", 7, "partition.b", "an alias is inside"),
    "self-alias far below": ("partition: &a\n  b:\n  - c: *a", 7, "partition.b.0.c", "an alias is inside"),
    "self-merge": ("partition: &a\n  <<: *a", 6, "partition.<<", "an alias is inside"),
    "2 and text 2": ("partition:\n  2: a\n  x: b\n  '2': c", 8, "partition.2", "the key '2' is in line 6 already"),
    "2 and 0x2": ("partition: {2: a, 0x2: c}", 5, "partition.2", "the key '2' is in line 5 already"),
    "twice": ("users: 6", 5, "users", "the key 'users' is in line 2 already"),
    "set": ("description: !!set {a, b}", 5, "description", "the tag !!set is not one of this value"),
    "pairs": ("description: !!omap [a: 1]", 5, "description", "the tag !!omap is not one"),
    "date": ("description: !!timestamp 2020-01-01", 5, "description", "the tag !!timestamp is not one"),
    "binary": ("description: !!binary aGVsbG8=", 5, "description", "the tag !!binary is not one"),
    "Python": ("description: !!python/name:os.system x", 5, "description", "the tag !!python/name:os.system is not"),
    "own tag": ("description: !mine x", 5, "description", "the tag !mine is not one"),
    "wrong integer": ("partition:\n  kind: !!int abc", 6, "partition.kind", "the tag !!int says that this is a whole"),
    "wrong float": ("partition:\n  kind: !!float abc", 6, "partition.kind", "the tag !!float says that this is a numb"),
    "wrong bool": ("partition:\n  kind: !!bool abc", 6, "partition.kind", "the tag !!bool says that this is true or"),
    "wrong null": ("partition:\n  kind: !!null abc", 6, "partition.kind", "the tag !!null says that this is null"),
    "mapping tag at a list": ("partition: !!map [a]", 5, "partition", "the tag !!map is not one of this value"),
    "tag of a key": ("partition:\n  !!int a: 1", 6, "partition", "the tag !!int says that this is a whole number"),
    "merge of a number": ("partition:\n  <<: 5", 6, None, "expected a mapping"),
    "deep brackets": (f"\ndescription: {'[' * _DEEP}{']' * _DEEP}", 6, None, "more than 100 lists and mappings"),
    "very deep brackets": (f"\ndescription: {'[' * 100_000}", 6, None, "more than 100 lists and mappings"),
    "deep indents": ("\n" + "\n".join(f"{' ' * level}a:" for level in range(_DEEP)), 106, None, "more than 100 lists"),
    "deep aliases": (
        "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, _DEEP))]),
        104,
        None,
        "more than 100 lists and mappings",
    ),
    "many aliases": (
        "\n".join(["a0: &a0 [1, 1]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30))]),
        21,
        None,
        "more than 250,000 keys and values",
    ),
    "control character": ("description: a\x01b", 5, None, "special characters are not allowed"),
    "alias of nothing": ("description: *nothing", 5, None, "undefined alias"),
    "second document": ("---\nname: y", 5, None, "expected a single document"),
    "tab": ("partition:\n\tkind: iid", 6, None, "invalid YAML"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_error_names_line_and_key(tmp_path, case):
    text, line, key, problem = case
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(ScenarioError) as error:
        netfl.load(path)
    message = str(error.value)
    assert len(error.value.faults) == 1
    assert re.match(rf"{re.escape(str(path))}:{line}[:0-9]*: ", message), message
    assert problem in message
    assert error.value.faults[0].remedy
    if key is not None:
        assert error.value.faults[0].key == key
        assert f": {key}: {problem}" in message or not key
    assert len(message.splitlines()) == 1


def test_option_has_no_lines():
    with pytest.raises(ScenarioError, match=r"^--set: a key is empty") as error:
        parse("{~: 1}", "--set")
    assert error.value.faults[0].where == "--set"


def test_key_has_its_line_however_it_is_written():
    text = "a: {0x10: 1, +5: 2, 007: 3, TRUE: 4, 1.50: 5, 1e3: 6, '8': 7, no: 8}\n"
    document = read_text(f"name: x\n{text}", "s.yaml")
    assert document.data["a"] == {"16": 1, "5": 2, "7": 3, "TRUE": 4, "1.50": 5, "1e3": 6, "8": 7, "no": 8}
    assert {key for key in document.places if key.startswith("a.")} == {f"a.{key}" for key in document.data["a"]}
    assert set(document.places.values()) == {"s.yaml:1", "s.yaml:2"}


def test_merged_mapping_yields_to_own_keys_however_they_are_written():
    document = read_text("base: &b {2: a, c: d}\nown:\n  <<: *b\n  '2': e\n", "s.yaml")
    assert document.data["own"] == {"2": "e", "c": "d"}
    assert document.where("own.2") == "s.yaml:4"
    assert document.where("own.c") == "s.yaml:1"


def test_anchor_of_a_key_keeps_its_value():
    assert parse("a: {&n 5: x}\nb: *n\n", "s.yaml") == {"a": {"5": "x"}, "b": 5}


def test_last_anchor_of_a_name_counts():
    assert parse("a: &n 1\nb: *n\nc: &n 2\nd: *n\n", "s.yaml") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_nesting_up_to_the_limit_is_read():
    value = parse("[" * 100 + "]" * 100, "s.yaml")
    for _ in range(99):
        (value,) = value
    assert value == []
