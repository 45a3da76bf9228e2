"""Scenario files as data: line numbers, paths set by options, and whatever YAML can be got wrong."""

# ruff: noqa: E501 - a message that is pinned stands on one line

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfl.errors import Fault, ScenarioError
from netfl.network import files
from netfl.scenario.yaml_document import ScenarioDocument, dump, parse, plain_value, read

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
def test_a_key_stands_on_its_line_or_near(document, key, line):
    assert document.where(key) == f"{document.name}:{line}"


@pytest.mark.parametrize("key", ["", "users", "usrs.x"])
def test_a_key_that_is_nowhere_stands_in_the_file(document, key):
    assert document.where(key) == document.name


def test_the_data_are_plain(document):
    assert document.data["access"]["rho"] == [0.5, 0.5]

    def kinds(value):
        yield type(value)
        for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from kinds(entry)

    assert set(kinds(document.data)) == {dict, list, str, float, int}


def test_faults_come_in_the_order_of_the_file_and_once(document):
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
def test_a_path_can_be_set(document, path, value, get):
    document.put(path, value, "--set it")
    assert get(document.data) == value
    assert document.where(path) == "--set it"


def test_a_bare_kind_becomes_a_mapping_when_a_key_below_it_is_set(document):
    document.put("access.outages.1.trough", 0.1, "--set it")
    assert document.data["access"]["outages"][1] == {"kind": "diurnal", "trough": 0.1}


def test_what_an_option_replaces_stands_where_the_option_says(document):
    document.put("access", {"kind": "cyclic", "rho": 3}, "--set it")
    assert document.where("access.rho") == "--set it"
    assert document.where("access.outages.0.up") == "--set it"


def test_what_an_option_brings_into_being_stands_there_with_its_parents(document):
    document.put("acess.mac.kind", "tdma", "--set it")
    assert document.where("acess") == "--set it"


def test_a_section_without_content_can_be_filled(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("access:\nname: x\n")
    document = read(path)
    document.put("access.kind", "cyclic", "--set it")
    assert document.data["access"] == {"kind": "cyclic"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("learners.A.lr.x", "--set it: learners.A.lr: has no keys below it (1); set it as a whole"),
        ("access.rho.2", "--set it: access.rho.2: no such entry of a list of 2 ('2'); entries count from 0"),
        ("access.rho.-1", "--set it: access.rho.-1: no such entry of a list of 2 ('-1'); entries count from 0"),
        (
            "access.rho.first",
            "--set it: access.rho.first: no such entry of a list of 2 ('first'); entries count from 0",
        ),
        ("access.outages.9.up", "--set it: access.outages.9: no such entry of a list of 2 ('9'); entries count from 0"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_fault(document, path, problem):
    with pytest.raises(ScenarioError) as raised:
        document.put(path, 1, "--set it")
    assert str(raised.value) == problem


INDENT = "indent all entries of a block alike, and begin each entry of a list with '- '"
CLOSE = "put commas between the entries, and close the bracket"
BAD = [
    (b"a: b: c\n", "{}:1: a second ': ' in one line ('a: b: c'); put a text that has a colon in quotes, or begin a new line"),
    (b"a:\n    b: 1\n  c: 1\n", "{}:3: the indentation does not fit the block that begins in line 1 ('c: 1'); " + INDENT),
    (b"a:\n  - 1\n  b: 2\n", "{}:3: the indentation does not fit the block that begins in line 2 ('b: 2'); " + INDENT),
    (b"a: 1\nusers:3\nb: 2\n", "{}:2: a line without 'key: value' ('users:3'); write a space after the colon"),
    (b"a: {b: 1\nc: 2\n", "{}:2: no comma, or no '}}' that closes the bracket of line 1 ('c: 2'); " + CLOSE),
    (b"a: [1, 2\nc: 2\n", "{}:2: no comma, or no ']' that closes the bracket of line 1 ('c: 2'); " + CLOSE),
    (b"a: }\n", "{}:1: '}}' where a value is wanted ('a: }}'); give a value, or put it in quotes"),
    (b"a:\tb\n", "{}:1: a tab, where YAML takes only spaces ('a:\\tb'); replace each tab by spaces"),
    (b"a: &\n", "{}:1: a text that begins with '*' or '&' ('a: &'); put the text in quotes"),
    (b"", "{}: the file is empty; start from a scenario of netfl's: netfl scenarios"),
    (b"# only a comment\n", "{}: the file is empty; start from a scenario of netfl's: netfl scenarios"),
    (b"just text\n", "{}: holds one value, not a mapping of keys to values; write 'key: value' lines"),
    (b"5\n", "{}: holds one value, not a mapping of keys to values; write 'key: value' lines"),
    (b"- a\n- b\n", "{}: holds a list, not a mapping of keys to values; write 'key: value' lines"),
    (b"\xff\xfe\x00", "{}: not a text in UTF-8: invalid start byte at byte 0; is it a YAML file?"),
    (b"a: 1\nb: \xe4\n", "{}: not a text in UTF-8: invalid continuation byte at byte 8; is it a YAML file?"),
    (b"a: [1,\n", "{}:1: a bracket is not closed ('a: [1,'); close it"),
    (b"a: 1\n b: 2\n", "{}:2: the line is indented below one that already has a value ('b: 2'); align both, or remove the value of the upper one"),
    (b"a:\n\tb: 1\n", "{}:2: a tab, where YAML takes only spaces ('b: 1'); replace each tab by spaces"),
    (b"a: 'x\n", "{}:1: a quote is not closed (\"a: 'x\"); end the text with the same quote"),
    (b"@a: 1\n", "{}:1: a text that begins with '@' ('@a: 1'); put the text in quotes"),
    (b"a: *b\n", "{}:1: a text that begins with '*', or an alias of no anchor &b ('a: *b'); put the text in quotes"),
    (b"a: 1\nb: 2\na: 3\n", "{}:3: a key stands here twice ('a'); leave one of them"),
    (b"a: 1\n---\na: 2\n", "{}:2: a second document, after a line '---' ('---'); put each scenario into a file of its own"),
    (b"a: \x00\n", "{}: not YAML: unacceptable character #x0000: special characters are not allowed; remove control characters, and save the file as UTF-8 text"),
    (b"a: !!python/object:os.system {}\n", "{}:1: a YAML tag, which means nothing here; leave it out"),
    (b"!scenario\na: 1\n", "{}:1: a YAML tag, which means nothing here; leave it out"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD, ids=range(len(BAD)))
def test_a_file_that_is_no_scenario_is_told_in_one_line(tmp_path, content, message):
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as raised:
        read(path)
    assert str(raised.value) == message.format(path)


def test_a_large_scenario_is_written_as_json_and_reads_back():
    data = {"name": "x: [y", "list": [index / 7 for index in range(300_000)], "k": {"ä": None, "b": True}}
    text = dump(data)
    assert text.startswith('{\n"name"')
    assert plain_value(parse(text, "n")) == data  # more than MAX_BYTES and MAX_VALUES, for which YAML is refused
    with pytest.raises(ScenarioError, match=r"n: larger than 4 MB"):
        parse("#" + text, "n")


def test_a_large_text_that_is_nearly_json_is_explained_as_yaml():
    filler = f'"a": "{"x" * 99_000}",\n"b": "{"x" * 2000}",\n'
    for end, message in (('"a": 1}', "n:4: a key stands here twice"), ('"c": [1}', "n:4: no comma, or no ']'")):
        with pytest.raises(ScenarioError, match=message):
            parse("{\n" + filler + end, "n")
    with pytest.raises(ScenarioError, match="nested too deep"):
        parse('{"a": ' + "[" * 60_000 + "]" * 60_000 + "}", "n")


def test_a_scenario_that_could_not_be_read_back_is_not_written(monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 150_000)
    with pytest.raises(
        ScenarioError, match=r"takes 0\.2 MB as text, and 0\.15 MB can be read back; put long lists into"
    ):
        dump({"a": "x" * 200_000})


def test_a_file_that_nests_too_deep_is_told(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("a: " + "[" * 400 + "]" * 400)
    with pytest.raises(ScenarioError, match=r"s\.yaml: nested too deep; write it flatter"):
        read(path)


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    with pytest.raises(ScenarioError, match=r"no\.yaml: there is no such file; check the path$"):
        read(tmp_path / "no.yaml")
    with pytest.raises(ScenarioError, match=r"cannot be read: Is a directory; check the path and its permissions$"):
        read(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ScenarioError, match=r"cannot be read: Not a directory"):
        read(tmp_path / "file" / "s.yaml")


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\r\nusers:\r\n  - 5\r\n")
    document = read(path)
    assert document.data == {"name": "x", "users": [5]}
    assert document.where("users.0").endswith(":3")


def test_anchors_and_merges_are_resolved_into_copies():
    data = plain_value(parse("a: &a {x: [1]}\nb: {<<: *a, y: 2}\nc: *a\n", "n"))
    assert data == {"a": {"x": [1]}, "b": {"x": [1], "y": 2}, "c": {"x": [1]}}
    data["c"]["x"].append(5)
    assert data["a"]["x"] == [1]


@pytest.mark.parametrize("text", ["access: &a\n  b: *a\n", "a: &a [1, *a]\n"])
def test_an_anchor_within_itself_ends(text):
    assert isinstance(plain_value(parse(text, "n")), dict)


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
def test_what_is_dumped_reads_back_the_same(data):
    assert plain_value(parse(dump(data), "n")) == data


def test_where_a_document_was_read_makes_no_difference():
    assert ScenarioDocument({"a": 1}, "here") == ScenarioDocument({}, "there", {"a": "x:1"})


def test_signs_that_yaml_once_meant_something_by_are_texts(tmp_path):
    path = tmp_path / "signs.yaml"
    path.write_text("name: =\nlearners: [<<, =]\n")
    data = read(path).data
    assert data == {"name": "=", "learners": ["<<", "="]}
    path.write_text(dump(data))
    assert read(path).data == data


def test_the_place_of_an_error_behind_many_empty_lines_is_found_at_once():
    """The text is cut into lines once, and not for each line."""

    class Counted(str):
        splits = 0

        def split(self, *said):
            Counted.splits += 1
            return super().split(*said)

    with pytest.raises(ScenarioError, match=r"f\.yaml:1: a bracket is not closed"):
        parse(Counted("a: [" + "\n" * 500), "f.yaml")
    assert Counted.splits == 1
