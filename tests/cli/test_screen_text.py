"""Text from files that reaches a terminal: no control characters, and only characters that the terminal has."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.cli.views import new_table
from netfl.core.screen import SafeConsole
from netfl.errors import Fault, ScenarioError, printable
from netfl.scenario.scenario import Name

CONTROLS = [
    "\x1b[31m", "\x07", "\x00", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\u061c",
    "\ufeff",
]  # fmt: skip
"""A colour, a bell, C1 codes, separators of lines, and marks that reorder text."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

hostile_texts = st.text(
    st.sampled_from([*"ab .:-\n\t", *(control[0] for control in CONTROLS)]) | st.characters(codec="utf-8"),
    min_size=1,
    max_size=8,
)


def check(folder, settings, name="s.yaml"):
    """Return all that ``netfl check`` prints about *settings*."""
    path = folder / name
    path.write_text(json.dumps(settings), encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


SETTINGS = {"name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}


def hostile_settings(text):
    """Yield scenarios with *text* as a key, a kind, a name, a value and an axis of a sweep."""
    yield SETTINGS | {text: 1}
    yield SETTINGS | {"access": {"kind": text}}
    yield SETTINGS | {"access": {"kind": f"{text}:{text}"}}
    yield SETTINGS | {"access": SETTINGS["access"] | {text: {text: text}}}
    yield SETTINGS | {"name": text, "users": text}
    yield SETTINGS | {"learners": {text: {text: text}}}
    yield SETTINGS | {"sweep": {text: [1, 2], "exclude": text}, "overrides": {text: {text: text}}}


@pytest.mark.parametrize("text", CONTROLS)
@pytest.mark.quick_first
def test_no_control_characters_reach_the_terminal(tmp_path, text):
    for settings_ in hostile_settings(f"k{text}k"):
        output = check(tmp_path, settings_)
        assert not UNSAFE.search(output), (settings_, output)


@given(hostile_texts)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@pytest.mark.slow
def test_no_text_of_a_scenario_reaches_the_terminal_unsafe(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("hostile")
    for settings_ in hostile_settings(text):
        assert not UNSAFE.search(check(folder, settings_))


def test_names_of_files_are_escaped(tmp_path):
    output = check(tmp_path, SETTINGS, name="a\x1b[31m\n\u202eb.yaml")
    assert not UNSAFE.search(output)
    assert r"a\x1b[31m" in output


@given(hostile_texts)
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_error_is_one_line_without_control_characters(text):
    message = str(Fault(text, text, text, text, text))
    assert not UNSAFE.search(message)
    assert len(message.splitlines()) == 1
    assert printable(message) == message


@given(hostile_texts)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_console_prints_text_safely_in_every_encoding(text):
    for encoding in ("utf-8", "cp1252", "latin-1", "ascii"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
        console = SafeConsole(file=stream, width=80, markup=False)
        table = new_table("key", "value")
        table.add_row(text, text)
        console.print(text)
        console.print(table)
        stream.flush()
        assert not UNSAFE.search(stream.buffer.getvalue().decode(encoding))


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", "1\u202f466 é → x²"), ("ascii", "1 466 ? ? x2")])
def test_missing_characters_have_their_plain_form(encoding, expected):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    SafeConsole(file=stream, width=80, markup=False).print("1\u202f466 é → x²")
    stream.flush()
    assert stream.buffer.getvalue().decode(encoding).rstrip() == expected


@pytest.mark.parametrize("text", CONTROLS)
def test_names_refuse_control_characters(text):
    for name in (f"a{text}", f"a{text}b"):
        with pytest.raises(ValidationError):
            TypeAdapter(Name).validate_python(name)
    sets = SETTINGS | {"evaluate": {"sets": {f"a{text}b": {}}, "choose": {f"a{text}b": {}}}}
    with pytest.raises(ScenarioError) as raised:
        netfl.load(sets)
    assert str(raised.value).count("not usable as a name") == 2
    assert TypeAdapter(Name).validate_python("ü 名前 é") == "ü 名前 é"


NAMED = """\
name: ü
users: 6
rounds: 3
replicas: 2
access: {kind: bernoulli, probability: 0.5}
data: {kind: blobs, centers: [[0, 0], [3, 3]], samples: 40}
partition: iid
model: logistic
learners: {Größe → 名: {objective: erm, aggregation: average, local_epochs: 1, batch_size: 16, lr: 0.05}}
"""


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii"])
@pytest.mark.slow
def test_missing_characters_of_the_terminal_are_replaced(tmp_path, encoding):
    (tmp_path / "s.yaml").write_text(NAMED, encoding="utf-8")
    variables = os.environ | {
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": encoding,
        "PYTHONPATH": str(Path(netfl.__file__).parents[1]),
    }
    for arguments in (
        ["run", "s.yaml", "--out", "r"],
        ["check", "s.yaml"],
        ["--help"],
        ["list", "channel", "rayleigh"],
    ):
        command = [sys.executable, "-m", "netfl", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
    assert netfl.open_run(tmp_path / "r").manifest["status"] == "done"
