"""Errors of an own MAC: one line with place, class and remedy."""

import pytest
from support.small_network import SECTION, as_yaml
from typer.testing import CliRunner

from netfl.cli import app

CODE = """
import numpy as np
from netfl.network.mac import Mac
from netfl.types import Law

class Own(Mac):
    def serve(self, cell):
        {body}

    def laws(self):
        return (Law.none("nothing is drawn"),)
"""


@pytest.fixture
def trace(tmp_path, monkeypatch, request):
    """Trace a scenario whose MAC has the given body of ``serve``; return the exit code and the lines of the output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def output(*lines):
        name = f"own_mac_{request.node.name.partition('[')[0]}"
        (tmp_path / f"{name}.py").write_text(CODE.format(body="\n        ".join(lines)))
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
    assert line.endswith("(own.py, line 10); correct serve()")


def test_the_error_of_a_mac_that_returns_names_the_loop(trace):
    code, [line] = trace("yield cell.wait_for_backlog()", "yield cell.attempt(cell.backlog()[:1])")
    assert code == 2
    assert ": access.mac: own:Own, at " in line
    assert line.endswith("it stopped serving its cell before the end of the run; put its steps into while True")


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
