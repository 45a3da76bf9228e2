"""Commands that analyse runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netfl.cli import common
from netfl.cli.app import NoPlugins, app, echo, number_option, path_argument, path_option
from netfl.cli.common import handle_errors
from netfl.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from netfl.diagnosis.cvar_lift import CvarLift
    from netfl.diagnosis.participation import Participation
    from netfl.learning.user_weights import CvarLevel
    from netfl.results.run_reader import Run


@app.command("report")
@handle_errors
def write_report(
    folders: Annotated[list[Path], path_argument("DIR...", "Run directories, or the folder of a sweep.")],
    out: Annotated[
        Path | None,
        path_option(
            "PATH", "The output file, .html by default. Default: report.html in DIR, or here for several runs."
        ),
    ] = None,
    latex: Annotated[
        Path | None, path_option("FILE", "Also write the final values as a LaTeX table with booktabs.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="Compare several runs, or write the table, at a simulated time, such as '2 h'."
        ),
    ] = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Write a report with plots: one HTML page about a run, several runs or a sweep."""
    from netfl.results.run_reader import open_run
    from netfl.scenario.path_errors import is_sweep
    from netfl.sweeps import open_sweep

    if at is not None and latex is None and len(folders) == 1:
        problem = "has no effect on the page of one run or sweep, which shows all times"
        raise ScenarioError([Fault("--at", problem, at, "give several runs, or --latex")])
    if latex is not None:
        _write_latex(folders, latex, at)
        echo(f"LaTeX:   {latex}")
    if len(folders) > 1:
        common.write_report(folders, out, at)
    elif is_sweep(folders[0]):
        common.write_report(open_sweep(folders[0]), out)
    else:
        common.write_report(open_run(folders[0]), out)


def _write_latex(folders: list[Path], latex: Path, at: str | None) -> None:
    """Write the final values of the runs in *folders*, or those *at* a simulated time, as a LaTeX table."""
    from netfl.report.paper_tables import compare, known_metrics

    table = compare(folders, known_metrics(folders), at=at)
    try:
        table.to_latex(latex)
    except OSError as error:
        if latex.parent.is_dir():
            reason = error.strerror
        else:
            reason = "its folder does not exist"
        problem = f"cannot be written: {reason}"
        raise ScenarioError([Fault("--latex", problem, str(latex), "name a file in an existing folder")]) from None


@app.command()
@handle_errors
def ram(
    source: Annotated[
        Path,
        path_argument(
            "DIR_OR_TABLE",
            "A run directory, a recording such as real/tour_perret, or a CSV or Parquet file with the columns round "
            "and user.",
        ),
    ],
    replica: Annotated[int | None, number_option(minimum=0, help="The replica to analyse. Default: the first.")] = None,
    users: Annotated[int | None, number_option(minimum=1, help="Number of users, for a table.")] = None,
    rounds: Annotated[
        int | None, number_option(minimum=1, help="Number of rounds, for a table; first rounds of a recording.")
    ] = None,
    alpha: Annotated[
        list[float] | None, number_option(kind=float, minimum=0, help="A level α of CVaR to examine. May be repeated.")
    ] = None,
    cvar: Annotated[
        str | None,
        typer.Option(
            "--cvar",
            metavar="α,γ",
            help="Which users FED-CVaR-AVG at this level can weigh more than importance weighting. Default: the levels "
            "of the run's learners.",
        ),
    ] = None,
    rare: Annotated[
        int | None,
        number_option(minimum=1, help="Number of rarest users to show (default 5) and to explain (default 3)."),
    ] = None,
    level: Annotated[
        float,
        number_option(
            kind=float, help="The probability of any false alarm, and of any interval that does not contain its rate."
        ),
    ] = 0.05,
    seed: Annotated[int, number_option(minimum=0, help="The seed of the Monte-Carlo tests.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Replay the network and print what each cause cost the rarest users.")
    ] = False,
    named: Annotated[
        list[int] | None,
        number_option("--user", minimum=0, help="A user to --explain instead of the rarest. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one flat JSON object.")] = False,
    no_plugins: NoPlugins = False,
) -> None:
    """Classify the selection process of a run: stationary, Markovian, cyclic, drifting, dependent, or several."""
    from netfl.cli.views import diagnosis, explanation
    from netfl.diagnosis import diagnose
    from netfl.diagnosis.cvar_lift import parse_level
    from netfl.diagnosis.reading import delivers_nothing, pooled_deliveries, read_participation
    from netfl.results.run_reader import open_run

    if named and not explain:
        raise ScenarioError([Fault("--user", "has no effect without --explain", named, "add --explain")])
    cvar_level = None if cvar is None else parse_level(cvar)
    if explain and delivers_nothing(source):  # nothing to classify, and all the more to explain
        causes = explanation.explain_with_progress(open_run(source), named or None, rare or 3, replica)
        if as_json:
            diagnosis.show_json(causes.to_json())
        else:
            explanation.print_explanation(causes)
        return

    participation, run = read_participation(source, replica=replica, users=users, rounds=rounds)
    if explain and run is None:  # before the diagnosis, which may take long
        problem = "a table of deliveries has no network to replay"
        raise ScenarioError([Fault("--explain", problem, None, "name a run directory")])
    expected = None if run is None else diagnosis.expected_process(run, replica)
    result = diagnose(participation, level=level, alphas=alpha or (), expected=expected, seed=seed)
    lifts = _cvar_lifts(run, participation, replica, cvar_level)
    explained = None
    if explain and run is not None:
        explained = explanation.explain_with_progress(run, named or None, rare or 3, replica)

    if as_json:
        entries = result.to_json()
        for lift in lifts:
            entries |= lift.to_json()
        if explained is not None:
            entries |= explained.to_json()
        diagnosis.show_json(entries)
        return
    pooled = None
    if run is not None and replica is None:
        pooled = pooled_deliveries(run, participation)
    diagnosis.print_diagnosis(result, rare or 5, pooled=pooled)
    diagnosis.print_cvar_lifts(lifts, rare or 5)
    if explained is not None:
        explanation.print_explanation(explained)


def _cvar_lifts(
    run: Run | None, participation: Participation, replica: int | None, level: CvarLevel | None
) -> list[CvarLift]:
    """Return the lifts of the learners of a run, or of a *level*; none for a table without one."""
    from netfl.diagnosis.cvar_lift import cvar_lift, cvar_lifts

    if run is not None:
        return list(cvar_lifts(run, participation, replica, level))
    if level is None:
        return []
    return [cvar_lift(participation, level)]
