"""The command that writes what other tools, and other runs, read."""

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
        bool, typer.Option("--perfetto", help="Who was at what, and when: a trace for ui.perfetto.dev (trace.json).")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="All tables, as CSV files (csv/).")] = False,
    positions: Annotated[
        bool, typer.Option("--positions", help="Where users and nodes stand (positions.csv).")
    ] = False,
    availability: Annotated[
        Path | None,
        typer.Option(parser=local, metavar="FILE", help="When users were there: a .csv, .json or .parquet file."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=local,
            metavar="PATH",
            help="Where to write, if one of the first three is asked for; by default into DIR.",
        ),
    ] = None,
    replica: Annotated[int | None, typer.Option(min=0, help="Which replica, by default 0; --csv writes all.")] = None,
    rounds: Annotated[
        bool, typer.Option("--rounds", help="Of --availability: who was heard, in rounds, not seconds.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of --positions: where users move, so often, such as '1 min'.")
    ] = None,
    no_plugins: NoPlugins = False,
) -> None:
    """Write what a run tells in a form for other tools."""
    from netfl.results.run_reader import open_run

    asked = {"--perfetto": perfetto, "--csv": csv, "--positions": positions, "--availability": availability is not None}
    _check(asked, out, {"--rounds": rounds, "--every": every, "--replica": replica})
    run, chosen = open_run(folder), replica or 0
    try:
        if perfetto:
            _write_trace(run, out or folder / "trace.json", chosen)
        if csv:
            _write_tables(run, out or folder / "csv")
        if positions:
            _write_positions(run, out or folder / "positions.csv", chosen, every)
        if availability is not None:
            _write_availability(run, availability, chosen, in_rounds=rounds)
    except OSError as error:
        raise MachineError(f"cannot write {error.filename or folder}: {error.strerror or error}") from error


def _check(asked: Mapping[str, bool], out: Path | None, said: Mapping[str, object]) -> None:
    """Refuse options that say nothing together.

    Raises:
        ScenarioError: with all of them.
    """
    faults = []
    forms = sum(asked[form] for form in ("--perfetto", "--csv", "--positions"))
    if not any(asked.values()):
        remedy = "write --perfetto, --csv, --positions or --availability FILE"
        faults.append(Fault("", "nothing to write is named", None, remedy))
    if out is not None and forms != 1:
        remedy = "name one of --perfetto, --csv and --positions"
        faults.append(Fault("--out", f"says where to write one form, and {forms} are asked for", str(out), remedy))
    for option, wanted in (
        ("--rounds", ["--availability"]),
        ("--every", ["--positions"]),
        ("--replica", ["--perfetto", "--positions", "--availability"]),
    ):
        given = said[option] is not None and said[option] is not False
        if given and not any(asked[form] for form in wanted):
            faults.append(Fault(option, f"has no effect without {' or '.join(wanted)}", None, "leave it out"))
    if faults:
        raise ScenarioError(faults)


def _write_trace(run: Run, path: Path, replica: int) -> None:
    """Write a trace."""
    from netfl.results.export.perfetto import write_trace

    typer.echo(f"{path}: {write_trace(run, path, replica)}")


def _write_tables(run: Run, folder: Path) -> None:
    """Write tables."""
    from netfl.results.export.csv import write_tables

    for name, rows in write_tables(run, folder):
        typer.echo(f"{folder / name}.csv: {rows} rows")


def _write_positions(run: Run, path: Path, replica: int, every: str | None) -> None:
    """Write places; *every* is a time with its unit, or a number of seconds."""
    from netfl.simulation.positions import write_positions

    places, times = write_positions(run, path, replica, None if every is None else _seconds(every))
    typer.echo(f"{path}: {places} users and nodes, at {times} time{'s' if times > 1 else ''}")


def _write_availability(run: Run, path: Path, replica: int, *, in_rounds: bool) -> None:
    """Write when users were there."""
    from netfl.network.outage._availability_file import write_availability
    from netfl.results.export import availability

    rows = availability(run, replica, in_rounds=in_rounds)
    write_availability(path, rows)
    changes = sum(len(row.times) for row in rows)
    unit = "; the times are rounds, which an access reads with 'unit: rounds', and an outage cannot"
    typer.echo(f"{path}: {len(rows)} users, {changes} changes{unit if in_rounds else ''}")


def _seconds(text: str) -> float:
    """A time as the user writes it.

    Raises:
        ScenarioError: it is none.
    """
    from netfl.units import to_si

    try:
        time_s = float(text) if text.replace(".", "", 1).isdecimal() else to_si(text, "s")
    except ValueError as error:
        raise ScenarioError([Fault("--every", str(error), text, "write seconds, or a time such as '1 min'")]) from None
    if time_s <= 0:
        raise ScenarioError([Fault("--every", "no time above 0", text, "write seconds, or a time such as '1 min'")])
    return time_s
