"""Commands that study runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netfl.cli.app import NoPlugins, app, local
from netfl.cli.common import handle_errors
from netfl.errors import Fault, ScenarioError


@app.command("report")
@handle_errors
def write_report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            parser=local, metavar="DIR...", help="Run directories, or the folder of a sweep.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local, metavar="PATH", help="Where to write; by default report.html, in DIR or, of several, here."
        ),
    ] = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Write one self-contained page of a run, of several side by side, or of a sweep: pictures and words."""
    from netfl.cli.progress import show_comparison, show_report
    from netfl.cli.views.sweep import show_sweep_report
    from netfl.results.run_reader import is_sweep, open_run
    from netfl.sweeps import open_sweep

    if len(folders) == 1 and is_sweep(folders[0]):
        show_sweep_report(open_sweep(folders[0]), out)
    elif len(folders) == 1:
        show_report(open_run(folders[0]), out)
    else:
        show_comparison(folders, out or Path("report.html"))


@app.command()
@handle_errors
def ram(
    source: Annotated[
        Path,
        typer.Argument(
            parser=local,
            metavar="DIR_OR_TABLE",
            help="A run directory, or a CSV or Parquet file with the columns round and user.",
            show_default=False,
        ),
    ],
    replica: Annotated[int | None, typer.Option(min=0, help="Which replica; by default the first.")] = None,
    users: Annotated[int | None, typer.Option(min=1, help="How many users there are, in a table.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="How many rounds there were, in a table.")] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="A share of the worst (CVaR) to look at.")] = None,
    rare: Annotated[
        int | None,
        typer.Option(min=1, help="How many of the rarest users to show, 5 by default, and to explain, 3 by default."),
    ] = None,
    level: Annotated[
        float, typer.Option(help="The probability of any false alarm, and that any interval misses.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of the Monte-Carlo tests.")] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Play the network again and print what cost the rarest users how much.")
    ] = False,
    named: Annotated[
        list[int] | None,
        typer.Option("--user", min=0, help="A user to --explain, in place of the rarest; may be given several times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one flat JSON object.")] = False,
    no_plugins: NoPlugins = False,
) -> None:
    """Say what kind of process a selection is: stationary, Markovian, cyclic, drifting, or dependent."""
    from netfl.cli.views import diagnosis, loss_attribution
    from netfl.diagnosis import diagnose
    from netfl.diagnosis.reading import read_participation

    if named and not explain:
        raise ScenarioError([Fault("--user", "has no effect without --explain", named, "add --explain")])
    seen, run = read_participation(source, replica=replica, users=users, rounds=rounds)
    known = None if run is None else diagnosis.expected_process(run, replica)
    found = diagnose(seen, level=level, alphas=alpha or (), expected=known, seed=seed)
    causes = loss_attribution.explain_with_progress(run, named or None, rare or 3, replica) if explain else None
    if as_json:
        diagnosis.show_json(found, {} if causes is None else causes.to_json())
        return
    diagnosis.print_diagnosis(found, rare or 5)
    if causes is not None:
        loss_attribution.print_attribution(causes)
