"""Errors of user-defined channels and MACs: one line with location, key, class and remedy, without a traceback."""

# ruff: noqa: E501 - each expected message is on one line

import itertools
import textwrap

import pytest
from support.small_network import SECTION, as_yaml
from typer.testing import CliRunner

from netfl.cli import app

HEAD = """
import numpy as np
from netfl.network.channel import Channel, LinkGain, StaticGain, distance_gain
from netfl.network.mac import Mac
from netfl.types import Law
"""
_NUMBERS = itertools.count()
CHANNEL = """
class Own(Channel):
    def open(self, layout, streams):
        {body}
    def laws(self):
        return (Law.none("nothing is drawn"),)
"""
MAC = """
class Own(Mac):
    def serve(self, cell):
        {body}
    def laws(self):
        return (Law.none("nothing is drawn"),)
"""
FINITE = "return a finite number of dB for each user, [n]"


@pytest.fixture
def run_commands(tmp_path, monkeypatch):
    """Return a function that writes a model ``Own`` and a scenario, and yields the outputs of check and trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def outputs(code, key, **fields):
        name = f"own_network_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(HEAD + code)
        kind = {"kind": f"{name}:Own"}
        access = SECTION | {key: [*SECTION["channel"], kind] if key == "channel" else kind} | fields
        (tmp_path / "own.yaml").write_text(
            as_yaml(
                {
                    "name": "own",
                    "users": 4,
                    "rounds": 3,
                    "access": access | {"update_size": "1 kB", "compute": {"speed": 100, "samples": 100}},
                }
            )
        )
        for command in ("check", "trace"):
            result = CliRunner().invoke(app, [command, "own.yaml"])
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            assert "Traceback" not in result.output
            output = result.output.removeprefix("own.yaml: valid keys\n")  # before a dry run, which finds the mistake
            yield result.exit_code, output.replace(name, "own")

    return outputs


def body_of(template, body):
    return template.format(body=textwrap.indent(body, " " * 8).strip())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return None", "open() of own:Own gives None; return a LinkGain"),
        ("return np.zeros(layout.users)", "open() of own:Own gives ndarray; return a LinkGain"),
        ("return StaticGain(np.full(layout.users, np.nan))", f"gain_db() of own:Own gives nan for user 0, * m away; {FINITE}"),
        ("return distance_gain(layout, lambda distance_m: np.zeros((4, 2)))", f"gain_db() of own:Own gives the shape [4, 2] for 4 users; {FINITE}"),
        ("return distance_gain(layout, lambda distance_m: np.float64(3.0))", f"gain_db() of own:Own gives a single number for 4 users; {FINITE}"),
        ("return StaticGain(np.zeros(layout.users) - np.zeros(3))", "open() of own:Own fails: ValueError: operands could not be broadcast together with shapes (4,) (3,) (own.py, line 9); return a LinkGain"),
    ],
)  # fmt: skip
def test_channel_without_valid_gains_is_rejected(run_commands, body, problem):
    first, _, last = problem.partition("*")
    for code, output in run_commands(body_of(CHANNEL, body), "channel"):
        assert code == 2
        [line] = output.splitlines()
        assert line.startswith("own.yaml:")
        assert f": access.channel.1: {first}" in line
        assert line.endswith(last)


def test_open_with_missing_argument_is_rejected(run_commands):
    for code, output in run_commands(CHANNEL.replace(", streams", "").format(body="return StaticGain(0)"), "channel"):
        assert code == 2
        assert "access.channel.1: open() of own:Own fails: TypeError: Own.open() takes 2 positional" in output


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return None", "serve() is not a generator; yield events in it, such as cell.wait_for_backlog()"),
        ("yield cell.airtime_s", "serve() yields what is not an event (0.16); yield an event; to wait some seconds, cell.env.timeout(seconds)"),
        ("yield cell.wait_for_backlog()\ncell.attempt(cell.backlog()).sum()", "AttributeError: 'Timeout' object has no attribute 'sum' (own.py, line 10); write yield before cell.attempt() or cell.wait_for_backlog()"),
        ("yield cell.wait_for_backlog()\nyield cell.attempt(np.ones(4, bool))", "attempt() is given users of type bool ([True, True, True, True]); give a list of numbers, of a mask np.flatnonzero(mask)"),
        ("yield cell.wait_for_backlog()\nyield cell.attempt([9])", "attempt() is given users that are not in the cell ([9]); give numbers from 0 to 3, each once"),
        ("yield cell.wait_for_backlog()\nyield cell.attempt([-1])", "attempt() is given users that are not in the cell ([-1]); give numbers from 0 to 3, each once"),
        ("yield cell.wait_for_backlog()\nyield cell.attempt([1, 1])", "attempt() is given a user twice ([1, 1]); give numbers from 0 to 3, each once"),
        ("yield cell.env.timeout(200)\nyield cell.attempt([0], begin_s=cell.env.now - 100)", "attempt() is given begin_s=100, which lies 100 s before now ([0]); take next_slot and wait_until"),
    ],
)  # fmt: skip
def test_mac_that_violates_its_contract_is_rejected(run_commands, body, problem):
    for code, output in run_commands(body_of(MAC, body), "mac"):
        assert code == 2
        line = output.splitlines()[-1]
        assert line.startswith("own.yaml:")
        assert ": access.mac: own:Own, at " in line
        assert line.endswith(f" s of simulated time: {problem}")


def test_correct_slotted_mac_is_accepted(run_commands):
    body = """\
slot = -1
while True:
    yield cell.wait_for_backlog()
    slot = cell.next_slot(cell.airtime_s, after=slot)
    yield cell.wait_until(slot * cell.airtime_s)
    yield cell.attempt(cell.backlog()[:1], begin_s=slot * cell.airtime_s)"""
    assert [code for code, _ in run_commands(body_of(MAC, body), "mac")] == [0, 0]


def test_mac_may_catch_a_failed_event(run_commands):
    body = """\
failing = cell.env.event()
failing.fail(ValueError("on purpose"))
try:
    yield failing
except ValueError:
    pass
while True:
    yield cell.wait_for_backlog()
    yield cell.attempt(cell.backlog()[:1])"""
    assert [code for code, _ in run_commands(body_of(MAC, body), "mac")] == [0, 0]


@pytest.mark.parametrize(
    ("laws", "problem"),
    [('return "none"', "returns 'none' from laws(); return a tuple of Law"), ("return ()", "states no property; if it has none, give the reason with Law.none(reason)")],
)  # fmt: skip
def test_check_warns_of_invalid_properties(run_commands, laws, problem):
    code = body_of(CHANNEL, "return StaticGain(np.zeros(layout.users))")
    (status, output), _ = run_commands(code.replace('return (Law.none("nothing is drawn"),)', laws), "channel")
    assert status == 0
    assert output.splitlines()[-1] == f"  access.channel.1: own:Own {problem}"
