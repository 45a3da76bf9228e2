"""Commands that read logs of real networks, and write files that scenarios read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

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

    _check_users(users, device, round_length)
    read = read_lorawan(log)
    if round_length is None:  # the users are gateways, and a frame is a round
        chosen = read.choose_device(device)
        recording = read.recording_of_gateways(chosen)
        frames = read.table(chosen)
        recording.write(out)
        frames.to_csv(out / "frames.csv", index=False, lineterminator="\n")
        echo(
            f"device {chosen}: {len(read.frames[chosen])} frames, {read.missing(chosen)} missing counters, "
            f"{read.sessions(chosen)} sessions; {out / 'frames.csv'}"
        )
        meaning = "A missing counter is a lost frame, or one that the device counted and did not send."
    else:
        recording = read.recording_of_devices(_seconds("--round", round_length))
        recording.write(out)
        meaning = "A round without a delivery of a device may be a loss, or a time in which it sent nothing."
    echo(f"{log.name}: {read.duplicates} lines of duplicates, {read.other_lines} lines that are no uplinks")
    echo(f"{out}: {recording.rounds} rounds of {len(recording.names)} users, {len(recording.round)} deliveries")
    echo(meaning)


def _check_users(users: str, device: str | None, round_length: str | None) -> None:
    """Raise an error for an unknown kind of users, and for options that do not fit it."""
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


@import_app.command("phone")
@handle_errors
def import_phone(
    logs: Annotated[list[Path], path_argument("LOG...", "Logs of phones or modems: tables with a heading.")],
    out: Annotated[Path, path_option("TABLE", "The file for the channel trace, .csv or .parquet, which is made.")],
    quantity: Annotated[
        str, typer.Option("--quantity", metavar="WORD", help="What to read: rsrp, snr or rate.")
    ] = "rsrp",
    direction: Annotated[str, typer.Option("--direction", metavar="WORD", help="Of a rate: down or up.")] = "down",
    column: Annotated[
        str | None, typer.Option("--column", metavar="HEADING", help="The heading of the values.")
    ] = None,
    unit: Annotated[str | None, typer.Option("--unit", metavar="UNIT", help="The unit of a rate, as Mbit/s.")] = None,
    time_column: Annotated[
        str | None, typer.Option("--time-column", metavar="HEADING", help="The heading of the times.")
    ] = None,
    time_unit: Annotated[
        str | None, typer.Option("--time-unit", metavar="UNIT", help="The unit of times that are numbers: s or ms.")
    ] = None,
    user_column: Annotated[
        str | None, typer.Option("--user-column", metavar="HEADING", help="The heading of names, in a log of several.")
    ] = None,
    align: Annotated[
        str,
        typer.Option("--align", metavar="WORD", help="Time 0 of users: start, each its own, or clock, one for all."),
    ] = "start",
) -> None:
    """Write RSRP, SNR or rates of phones over time as a file for the channel `trace`; each phone is a user."""
    from netfl.files.phone_logs import read_phone_log, to_trace, write_trace

    choices = (
        ("--quantity", quantity, ("rsrp", "snr", "rate")),
        ("--direction", direction, ("down", "up")),
        ("--align", align, ("start", "clock")),
        ("--time-unit", time_unit or "s", ("s", "ms")),
    )
    for option, word, known in choices:
        if word not in known:
            raise ScenarioError([Fault(option, "no such word", word, f"write one of: {', '.join(known)}")])
    if quantity != "rate" and direction != "down":
        raise ScenarioError([Fault("--direction", "has no effect: only rates have one", direction, "leave it out")])
    read = [
        read_phone_log(
            log,
            cast(Any, quantity),
            direction=cast(Any, direction),
            column=column,
            unit=unit,
            time_column=time_column,
            time_unit=cast(Any, time_unit),
            user_column=user_column,
        )
        for log in logs
    ]
    trace = to_trace(read, align=cast(Any, align))
    write_trace(trace, out)
    user_count = 0
    for path, log in zip(logs, read, strict=True):
        first_user = user_count
        user_count += len(log.values["name"].drop_duplicates())
        last_user = user_count - 1
        users = f"user {first_user}" if first_user == last_user else f"users {first_user} to {last_user}"
        echo(
            f"{path.name}: {users}, {len(log.values)} values of {log.heading}, {log.missing} rows without one, "
            f"{log.repeated} rows of a repeated time; the longest gap is {log.longest_gap_s:g} s"
        )
    column = read[0].column  # the same in all logs
    ends_s = trace.groupby("user")["time_s"].max()
    echo(f"{out}: {column} of {user_count} users, to {ends_s.min():g} s at least; read it with the channel trace")


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
