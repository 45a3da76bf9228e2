"""Steps that commands share: handle errors, print warnings, report the outcome of a run."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec
from warnings import catch_warnings, simplefilter

import typer

from netfl.cli.app import echo
from netfl.errors import (
    MachineError,
    ModelError,
    NetflError,
    NetflWarning,
    PluginCallError,
    describe_os_error,
    os_error_remedy,
)

if TYPE_CHECKING:
    from netfl.results.run_reader import Run
    from netfl.scenario.scenario import Scenario
    from netfl.sweeps import Sweep

Arguments = ParamSpec("Arguments")
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C or SIGTERM ended: 128 + SIGINT, as in a shell."""


def handle_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Print the errors of *command* as messages and exit with their code."""

    @wraps(command)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            with catch_warnings():
                simplefilter("ignore", NetflWarning)  # `printed_warnings` prints them
                command(*args, **kwargs)
        except NetflError as error:
            cause = error.__cause__
            while isinstance(cause, PluginCallError) and cause.__cause__ is not None:
                cause = cause.__cause__  # whose frames are those of the model
            if isinstance(error, ModelError) and cause is not None:
                echo("".join(format_exception(cause)), err=True)  # for the author of the model
            message = str(error)
            code = error.exit_code
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of the output has ended
                raise
            message = f"cannot use {describe_os_error(error, Path.cwd())}; {os_error_remedy(error)}"
            code = MachineError.exit_code
        except MemoryError as error:
            message = f"not enough memory: {error}"
            code = 1
        except KeyboardInterrupt as error:
            message = "; ".join(["stopped", *getattr(error, "__notes__", [])])
            code = INTERRUPTED
        else:
            return
        echo(message, err=True)
        raise typer.Exit(code)

    return guarded


@contextmanager
def printed_warnings(quiet: bool) -> Iterator[None]:
    """Print each `NetflWarning` that is given inside as a line, unless *quiet*."""
    with catch_warnings():
        simplefilter("ignore" if quiet else "always", NetflWarning)
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            if issubclass(category, NetflWarning):
                echo(str(message), err=True)
            else:
                show_other(message, category, *place, **options)

        warnings.showwarning = show
        yield


def warn_of_sweep(scenario: Scenario, quiet: bool) -> None:
    """Print that the sweep of a scenario is ignored, where one run is asked for."""
    if scenario.sweep is not None and not quiet:
        echo("this is one run; the sweep is ignored. To run it: netfl sweep", err=True)


def report_outcome(done: Run, quiet: bool, *, report: bool = False) -> None:
    """Print how a run ended, and write its report on request.

    Args:
        done: the run.
        quiet: print nothing unless the run was stopped or diverged.
        report: write its report.
    """
    from netfl.simulation.run import note_continuation

    with note_continuation(done.folder):
        from netfl.cli.views.run_summary import show_run

        if not quiet:
            show_run(done)
        for name in done.diverged:
            echo(f"diverged: {name}", err=True)
        if report:
            write_report(done, None)
        if done.status != "done":
            if "flower" in done.manifest:
                remedy = "the run of a Flower app cannot be continued"
            else:
                remedy = f"continue with: netfl resume {done.folder}"
            exit_interrupted(remedy, _progress(done))


def _progress(done: Run) -> str:
    """Return in words how far an unfinished run is."""
    from netfl.results.comparison import UNFINISHED

    if done.comparison == UNFINISHED:
        return "in the tuning before the run"
    progress = f"after round {done.manifest['rounds_done']}"
    if "rounds" in done.manifest:  # a run may end at a time instead
        progress += f" of {done.manifest['rounds']}"
    return progress


def exit_interrupted(remedy: str, progress: str) -> NoReturn:
    """Print that the command was interrupted, with the *progress* so far and the *remedy*, and exit."""
    echo(f"interrupted {progress}; {remedy}", err=True)
    raise typer.Exit(INTERRUPTED)


def write_report(source: Run | Sweep | Sequence[Path], out: Path | None, at: str | None = None) -> None:
    """Write the report of a run, of a sweep or of several runs to *out*, and print its path.

    By default it is ``report.html`` in the folder of the run or the sweep, or here for several runs.  A run also has a
    plot in its folder.  Several runs are compared *at* a simulated time; by default see
    `netfl.report.common_time.choose_time`.
    """
    from netfl import report
    from netfl.core.screen import open_console
    from netfl.files import is_present
    from netfl.results.run_reader import Run
    from netfl.sweeps import Sweep

    console = open_console()
    if out is not None:
        target = out
    elif isinstance(source, Sequence):
        target = Path("report.html")
    else:
        target = source.folder  # the report names the file
    try:
        if isinstance(source, Sweep):
            console.print(f"report: {report.write_sweep(source, out)}", soft_wrap=True)
        elif isinstance(source, Run):
            console.print(f"report:  {report.write(source, out)}", soft_wrap=True)
            console.print(f"plot:    {report.picture(source)}", soft_wrap=True)
        else:
            console.print(f"report:  {report.write_several(source, target, at)}", soft_wrap=True)
    except OSError as error:
        folder = target.parent
        if out is None and target.is_dir():  # that of a run or a sweep
            folder = target
        if error.errno == errno.ENAMETOOLONG:
            remedy = "use a shorter name"
        elif not is_present(folder):
            remedy = f"create the folder {folder}, or name another file"
        else:
            remedy = f"check the free space and the permissions of {folder}, or name another file with --out"
        raise MachineError(f"cannot write the report: {describe_os_error(error, target)}; {remedy}") from error
