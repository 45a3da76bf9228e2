"""Every random scenario runs or is rejected with located errors, and `netfl check` and `netfl run` agree."""

import os
import random
import re
import resource
import shutil
import signal
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st
from support import random_scenarios
from typer.main import get_command

import netfl
from netfl.cli import app
from netfl.scenario import yaml_document
from netfl.simulation.dry_run import run_dry

EXAMPLES = int(os.environ.get("NETFL_EXAMPLES", "200"))
"""Total number of random scenarios."""
SEED = int(os.environ.get("NETFL_EXAMPLES_SEED", "0"))
"""Seed of the random scenarios."""
LIMIT_S, LIMIT_BYTES = 30.0, 12 << 30
"""Processor time and memory of one command that prints no progress."""
LONG_S = 10.0
"""Scenarios with a longer estimated processor time are not run."""
MIN_PROGRESS_LINES = 3
"""Number of different lines of progress that excuse a command that takes longer than `LIMIT_S`."""
PROGRESS_LINE = r"^.* simulated.*$"
"""Pattern of a line of progress."""
NULLABLE = {"rounds": {"energy_J"}, "events": {"value"}, "final_metrics": {"value"}}
"""Columns in which a number may be missing."""
ERRORS = r"^(?:{file}(?::\d+){{0,2}}: .*\n)+\Z"
"""Pattern of errors that are all located."""


class EndlessError(BaseException):
    """A command took too long."""


def sampled(share):
    """Decorate a test that draws a share of `EXAMPLES`, the same ones every time."""
    options = settings(
        max_examples=max(1, round(EXAMPLES * share)),
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        print_blob=False,
    )
    return lambda test: seed(SEED)(options(test))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of scenarios and runs."""
    return tmp_path_factory.mktemp("random")


@contextmanager
def limited():
    """Limit processor time and memory."""

    def stop(*_):
        raise EndlessError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S, 1.0)  # repeated, as an exception in a callback is lost
    _, maximum = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, maximum))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (maximum, maximum))
        signal.signal(signal.SIGVTALRM, before)


@cache
def command():
    """Build the command line once, as that is slow."""
    return get_command(app)


def run_command(*words):
    """Run a command; return its exit code and its errors. Other exceptions propagate.

    A command that takes long but prints its progress is stopped, as with Ctrl-C.
    """
    output, errors = StringIO(), StringIO()
    with limited(), redirect_stdout(output), redirect_stderr(errors):
        try:
            code = command().main([*map(str, words)], "netfl", standalone_mode=False) or 0
        except SystemExit as end:
            code = end.code
        except EndlessError:
            if len({*re.findall(PROGRESS_LINE, output.getvalue(), re.MULTILINE)}) < MIN_PROGRESS_LINES:
                raise
            code = 1
    note(f"netfl {words[0]}: {code}\n{output.getvalue()}{errors.getvalue()}")
    return code, errors.getvalue()


def check_verb(text, folder, verb):
    """Check that *verb* accepts a scenario if and only if `netfl check` does."""
    path, out = folder / "scenario.yaml", folder / "run"
    path.write_text(text, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    note(text)
    rejected, check_errors = run_command("check", path)
    if "would not end in a year" in check_errors:
        return rejected  # a run detects this only from its counts
    if not rejected and (check_errors or run_dry(netfl.load(path)).seconds > LONG_S):
        return rejected  # the estimated time is too long
    quiet, device = ["--quiet"] if rejected else [], ["--device", "cpu"] if verb == "run" else []
    code, errors = run_command(verb, path, "--out", out, *quiet, *device)
    # `check` validates the learners, which `trace` ignores
    if verb == "trace" and 2 in {rejected, code} and check_errors != errors and "learners" in text:
        return check_verb(text, folder, "run")
    assert "Traceback" not in errors
    assert code in {0, 1, 2}
    assert (code == 2) == (rejected == 2)
    if code == 2:
        assert re.fullmatch(ERRORS.format(file=re.escape(str(path))), errors)
        assert check_errors == errors
    elif code == 0:
        for table in out.glob("*.parquet"):
            check_numbers(table)
    return code


def check_numbers(path):
    """Check that the columns of a table have no infinite and no missing numbers."""
    table = pd.read_parquet(path)
    for name, column in table.items():
        if column.dtype.kind != "f":
            continue
        assert not np.isinf(column).any(), (path.stem, name)
        if name not in NULLABLE.get(path.stem, ()):
            assert not column.isna().any(), (path.stem, name)


@sampled(0.4)
@given(data=random_scenarios.valid_scenarios(), learns=st.booleans())
@pytest.mark.slow
def test_valid_scenario_runs_or_is_rejected(folder, data, learns):
    check_verb(yaml_document.dump(data), folder, "run" if learns and data.get("learners") else "trace")


@sampled(0.2)
@given(data=random_scenarios.valid_scenarios(edits=2, wild=True), learns=st.booleans())
@pytest.mark.slow
@pytest.mark.thorough
def test_scenario_with_extreme_numbers_runs_or_is_rejected(folder, data, learns):
    check_verb(yaml_document.dump(data), folder, "run" if learns and data.get("learners") else "trace")


@pytest.mark.slow
def test_one_extreme_number_runs_or_is_rejected(folder, monkeypatch):
    """Change one number of one model in its tiny scenario; 25,000 examples cover all of them."""
    cases = [(base, key, number) for base, key in random_scenarios.numbers() for number in random_scenarios.WILD]
    monkeypatch.setitem(globals(), "note", print)  # this test does not use Hypothesis
    failed = []
    for base, key, number in random.Random(SEED).sample(cases, min(len(cases), EXAMPLES // 5)):
        data = random_scenarios.put(random_scenarios.base(*base)[0], key, number)
        try:
            check_verb(yaml_document.dump(data), folder, "run" if base[0].startswith("learning") else "trace")
        except (Exception, EndlessError) as error:
            failed.append((base, key, number, repr(error)[:500]))
    assert failed == []


@sampled(0.4)
@given(text=random_scenarios.broken_scenarios(), learns=st.booleans())
@pytest.mark.slow
def test_broken_scenario_runs_or_is_rejected(folder, text, learns):
    check_verb(text, folder, "run" if "learners" in text and learns else "trace")
