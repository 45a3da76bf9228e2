"""The output of ``netfl list`` on a terminal."""

import sys
import textwrap
from pathlib import Path

import pytest
from rich.cells import cell_len
from support.error_messages import assert_messages
from typer.testing import CliRunner

from netfl.cli import app
from netfl.cli.views.model_list import keys_of
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.learning.data import _download
from netfl.scenario.scenario import Scenario

MINE = '''\
import numpy as np
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.types import Law


class Mine(SnrThreshold):
    """A threshold of ``my`` own, whose first paragraph is long enough to be wrapped again on every terminal there is.

    - one: of two things that are listed, and described at such a length that they take two lines.
    - two: short

        as it stands

    Example::

        {example}
    """

    def laws(self):
        draw = lambda streams, size: np.zeros(size)
        return (Law("share", "none at all", draw, mean=0.0, cdf=lambda x: x >= 0), Law.none("or no law"))
'''


def listed(*arguments, columns=80, monkeypatch=None):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = CliRunner().invoke(app, ["list", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, "\n".join(line.rstrip() for line in result.output.splitlines())


@pytest.fixture
def write_model(tmp_path, monkeypatch):
    """Return a function that writes a module with a user-defined model ``Mine``."""

    def write(name, example):
        (tmp_path / f"{name}.py").write_text(MINE.replace("{example}", example))

    monkeypatch.syspath_prepend(tmp_path)
    return write


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit_the_terminal(monkeypatch, columns):
    for arguments in [
        (),
        ("channel",),
        ("scenario",),
        *(("reception", kind) for kind in list_kinds(base_of("network/reception"))),
    ]:
        code, output = listed(*arguments, columns=columns, monkeypatch=monkeypatch)
        assert code == 0
        assert max(map(cell_len, output.splitlines())) <= columns


def test_properties_are_listed_with_their_values(monkeypatch):
    assert listed("access", "bernoulli", monkeypatch=monkeypatch)[1].endswith(
        textwrap.dedent("""
        Stated properties, for the example
          user available in round 1
            Bernoulli(p), independent from round to round
            mean      0.3
            variance  0.21""")
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_property_of_every_model_is_printed(monkeypatch, family):
    for kind in list_kinds(base_of(family)):
        code, output = listed(family, kind, columns=200, monkeypatch=monkeypatch)
        assert code == 0
        assert output.partition("Stated properties, for the example")[2].strip()
        assert [name for name in find_model(base_of(family), kind).model_fields if f"  {name}: " not in output] == []


def test_user_defined_model_is_listed(monkeypatch, write_model):
    write_model("my_catalogued", "{kind: my_catalogued:Mine, threshold: 2 dB, rate: 1000}")
    output = listed("reception", "my_catalogued:Mine", monkeypatch=monkeypatch)[1]
    description, _, keys = output.partition("\n\nKeys\n")
    assert description == (
        "my_catalogued:Mine\n"
        "A threshold of my own, whose first paragraph is long enough to be wrapped again\n"
        "on every terminal there is.\n"
        "\n"
        "- one: of two things that are listed, and described at such a length that they\n"
        "  take two lines.\n"
        "- two: short\n"
        "\n"
        "    as it stands\n"
        "\n"
        "Example\n"
        "  {kind: my_catalogued:Mine, threshold: 2 dB, rate: 1000}"
    )
    assert keys.partition("Stated properties, for the example\n")[2] == (
        "  share\n    none at all\n    distribution  P(X ≤ x) in closed form\n    mean          0\n  none  or no law"
    )


def test_keys_of_a_model_without_an_example_are_listed(monkeypatch, write_model):
    write_model("my_bare", "")
    path = Path(sys.path[0]) / "my_bare.py"
    path.write_text(path.read_text().replace("    Example::\n", ""))
    code, output = listed("reception", "my_bare:Mine", monkeypatch=monkeypatch)
    assert code == 0
    assert "Example\n" not in output
    assert "Keys\n  threshold: " in output
    assert output.endswith("\n\nTo list its properties, add an Example:: to its docstring.")


def test_invalid_examples_are_reported(monkeypatch, write_model):
    write_model("mine_bad", "{kind: mine_bad:Mine, threshold: 2 dB, rat: 1000}")
    code, output = listed("reception", "mine_bad:Mine", monkeypatch=monkeypatch)
    assert code == 2
    assert "the example of mine_bad:Mine: rat" in output
    write_model("mine_odd", "kind: [")
    code, output = listed("reception", "mine_odd:Mine", monkeypatch=monkeypatch)
    assert (code, output.split(":", 1)[0]) == (2, "the example of mine_odd")


def test_unknown_names_are_reported(monkeypatch):
    for arguments, message in (
        (("scenario", "users"), "the keys of a scenario … ('users') … netfl list scenario"),
        (("chanel",), "no such family ('chanel') … 'channel'"),
        (("channel", "raileigh"), "no such channel: 'raileigh' … 'rayleigh'"),
    ):
        code, output = listed(*arguments, columns=120, monkeypatch=monkeypatch)
        assert code == 2
        assert_messages([output], [message])


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_keys_are_never_wrapped(monkeypatch, columns):
    """A key that is cut off or wrapped cannot be copied."""
    for arguments, model in [
        (("scenario",), Scenario),
        (("access", "network"), find_model(base_of("access"), "network")),
    ]:
        _, output = listed(*arguments, columns=columns, monkeypatch=monkeypatch)
        shown = {line.strip().split(":")[0] for line in output.splitlines()}
        assert {key for key, *_ in keys_of(model, "")} <= shown


@pytest.mark.parametrize("columns", [40, 80])
def test_folders_and_addresses_of_data_sets_are_never_wrapped(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = CliRunner().invoke(app, ["data", "list"]).output.splitlines()
    for dataset in _download.list_datasets():
        assert f"    folder: {dataset.folder}" in lines
        assert any(line.startswith("    source: ") and line.endswith(str(dataset[-1])) for line in lines)
