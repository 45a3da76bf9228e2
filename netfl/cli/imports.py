"""Commands that read logs of real networks, and write files that scenarios read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netfl.cli.app import app, echo, path_argument, path_option
from netfl.cli.common import handle_errors
from netfl.cli.usage_errors import Commands
from netfl.errors import Fault, ScenarioError

import_app = typer.Typer(
    cls=Commands, help="Read a log of a real network, and write a file for scenarios.", no_args_is_help=True
)
app.add_typer(import_app, name="import")


@import_app.command("lorawan")
@handle_errors
def import_lorawan(
    log: Annotated[Path, path_argument("LOG", "A log of ChirpStack v4 or The Things Stack v3: uplinks as JSON lines.")],
    out: Annotated[Path, path_option("FOLDER", "The folder of the recording, which is made.")],
    users: Annotated[
        str, typer.Option("--users", metavar="WORD", help="The users: the gateways of a device, or all devices.")
    ] = "gateways",
    device: Annotated[
        str | None, typer.Option("--device", metavar="EUI", help="The device, where the log has several.")
    ] = None,
    round_length: Annotated[
        str | None, typer.Option("--round", metavar="TIME", help="The length of a round, with --users devices.")
    ] = None,
) -> None:
    """Write who received the frames of LoRaWAN devices as a recording for `replay` and `netfl ram`."""
    from netfl.files.lorawan import read_lorawan

    if users not in {"gateways", "devices"}:
        raise ScenarioError([Fault("--users", "not a kind of users", users, "write gateways or devices")])
    if users == "gateways" and round_length is not None:
        problem = "has no effect: a frame is a round"
        raise ScenarioError([Fault("--round", problem, round_length, "leave it out, or add --users devices")])
    if users == "devices" and device is not None:
        raise ScenarioError([Fault("--device", "has no effect: all devices are users", device, "leave it out")])
    if users == "devices" and round_length is None:
        problem = "devices have no common counter, so rounds need a length"
        raise ScenarioError([Fault("--round", problem, None, "give one, such as --round '10 min'")])
    read = read_lorawan(log)
    if round_length is None:
        chosen = read.choose_device(device)
        recording = read.recording_of_gateways(chosen)
        table = read.table(chosen)
    else:
        chosen = None
        recording = read.recording_of_devices(_seconds("--round", round_length))
        table = None
    recording.write(out)
    if table is not None and chosen is not None:
        table.to_csv(out / "frames.csv", index=False, lineterminator="\n")
        echo(
            f"device {chosen}: {len(read.frames[chosen])} frames, {read.missing(chosen)} missing counters, "
            f"{read.sessions(chosen)} sessions; {out / 'frames.csv'}"
        )
    echo(f"{log.name}: {read.duplicates} lines of duplicates, {read.other_lines} lines that are no uplinks")
    echo(f"{out}: {recording.rounds} rounds of {len(recording.names)} users, {len(recording.round)} deliveries")
    if table is not None:
        echo("A missing counter is a lost frame, or one that the device counted and did not send.")
    else:
        echo("A round without a delivery of a device may be a loss, or a time in which it sent nothing.")


@import_app.command("flower")
@handle_errors
def import_flower(
    log: Annotated[Path, path_argument("LOG", "The log of a Flower server, 1.8 to 1.42.")],
    out: Annotated[Path, path_option("FOLDER", "The folder of the tables, which is made.")],
) -> None:
    """Write the rounds of a Flower run as a table: times, clients that were sampled, results, failures and metrics."""
    from netfl.errors import cannot_write
    from netfl.files.flower_log import duration_note, read_flower_log
    from netfl.files.recordings import make_folder

    read = read_flower_log(log)
    make_folder(out)
    try:
        read.rounds.to_csv(out / "rounds.csv", index=False, lineterminator="\n")
        read.failures.to_csv(out / "failures.csv", index=False, lineterminator="\n")
    except OSError as error:
        raise cannot_write(error, out) from error
    planned = f" of {read.planned_rounds}" if read.planned_rounds else ""
    state = "" if read.is_finished else ", without its end"
    echo(f"{log.name}: {len(read.rounds)}{planned} rounds{state}; {read.other_lines} lines that are not of Flower")
    totals = {name: read.rounds[name].sum() for name in ("sampled", "received", "failed")}
    echo(f"{totals['sampled']} clients sampled: {totals['received']} results, {totals['failed']} failures")
    echo(duration_note(read))
    if read.model_bytes > 0.0:
        echo(f"The model has {read.model_bytes / 1e6:.3f} MB.")
    if read.unread_metrics:
        echo(f"{read.unread_metrics} metrics are no numbers, and are left out.")
    echo(f"{out / 'rounds.csv'}, {out / 'failures.csv'} ({len(read.failures)} with a node)")
    echo("The log does not name the clients of results, nor their times and sizes: it cannot be replayed.")


def _seconds(option: str, text: str) -> float:
    """Return a duration of more than 0 seconds, given to an *option*."""
    from netfl.units import to_si

    try:
        value = to_si(text, "s")
    except ValueError as error:
        raise ScenarioError([Fault(option, f"not a time: {error}", text, "write a time such as '10 min'")]) from None
    if not 0.0 < value < float("inf"):
        raise ScenarioError([Fault(option, "not a duration above 0", text, "write a time such as '10 min'")])
    return value
