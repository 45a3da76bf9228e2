"""Steps that commands share: load a scenario, handle errors, report the outcome of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer

from netfl.errors import Fault, MachineError, ModelError, NetflError, ScenarioError, suggest

if TYPE_CHECKING:
    from netfl.results.run_reader import Run
    from netfl.scenario.scenario import Scenario
    from netfl.simulation.workers.ray_cluster import Cluster
    from netfl.sweeps import Sweep
    from netfl.sweeps.slurm_engine import SlurmOptions

Arguments = ParamSpec("Arguments")

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C or SIGTERM ended: 128 + SIGINT, as in a shell."""


def handle_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print the errors of *command* as messages and exit with their code."""

    @wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except NetflError as error:
            if isinstance(error, ModelError) and error.__cause__ is not None:
                typer.echo("".join(format_exception(error.__cause__)), err=True)  # for the author of the model
            message, code = "\n".join(map(_format_error, getattr(error, "faults", [error]))), error.exit_code
        except MemoryError as error:
            message, code = f"not enough memory: {error}", 1
        except KeyboardInterrupt as error:
            message, code = "; ".join(["stopped", *getattr(error, "__notes__", [])]), INTERRUPTED
        else:
            return
        typer.echo(message, err=True)
        raise typer.Exit(code)

    return guarded


def _format_error(error: NetflError | Fault) -> str:
    """Return the message of an error; the argument ``out`` of Python is the option ``--out`` here."""
    if isinstance(error, Fault) and error.key == "out" and not error.where:
        error = replace(error, key="--out")
    return str(error)


def load(path: Path, sets: list[str] | None, named: list[str] | None, seed: int | None) -> Scenario:
    """Load a scenario file and apply the changes of the command line."""
    from netfl.scenario import scenario as scenarios
    from netfl.scenario.yaml_document import parse

    overrides: dict[str, Any] = {}
    for assignment in sets or []:
        key, equals, text = assignment.partition("=")
        if not (equals and key):
            remedy = "write for example --set users=10"
            raise ScenarioError([Fault("--set", "not of the form PATH=VALUE", assignment, remedy)])
        overrides[key] = parse(text, f"--set {key}")
    if seed is not None:
        overrides["seed"] = seed
    return scenarios.load(path, overrides, named or [])


def check_device(device: str) -> None:
    """Raise a `ScenarioError` if *device* does not exist."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise ScenarioError([Fault("--device", "no such device", device, "write auto, cpu, cuda or cuda:N")])


def select_cluster(
    engine: str,
    address: str | None,
    gpus: float | None,
    workers: int | None,
    engines: Sequence[str] = ("local", "ray"),
) -> Cluster | None:
    """Return the Ray cluster to use, or ``None`` for another of the *engines*.

    Raises:
        ScenarioError: there is no such engine, or it ignores an option that is given.
    """
    from netfl.simulation.workers.ray_cluster import Cluster

    if engine not in engines:
        raise ScenarioError([Fault("--engine", "no such engine", engine, suggest(engine, engines))])
    if engine == "ray":
        return Cluster(address, gpus or 0.0, workers)
    _refuse({"--address": address, "--gpus": gpus if engine == "local" else None}, "ray")
    return None


def slurm_options(
    engine: str,
    partition: str | None,
    time: str | None,
    cpus: int | None,
    mem: str | None,
    gpus: float | None,
    workers: int | None,
    sbatch: Sequence[str] | None,
) -> SlurmOptions | None:
    """Return the resources of Slurm jobs, or ``None`` for another engine.

    Raises:
        ScenarioError: an option is invalid, or has no effect.
    """
    from netfl.sweeps.slurm_engine import SlurmOptions

    if engine != "slurm":
        _refuse({"--partition": partition, "--time": time, "--cpus": cpus, "--mem": mem, "--sbatch": sbatch}, "slurm")
        return None
    pairs = [(entry, *entry.removeprefix("--").partition("=")) for entry in sbatch or ()]
    remedy = "write for example --sbatch account=physics"
    faults = [
        Fault("--sbatch", "not of the form NAME=VALUE", entry, remedy)
        for entry, name, sign, _ in pairs
        if not (name and sign)
    ]
    if gpus is not None and gpus % 1:
        faults.append(Fault("--gpus", "not a whole number of GPUs, as a Slurm job needs", gpus, "write a whole number"))
    if faults:
        raise ScenarioError(faults)
    return SlurmOptions(
        partition=partition,
        minutes=60 if time is None else math.ceil(_quantity("--time", time, "s") / 60),
        cpus=cpus or 1,
        memory_gb=None if mem is None else _quantity("--mem", mem, "byte") / 1e9,
        gpus=int(gpus or 0),
        workers=workers,
        extra={name: value for _, name, _, value in pairs},
    )


def _refuse(options: Mapping[str, object], engine: str) -> None:
    """Raise an error for each of *options* that is given, since it needs another *engine*."""
    given = {name: value for name, value in options.items() if value is not None}
    remedy = f"add --engine {engine}"
    if given:
        raise ScenarioError([Fault(name, "has no effect", value, remedy) for name, value in given.items()])


def _quantity(option: str, text: str, unit: str) -> float:
    """Parse a positive quantity with its unit."""
    from netfl.units import to_si

    try:
        value, problem = to_si(text, unit), "not above 0"
    except ValueError as error:
        value, problem = 0.0, str(error)
    if not value > 0:
        raise ScenarioError([Fault(option, problem, text, "write a number with a unit, such as '2 h' or '4 GB'")])
    return value


def print_warnings(scenario: Scenario, quiet: bool) -> None:
    """Print warnings about one run of a scenario: its sweep is ignored, or a value is probably not intended."""
    from netfl.simulation.setup import warnings

    if quiet:
        return
    if scenario.sweep is not None:
        typer.echo("this is one run; the sweep is ignored. To run it: netfl sweep", err=True)
    for warning in warnings(scenario):
        typer.echo(warning, err=True)


def report_outcome(done: Run, quiet: bool, *, report: bool = False) -> None:
    """Print how a run ended, and write its report on request.

    Args:
        done: the run.
        quiet: print nothing unless the run was stopped or diverged.
        report: write its report.
    """
    from netfl.cli.views.run_summary import show_run

    if not quiet:
        show_run(done)
    for name in done.diverged:
        typer.echo(f"diverged: {name}", err=True)
    if report:
        write_report(done, None)
    if done.status != "done":
        is_flower = "flower" in done.manifest
        exit_interrupted(
            "the run of a Flower app cannot be continued" if is_flower else f"continue with: netfl resume {done.folder}"
        )


def exit_interrupted(remedy: str) -> NoReturn:
    """Print that the command was interrupted, with the *remedy*, and exit."""
    typer.echo(f"interrupted; {remedy}", err=True)
    raise typer.Exit(INTERRUPTED)


def write_report(source: Run | Sweep | Sequence[Path], out: Path | None) -> None:
    """Write the report of a run, of a sweep or of several runs to *out*, and print its path.

    By default it is ``report.html`` in the folder of the run or the sweep.  A run also has a plot there.
    """
    from netfl import report
    from netfl.cli.views import open_console
    from netfl.results.run_reader import Run
    from netfl.sweeps import Sweep

    console = open_console()
    try:
        if isinstance(source, Sweep):
            console.print(f"report: {report.write_sweep(source, out)}", soft_wrap=True)
        elif isinstance(source, Run):
            console.print(f"report:  {report.write(source, out)}", soft_wrap=True)
            console.print(f"plot:    {report.picture(source)}", soft_wrap=True)
        else:
            console.print(f"report:  {report.write_several(source, out or Path('report.html'))}", soft_wrap=True)
    except OSError as error:
        raise MachineError(f"cannot write the report: {error.filename}: {error.strerror}") from error
