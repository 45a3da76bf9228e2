"""Scenario files as data: line numbers, paths set by options, and syntax errors."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.error_messages import assert_messages

from netfl.errors import Fault, ScenarioError
from netfl.scenario.yaml_document import ScenarioDocument, dump, parse, read

TEXT = """\
# a comment
name: x

access:
  kind: stationary
  rho: [0.5,
        0.5]
  outages:
    - kind: renewal
      up: 5
    - diurnal
learners: {A: {lr: 1}, "B C": {lr: 2}}
"""


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(TEXT)
    return read(path)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("name", 2),
        ("access", 4),
        ("access.kind", 5),
        ("access.rho", 6),
        ("access.rho.0", 6),
        ("access.rho.1", 7),
        ("access.outages", 8),
        ("access.outages.0", 9),
        ("access.outages.0.up", 10),
        ("access.outages.1", 11),
        ("learners.A.lr", 12),
        ("learners.B C.lr", 12),
        ("access.mac.probability", 4),
        ("access.outages.0.down.law", 9),
    ],
)
def test_where_returns_the_line_of_a_key(document, key, line):
    assert document.where(key) == f"{document.name}:{line}"


@pytest.mark.parametrize("key", ["", "users", "usrs.x"])
def test_where_returns_the_file_for_unknown_keys(document, key):
    assert document.where(key) == document.name


def test_data_have_plain_types(document):
    assert document.data["access"]["rho"] == [0.5, 0.5]

    def kinds(value):
        yield type(value)
        for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from kinds(entry)

    assert set(kinds(document.data)) == {dict, list, str, float, int}


def test_errors_are_sorted_by_line_and_unique(document):
    faults = [Fault("learners.A.lr", "low"), Fault("name", "odd"), Fault("users", "missing"), Fault("name", "odd")]
    located = document.located(faults)
    assert [fault.key for fault in located] == ["users", "name", "learners.A.lr"]
    assert str(located[1]) == f"{document.name}:2: name: odd"


@pytest.mark.parametrize(
    ("path", "value", "get"),
    [
        ("users", 5, lambda data: data["users"]),
        ("name", "y", lambda data: data["name"]),
        ("access.rho.1", 0.7, lambda data: data["access"]["rho"][1]),
        ("access.rho", {"zipf": 1}, lambda data: data["access"]["rho"]),
        ("access.outages.0.up", 7, lambda data: data["access"]["outages"][0]["up"]),
        ("access.outages.1", "regional", lambda data: data["access"]["outages"][1]),
        ("access.outages.1.trough", 0.1, lambda data: data["access"]["outages"][1]["trough"]),
        ("access.mac.probability", 0.1, lambda data: data["access"]["mac"]["probability"]),
        ("learners.B C.lr", 3, lambda data: data["learners"]["B C"]["lr"]),
        ("a.b.c.d", None, lambda data: data["a"]["b"]["c"]["d"]),
    ],
)
def test_put_sets_a_path(document, path, value, get):
    document.put(path, value, "--set it")
    assert get(document.data) == value
    assert document.where(path) == "--set it"


def test_put_below_a_kind_makes_a_mapping(document):
    document.put("access.outages.1.trough", 0.1, "--set it")
    assert document.data["access"]["outages"][1] == {"kind": "diurnal", "trough": 0.1}


def test_replaced_keys_are_located_at_the_option(document):
    document.put("access", {"kind": "cyclic", "rho": 3}, "--set it")
    assert document.where("access.rho") == "--set it"
    assert document.where("access.outages.0.up") == "--set it"


def test_new_keys_and_parents_are_located_at_the_option(document):
    document.put("acess.mac.kind", "tdma", "--set it")
    assert document.where("acess") == "--set it"


def test_put_fills_an_empty_section(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("access:\nname: x\n")
    document = read(path)
    document.put("access.kind", "cyclic", "--set it")
    assert document.data["access"] == {"kind": "cyclic"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("learners.A.lr.x", "--set it: learners.A.lr: … no keys below … (1)"),
        ("access.rho.2", "--set it: access.rho.2: … list of 2 … ('2')"),
        ("access.rho.-1", "--set it: access.rho.-1: … list of 2 … ('-1')"),
        (
            "access.rho.first",
            "--set it: access.rho.first: … list of 2 … ('first')",
        ),
        (
            "access.outages.9.up",
            "--set it: access.outages.9: … list of 2 … ('9')",
        ),
    ],
)
def test_put_of_an_invalid_path_is_an_error(document, path, problem):
    with pytest.raises(ScenarioError) as error:
        document.put(path, 1, "--set it")
    assert_messages([str(error.value)], [problem])


BAD = [
    (b"a: b: c\n", "{}:1:5: invalid YAML: … mapping values … check indentation"),
    (b"a:\n    b: 1\n  c: 1\n", "{}:3:3: invalid YAML: … from line 1 on: … <block end> … check indentation"),
    (b"a: 1\nusers:3\nb: 2\n", "{}:2: no space after the colon ('users:3'); write 'users: 3'"),
    (b"a: {b: 1\nc: 2\n", "{}:2:2: invalid YAML: … from line 1 on: … got ':' … check indentation"),
    (b"a:\tb\n", "{}:1:3: invalid YAML: … '\\t' … check indentation"),
    (b"a: 1\nb: 2\na: 3\n", "{}:3: a: … 'a' … line 1 … leave one of them out"),
    (b"a: !!python/object:os.system {}\n", "{}:1: a: … !!python/object:os.system … leave the tag out"),
    (b"", "{}: … empty … netfl scenarios"),
    (b"# only a comment\n", "{}: … empty … netfl scenarios"),
    (b"just text\n", "{}: … one value … 'key: value'"),
    (b"- a\n- b\n", "{}: … a list … 'key: value'"),
    (b"\xff\xfe\x00", "{}: not UTF-8 … at byte 0"),
    (b"a: \x00\n", "{}:1: invalid YAML: … #x0000 … text file"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD, ids=range(len(BAD)))
def test_invalid_file_gives_a_one_line_error(tmp_path, content, message):
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as error:
        read(path)
    assert_messages([str(error.value)], [message.replace("{}", str(path), 1)])


def test_large_scenario_is_written_as_json():
    data = {"name": "x: [y", "list": [index / 7 for index in range(300_000)], "k": {"ä": None, "b": True}}
    text = dump(data)
    assert text.startswith('{\n"name"')
    assert parse(text, "n") == data  # more than MAX_BYTES, for which YAML is refused
    with pytest.raises(ScenarioError, match=r"n: larger than 4 MB"):
        parse("#" + text, "n")


def test_missing_file_and_folder_are_errors(tmp_path):
    with pytest.raises(ScenarioError, match=r"no\.yaml: .* does not exist; .* netfl scenarios"):
        read(tmp_path / "no.yaml")
    with pytest.raises(ScenarioError, match=r"it is a folder, not a scenario; check the path"):
        read(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match=r"cannot be read: Not a directory"):
        read(tmp_path / "file" / "s.yaml")


def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\r\nusers:\r\n  - 5\r\n")
    document = read(path)
    assert document.data == {"name": "x", "users": [5]}
    assert document.where("users.0").endswith(":3")


def test_anchors_and_merges_become_copies():
    data = parse("a: &a {x: [1]}\nb: {<<: *a, y: 2}\nc: *a\n", "n")
    assert data == {"a": {"x": [1]}, "b": {"x": [1], "y": 2}, "c": {"x": [1]}}
    data["c"]["x"].append(5)
    assert data["a"]["x"] == [1]


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:?# -\n1.", max_size=4), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@pytest.mark.slow
def test_dump_and_parse_restore_the_data(data):
    assert parse(dump(data), "n") == data


def test_location_of_a_document_does_not_affect_equality():
    assert ScenarioDocument({"a": 1}, "here") == ScenarioDocument({}, "there", {"a": "x:1"})


def test_exponential_aliases_are_refused():
    """About 400 characters with six levels of ten aliases expand to a million values."""
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 7)]
    text = "\n".join(["a0: &a0 [1]", *levels])
    with pytest.raises(ScenarioError, match="more than 250,000 keys and values"):
        parse(text, "bomb.yaml")


def test_alias_means_the_last_anchor_before_it():
    """Without a warning, as YAML 1.2.2 §7.1 defines it."""
    with warnings.catch_warnings(action="error"):
        data = parse("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "anchors.yaml")
    assert data == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_recursive_alias_is_refused():
    with pytest.raises(ScenarioError, match=r"loop.yaml:1: a.0: an alias is inside"):
        parse("a: &a [*a]", "loop.yaml")


PLAIN_VALUES = [
    ("8", 8), ("+8", 8), ("-3", -3), ("010", 10), ("0o17", 15), ("0x1F", 31),
    ("1e3", 1000.0), ("2000.0", 2000.0), (".5", 0.5), ("5.", 5.0), ("-1.5E-3", -0.0015), ("1e400", float("inf")),
    ("true", True), ("FALSE", False), ("~", None), ("Null", None), ("", None),
    ("1_0", "1_0"), ("1_0.5", "1_0.5"), ("0b11", "0b11"), ("1,5", "1,5"), ("10 %", "10 %"), ("'8'", "8"),
    ("yes", "yes"), ("off", "off"), ("1:30", "1:30"), ("2024-03-01", "2024-03-01"), ("=", "="), ("tRue", "tRue"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), PLAIN_VALUES)
def test_plain_values_follow_the_core_schema(text, value):
    """YAML 1.2.2, section 10.3.2."""
    data = parse(f"a: {text}\n", "n")["a"]
    assert (data, type(data)) == (value, type(value))


def test_file_that_states_version_1_1_has_no_other_numbers_and_booleans():
    assert parse("%YAML 1.1\n---\n[yes, 1:30, 1_0, 2.5]\n", "n") == ["yes", "1:30", "1_0", 2.5]


@pytest.mark.parametrize(
    "digits", ["9" * 5000, "0x" + "f" * 100_000, "0o" + "7" * 5000], ids=["decimal", "hex", "octal"]
)
def test_integer_of_thousands_of_digits_remains_text(digits):
    assert parse(f"seed: {digits}\n", "n") == {"seed": digits}


def test_key_that_occurs_twice_is_refused():
    with pytest.raises(ScenarioError, match=r"n:1: a.2: the key '2' is in line 1 already"):
        parse("a: {2: x, '2': y}\n", "n")
    pairs = ", ".join(f'"k{number}": {number}' for number in range(20_000))
    with pytest.raises(ScenarioError, match="n: invalid JSON: the key 'k5' occurs 2 times"):
        parse(f'{{{pairs}, "k5": 1}}', "n")  # large enough to be read as JSON
