"""The command that exports a run for other tools and other runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from netfl.cli.app import Folder, NoPlugins, app, echo, number_option, path_option
from netfl.cli.common import handle_errors
from netfl.errors import Fault, ScenarioError, cannot_write


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
        Path | None, path_option("FILE", "The times when users were available: a .csv, .json or .parquet file.")
    ] = None,
    out: Annotated[
        Path | None,
        path_option("PATH", "The output path, with one of --perfetto, --csv and --positions. Default: in DIR."),
    ] = None,
    replica: Annotated[
        int | None, number_option(minimum=0, help="The replica to export. Default: 0. --csv writes all.")
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
    every_s = None if every is None else _seconds(every)
    run = open_run(folder)
    chosen_replica = replica or 0
    try:
        if perfetto:
            from netfl.results.export.perfetto import write_trace

            path = out or folder / "trace.json"
            echo(f"{path}: {write_trace(run, path, chosen_replica)}")
        if csv:
            from netfl.results.export.csv import write_tables
            from netfl.results.payload import billing_note

            path = out or folder / "csv"
            note = billing_note(run.manifest)  # an error of the manifest comes before the tables
            for name, length in write_tables(run, path):
                echo(f"{path / name}.csv: {length} rows")
            if note:
                echo(note)
        if positions:
            from netfl.simulation.positions import write_positions

            path = out or folder / "positions.csv"
            places, times = write_positions(run, path, chosen_replica, every_s)
            unit = "times" if times > 1 else "time"
            echo(f"{path}: {places} users and nodes, at {times} {unit}")
        if availability is not None:
            from netfl.network.outage._availability_file import write_availability
            from netfl.results.export.availability import availability as availability_of

            rows = availability_of(run, chosen_replica, in_rounds=rounds)
            write_availability(availability, rows)
            changes = sum(len(row.times) for row in rows)
            use = ""
            if rounds:
                use = "; the times are rounds: an access reads them with 'unit: rounds', an outage does not"
            echo(f"{availability}: {len(rows)} users, {changes} changes{use}")
    except OSError as error:
        raise cannot_write(error, folder) from error


def _check(forms: Mapping[str, bool], out: Path | None, options: Mapping[str, object]) -> None:
    faults = []
    if not any(forms.values()):
        remedy = "write --perfetto, --csv, --positions or --availability FILE"
        faults.append(Fault("", "no output is named", None, remedy))
    file_count = sum(forms[form] for form in ("--perfetto", "--csv", "--positions"))
    if out is not None and file_count != 1:
        remedy = "name one of --perfetto, --csv and --positions"
        faults.append(Fault("--out", f"names the file of one output, but {file_count} are requested", str(out), remedy))
    needed_forms = {
        "--rounds": ["--availability"],
        "--every": ["--positions"],
        "--replica": ["--perfetto", "--positions", "--availability"],
    }
    for option, wanted in needed_forms.items():
        is_given = options[option] is not None and options[option] is not False
        if is_given and not any(forms[form] for form in wanted):
            faults.append(Fault(option, f"has no effect without {' or '.join(wanted)}", None, "leave it out"))
    if faults:
        raise ScenarioError(faults)


def _seconds(text: str) -> float:
    """Parse a positive time with its unit, or a number of seconds."""
    from netfl.units import QuantityError, to_si

    remedy = "write seconds, or a time such as '1 min'"
    try:
        if text.replace(".", "", 1).isdecimal():
            time_s = float(text)
        else:
            time_s = to_si(text, "s")
    except QuantityError as error:
        raise ScenarioError([Fault("--every", str(error), text, error.remedy or remedy)]) from None
    if not 0 < time_s < math.inf:
        raise ScenarioError([Fault("--every", "not a time above 0", text, remedy)])
    return time_s
