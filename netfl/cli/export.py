"""The command that exports a run for other tools and other runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netfl.cli.app import Folder, NoPlugins, app, local
from netfl.cli.common import handle_errors
from netfl.errors import Fault, MachineError, ScenarioError

if TYPE_CHECKING:
    from netfl.results.run_reader import Run


@app.command()
@handle_errors
def export(
    folder: Folder,
    perfetto: Annotated[
        bool, typer.Option("--perfetto", help="A timeline of each user's activity for ui.perfetto.dev (trace.json).")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="All tables, as CSV files (csv/).")] = False,
    positions: Annotated[
        bool, typer.Option("--positions", help="The positions of users and nodes (positions.csv).")
    ] = False,
    availability: Annotated[
        Path | None,
        typer.Option(
            parser=local, metavar="FILE", help="The times when users were available: a .csv, .json or .parquet file."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local,
            metavar="PATH",
            help="The output path, with one of --perfetto, --csv and --positions. Default: in DIR.",
        ),
    ] = None,
    replica: Annotated[
        int | None, typer.Option(min=0, help="The replica to export. Default: 0. --csv writes all.")
    ] = None,
    rounds: Annotated[
        bool, typer.Option("--rounds", help="With --availability: the rounds of deliveries instead of seconds.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --positions: sample moving users at this interval, such as '1 min'."),
    ] = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Export a run to formats that other tools read."""
    from netfl.results.run_reader import open_run

    forms = {"--perfetto": perfetto, "--csv": csv, "--positions": positions, "--availability": availability is not None}
    _check(forms, out, {"--rounds": rounds, "--every": every, "--replica": replica})
    run, chosen_replica = open_run(folder), replica or 0
    try:
        if perfetto:
            _write_trace(run, out or folder / "trace.json", chosen_replica)
        if csv:
            _write_tables(run, out or folder / "csv")
        if positions:
            _write_positions(run, out or folder / "positions.csv", chosen_replica, every)
        if availability is not None:
            _write_availability(run, availability, chosen_replica, in_rounds=rounds)
    except OSError as error:
        raise MachineError(f"cannot write {error.filename or folder}: {error.strerror or error}") from error


def _check(forms: Mapping[str, bool], out: Path | None, options: Mapping[str, object]) -> None:
    """Raise a `ScenarioError` that lists all options without effect."""
    faults = []
    file_count = sum(forms[form] for form in ("--perfetto", "--csv", "--positions"))
    if not any(forms.values()):
        remedy = "write --perfetto, --csv, --positions or --availability FILE"
        faults.append(Fault("", "nothing to write is named", None, remedy))
    if out is not None and file_count != 1:
        remedy = "name one of --perfetto, --csv and --positions"
        faults.append(Fault("--out", f"says where to write one form, and {file_count} are asked for", str(out), remedy))
    for option, wanted in (
        ("--rounds", ["--availability"]),
        ("--every", ["--positions"]),
        ("--replica", ["--perfetto", "--positions", "--availability"]),
    ):
        is_given = options[option] is not None and options[option] is not False
        if is_given and not any(forms[form] for form in wanted):
            faults.append(Fault(option, f"has no effect without {' or '.join(wanted)}", None, "leave it out"))
    if faults:
        raise ScenarioError(faults)


def _write_trace(run: Run, path: Path, replica: int) -> None:
    from netfl.results.export.perfetto import write_trace

    typer.echo(f"{path}: {write_trace(run, path, replica)}")


def _write_tables(run: Run, folder: Path) -> None:
    from netfl.results.export.csv import write_tables

    for name, rows in write_tables(run, folder):
        typer.echo(f"{folder / name}.csv: {rows} rows")


def _write_positions(run: Run, path: Path, replica: int, every: str | None) -> None:
    """Write positions; *every* is a time with its unit, or a number of seconds."""
    from netfl.simulation.positions import write_positions

    places, times = write_positions(run, path, replica, None if every is None else _seconds(every))
    typer.echo(f"{path}: {places} users and nodes, at {times} time{'s' if times > 1 else ''}")


def _write_availability(run: Run, path: Path, replica: int, *, in_rounds: bool) -> None:
    from netfl.network.outage._availability_file import write_availability
    from netfl.results.export import availability

    rows = availability(run, replica, in_rounds=in_rounds)
    write_availability(path, rows)
    changes = sum(len(row.times) for row in rows)
    unit = "; the times are rounds, which an access reads with 'unit: rounds', and an outage cannot"
    typer.echo(f"{path}: {len(rows)} users, {changes} changes{unit if in_rounds else ''}")


def _seconds(text: str) -> float:
    """Parse a positive time with its unit, or a number of seconds."""
    from netfl.units import to_si

    try:
        time_s = float(text) if text.replace(".", "", 1).isdecimal() else to_si(text, "s")
    except ValueError as error:
        raise ScenarioError([Fault("--every", str(error), text, "write seconds, or a time such as '1 min'")]) from None
    if time_s <= 0:
        raise ScenarioError([Fault("--every", "no time above 0", text, "write seconds, or a time such as '1 min'")])
    return time_s
