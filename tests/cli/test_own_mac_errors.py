"""Errors of an own MAC: one line with place, class and remedy."""

import re

import pytest
from support.small_network import SECTION, as_yaml
from typer.testing import CliRunner

from netfl.cli import app

CODE = """
from typing import ClassVar
import numpy as np
from netfl.network.mac import Mac
from netfl.types import Law

class Own(Mac):
    def serve(self, cell):
        {body}

    def laws(self):
        return (Law.none("nothing is drawn"),)

    {members}
"""


@pytest.fixture
def trace(tmp_path, monkeypatch, request):
    """Trace a scenario whose MAC has this body of ``serve`` and these members; return the exit code and the output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def output(*lines, members=""):
        name = "own_mac_" + re.sub(r"\W", "_", request.node.name)
        (tmp_path / f"{name}.py").write_text(CODE.format(body="\n        ".join(lines), members=members))
        network = {"mac": {"kind": f"{name}:Own"}, "update_size": "1 kB", "compute": {"speed": 100, "samples": 100}}
        scenario = {"name": "own", "users": 4, "rounds": 3, "access": SECTION | network}
        (tmp_path / "own.yaml").write_text(as_yaml(scenario))
        result = CliRunner().invoke(app, ["trace", "own.yaml", "--quiet"])
        return result.exit_code, result.output.replace(name, "own").splitlines()

    return output


def test_a_mac_that_never_advances_the_clock_is_an_error(trace):
    code, [line] = trace("while True:", "    yield cell.wait_for_backlog()")
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    problem = "serve() yields 10,000 times in a row without advancing the clock"
    assert line.endswith(f"s of simulated time: {problem}; let each pass of its loop wait for a time, or attempt")


def test_a_mac_may_yield_many_times_at_one_instant(trace):
    code, _ = trace(
        "while True:",
        "    for _ in range(5000):",
        "        yield cell.wait_for_backlog()",
        "    yield cell.attempt(cell.backlog()[:1])",
    )
    assert code == 0


def test_a_failure_of_a_mac_is_one_line(trace):
    code, [line] = trace("while True:", "    yield cell.wait_for_backlog()", "    cell.ready_s[9]")
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    assert "of simulated time: IndexError: index 9 is out of bounds" in line
    assert line.endswith("(own.py, line 11); correct serve()")


def test_the_error_of_a_mac_that_returns_names_the_loop(trace):
    code, [line] = trace("yield cell.wait_for_backlog()", "yield cell.attempt(cell.backlog()[:1])")
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    assert line.endswith("it stopped serving its cell before the end of the run; put its steps into while True")


def test_an_attempt_without_a_frame_is_an_error(trace):
    """Without an error, an update that has ended would end once more."""
    code, [line] = trace(
        "while True:",
        "    yield cell.wait_for_backlog()",
        "    first = cell.backlog()[:1]",
        "    yield cell.attempt(first)",
        "    yield cell.attempt(first)",
    )
    assert code == 2
    assert "attempt() is given a user that has no frame then" in line
    assert line.endswith("take users of backlog() after each wait, in which a frame may be replaced or lost")


def test_a_wrong_attempt_in_a_later_round_is_an_error(trace):
    """Without an error, the user would send twice in each attempt, and rounds would end at their deadlines."""
    code, [line] = trace(
        "attempts = 0",
        "while True:",
        "    yield cell.wait_for_backlog()",
        "    users = cell.backlog()[:1]",
        "    attempts += 1",
        "    yield cell.attempt(users if attempts < 3 else np.repeat(users, 2))",
    )
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    assert "attempt() is given a user twice" in line


def test_a_user_that_is_on_the_air_cannot_send(trace):
    code, [line] = trace("yield cell.wait_for_backlog()", "cell.attempt([1])", "yield cell.attempt([1])")
    assert code == 2
    assert line.endswith("attempt() is given a user that is on the air ([1]); take users of backlog()")


READ = [
    "while True:",
    "    yield cell.wait_for_backlog()",
    "    users = cell.backlog()",
    "    cell.{}",
    "    yield cell.attempt(users[:1])",
]


@pytest.mark.parametrize(
    ("read", "name", "members"),
    [
        ("snr_db(users)", "snr_db", "observes"),
        ("modes(users)", "rate_bps", "observes"),
        ("airtimes_s(users)", "rate_bps", "observes"),
        ("connected(users)", "user_up", "observes"),
        ("backlog_lengths()", "backlog", "observes"),
        ("user_metrics.get('age')", "age", "user_metrics"),
        ("user_metrics['loss']", "loss", "user_metrics"),
    ],
)
def test_a_value_that_a_mac_has_not_declared_is_an_error(trace, read, name, members):
    code, [line] = trace(*(text.format(read) for text in READ))
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    assert line.endswith(
        f"of simulated time: it reads {name} of users, but declares nothing; add {name} to `{members}` of the MAC"
    )


def test_a_mac_reads_what_it_has_declared(trace):
    code, lines = trace(*(text.format("snr_db(users)") for text in READ), members='observes: ClassVar = ("snr_db",)')
    assert code == 0, lines


def test_a_value_that_no_mac_can_observe_is_an_error(trace):
    code, [line] = trace(
        "while True:", "    yield cell.wait_for_backlog()", members='observes: ClassVar = ("snr_db", "snr")'
    )
    assert code == 2
    assert ": access.mac: it observes snr, which a MAC cannot; take names of backlog, rate_bps, snr_db, user_up" in line
