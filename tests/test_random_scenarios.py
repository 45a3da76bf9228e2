"""Whatever a scenario says, it runs, or is refused with its faults; `netfl check` and `netfl run` agree on which."""

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
from support import random_scenarios as worlds
from typer.main import get_command

import netfl
from netfl.cli import app
from netfl.scenario import yaml_document
from netfl.simulation.dry_run import run_dry

EXAMPLES = int(os.environ.get("NETFL_EXAMPLES", "300"))
"""Scenarios that are tried, all in all."""
SEED = int(os.environ.get("NETFL_EXAMPLES_SEED", "0"))
"""Which: those of another seed are others."""
LIMIT_S, LIMIT_BYTES = 30.0, 12 << 30
"""Processor time, and memory, that one command may take that does not say how far it is."""
LONG_S = 10.0
"""What is told beforehand to take more processor time is believed."""
LINES = 3
"""So often a command must have said how far it is that has taken that long, and each time something else."""
FAR = r"^.* simulated.*$"
"""A line that says it."""
UNKNOWN = {"rounds": {"energy_J"}, "events": {"value"}, "final_metrics": {"value"}}
"""Columns in which a figure may be missing."""
TOLD = r"^(?:{file}(?::\d+){{0,2}}: .*\n)+\Z"
"""Faults, each located."""


class EndlessError(BaseException):
    """A command has taken too long."""


def tried(share):
    """How many examples are drawn, and that they are the same every time."""
    chosen = settings(
        max_examples=max(1, round(EXAMPLES * share)),
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        print_blob=False,
    )
    return lambda test: seed(SEED)(chosen(test))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where scenarios lie and run."""
    return tmp_path_factory.mktemp("random")


@contextmanager
def limited():
    """Let nothing take for ever, or all the memory."""

    def stop(*_):
        raise EndlessError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S, 1.0)  # again and again, as what is raised in a callback is lost
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, most))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGVTALRM, before)


@cache
def command():
    """The command line, which takes long to put together."""
    return get_command(app)


def called(*words):
    """What a command ends with, and what it says of faults; what it does not catch is raised.

    One that takes long, but says how far it is, is ended, as with Ctrl-C.
    """
    said, told = StringIO(), StringIO()
    with limited(), redirect_stdout(said), redirect_stderr(told):
        try:
            code = command().main([*map(str, words)], "netfl", standalone_mode=False) or 0
        except SystemExit as end:
            code = end.code
        except EndlessError:
            if len({*re.findall(FAR, said.getvalue(), re.MULTILINE)}) < LINES:
                raise
            code = 1
    note(f"netfl {words[0]}: {code}\n{said.getvalue()}{told.getvalue()}")
    return code, told.getvalue()


def hold(text, folder, verb):
    """Hold what *verb* makes of a scenario to what `netfl check` says of it."""
    path, out = folder / "scenario.yaml", folder / "run"
    path.write_text(text, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    note(text)
    refused, faults = called("check", path)
    if "would not end in a year" in faults:
        return refused  # which a run only finds where its counts alone say so
    if not refused and (faults or run_dry(netfl.load(path)).seconds > LONG_S):
        return refused  # it says that it will take long, or ever longer
    quiet, device = ["--quiet"] if refused else [], ["--device", "cpu"] if verb == "run" else []
    code, told = called(verb, path, "--out", out, *quiet, *device)
    if verb == "trace" and 2 in {refused, code} and faults != told and "learners" in text:  # a check is of a run
        return hold(text, folder, "run")
    assert "Traceback" not in told
    assert code in {0, 1, 2}
    assert (code == 2) == (refused == 2)
    if code == 2:
        assert re.fullmatch(TOLD.format(file=re.escape(str(path))), told)
        assert faults == told
    elif code == 0:
        for table in out.glob("*.parquet"):
            see(table)
    return code


def see(path):
    """Hold a table to numbers that are numbers."""
    table = pd.read_parquet(path)
    for name, column in table.items():
        if column.dtype.kind != "f":
            continue
        assert not np.isinf(column).any(), (path.stem, name)
        if name not in UNKNOWN.get(path.stem, ()):
            assert not column.isna().any(), (path.stem, name)


@tried(0.4)
@given(data=worlds.good(), learns=st.booleans())
@pytest.mark.slow
def test_a_good_scenario_runs_or_is_refused(folder, data, learns):
    hold(yaml_document.dump(data), folder, "run" if learns and data.get("learners") else "trace")


@tried(0.2)
@given(data=worlds.good(edits=2, wild=True), learns=st.booleans())
@pytest.mark.slow
def test_a_scenario_of_wild_figures_runs_or_is_refused(folder, data, learns):
    hold(yaml_document.dump(data), folder, "run" if learns and data.get("learners") else "trace")


@pytest.mark.slow
def test_a_wild_figure_anywhere_runs_or_is_refused(folder, monkeypatch):
    """One figure of one model is wild, all else as in its tiny world: with 25,000 examples, each of them."""
    tries = [(base, key, figure) for base, key in worlds.figures() for figure in worlds.WILD]
    monkeypatch.setitem(globals(), "note", print)  # Hypothesis is not at work here
    failed = []
    for base, key, figure in random.Random(SEED).sample(tries, min(len(tries), EXAMPLES // 5)):
        data = worlds.put(worlds.base(*base)[0], key, figure)
        try:
            hold(yaml_document.dump(data), folder, "run" if base[0].startswith("learning") else "trace")
        except (Exception, EndlessError) as error:
            failed.append((base, key, figure, repr(error)[:500]))
    assert failed == []


@tried(0.4)
@given(text=worlds.spoilt(), learns=st.booleans())
@pytest.mark.slow
def test_any_scenario_runs_or_is_refused(folder, text, learns):
    hold(text, folder, "run" if "learners" in text and learns else "trace")
