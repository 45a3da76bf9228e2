"""The command that advises on the deadline and the quorum of rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from netfl.cli.app import NoPlugins, app, echo, number_option, path_argument, path_option
from netfl.cli.common import handle_errors
from netfl.cli.options import ScenarioOptions, with_options
from netfl.errors import Fault, ScenarioError, cannot_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netfl.diagnosis.timeout import Advice


@app.command()
@handle_errors
@with_options
def timeout(
    source: Annotated[
        Path,
        path_argument(
            "SCENARIO_OR_LOG",
            "A scenario, whose network is simulated; a CSV or Parquet file with the columns round, user and total_s; "
            "or a run directory.",
        ),
    ],
    changes: ScenarioOptions,
    accuracy: Annotated[
        float | None,
        number_option(kind=float, help="The target, a test accuracy: train the first learner to it under a few rules."),
    ] = None,
    full_rounds: Annotated[
        float, number_option(kind=float, help="The target without --accuracy: rounds with the updates of all users.")
    ] = 100.0,
    critical: Annotated[
        float,
        number_option(kind=float, help="The number of updates from which on more of them help a round little."),
    ] = 10.0,
    quorum: Annotated[
        float | None, number_option(kind=float, help="The share of users with which a round closes. Default: the best.")
    ] = None,
    include: Annotated[
        float, number_option(kind=float, help="The share of the users that must be in time in some round.")
    ] = 0.9,
    overhead: Annotated[
        str, typer.Option(metavar="TIME", help="The time of the server between two rounds, such as '2 s'.")
    ] = "0 s",
    rounds: Annotated[
        int | None, number_option(minimum=1, help="Rounds to simulate, of all replicas together. Default: 200.")
    ] = None,
    csv: Annotated[Path | None, path_option("FILE", "Write the time to the target over the deadline as CSV.")] = None,
    plot: Annotated[Path | None, path_option("FILE", "Draw it: a .png, .svg or .pdf file.")] = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Find the deadline, the quorum and the limit of attempts of rounds that minimise the time to a target."""
    from netfl.cli.views.timeout import print_advice, print_scenario_advice
    from netfl.diagnosis.timeout import TimeoutOptions, advise, advise_scenario, read_log, read_run
    from netfl.scenario.path_errors import find_place, wrong_path

    options = TimeoutOptions(
        critical=critical,
        full_rounds=full_rounds,
        quorum=quorum,
        include=include,
        overhead_s=_duration(overhead),
        seed=changes.seed or 0,
    )
    options.check()
    _check_plot(plot)
    place = find_place(source)
    if place in {"scenario", "example"}:
        from netfl.diagnosis.timeout.trials import ROUNDS

        scenario = changes.load(source)
        found = advise_scenario(
            scenario,
            options,
            rounds=rounds or ROUNDS,
            accuracy=accuracy,
            on_trial=lambda text: echo(f"simulating: {text}", err=True),
        )
        _write(found.advice, csv, plot)
        print_scenario_advice(found)
        return

    _refuse_scenario_options(changes, accuracy, rounds)
    if place == "run":
        arrivals = read_run(source)
    elif place == "file":
        arrivals = read_log(source)
    else:
        raise ScenarioError([wrong_path(source, "times")])
    try:
        advice = advise(arrivals, options)
    except ScenarioError as error:
        raise ScenarioError(replace(fault, where=fault.where or str(source)) for fault in error.faults) from error
    _write(advice, csv, plot)
    print_advice(advice)


def _duration(text: str) -> float:
    """Return the seconds of the option ``--overhead``."""
    from netfl.units import QuantityError, to_si

    try:
        return to_si(text, "s")
    except QuantityError as error:
        remedy = error.remedy or "write a time such as '2 s'"
        raise ScenarioError([Fault("--overhead", str(error), text, remedy)]) from None


def _check_plot(plot: Path | None) -> None:
    """Raise an error for a file that no plot can be written to."""
    if plot is not None and plot.suffix not in {".png", ".svg", ".pdf"}:
        problem = "a plot has no such form"
        raise ScenarioError([Fault("--plot", problem, str(plot), "name a .png, .svg or .pdf file")])


def _refuse_scenario_options(changes: ScenarioOptions, accuracy: float | None, rounds: int | None) -> None:
    """Raise an error for each option that has no effect without a scenario."""
    given = {"--set": changes.sets, "--override": changes.override, "--accuracy": accuracy, "--rounds": rounds}
    problem = "has no effect: only a scenario is simulated"
    faults = [
        Fault(name, problem, str(value), "leave it out, or give a scenario")
        for name, value in given.items()
        if value is not None
    ]
    if faults:
        raise ScenarioError(faults)


def _write(advice: Advice, csv: Path | None, plot: Path | None) -> None:
    """Write the curve to the files that are asked for."""
    if csv is not None:
        try:
            advice.curve.to_csv(csv, index=False, lineterminator="\n")
        except OSError as error:
            raise cannot_write(error, csv) from error
        echo(f"curve: {csv}")
    if plot is not None:
        from netfl import plots

        try:
            cast("Figure", plots.timeout_curve(advice.curve, advice.best.rule.deadline_s)).savefig(plot)
        except OSError as error:
            raise cannot_write(error, plot) from error
        echo(f"plot:  {plot}")
