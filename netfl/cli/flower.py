"""The command that runs Flower apps; the run itself is in `netfl.flower.app_run`."""

from __future__ import annotations

from typing import Annotated

import typer

from netfl.cli.app import Out, Quiet, Report, ScenarioFile, app, echo, number_option
from netfl.cli.common import exit_interrupted, handle_errors, printed_warnings, report_outcome, warn_of_sweep
from netfl.cli.options import ScenarioOptions, with_options
from netfl.cli.usage_errors import Commands

flower = typer.Typer(cls=Commands, help="Run Flower apps over a simulated network.", no_args_is_help=True)
app.add_typer(flower, name="flower")

App = Annotated[
    str,
    typer.Option(
        "--app",
        metavar="MODULE[:SERVER,CLIENT]",
        help="The module with the ServerApp and the ClientApp, or the folder of a Flower project.",
        show_default=False,
    ),
]
RunConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--run-config",
        metavar="KEY=VALUE|FILE.toml",
        help="Replace values of the app's run config: one key, or the keys of a TOML file.",
    ),
]
SizesOption = Annotated[
    str, typer.Option("--sizes", help="Sizes of updates and broadcasts: those of the messages, or of the scenario.")
]
RepliesOption = Annotated[
    str, typer.Option("--replies", help="Replies that are computed: delivered, or all, also those that are lost.")
]
EvaluationOption = Annotated[
    str, typer.Option("--evaluation", help="Path of evaluate messages: direct (no time passes) or network (as rounds).")
]
MaxUpdateBits = Annotated[
    float | None,
    number_option(kind=float, minimum=1, help="Size of the largest update, in bits. Default: that of the first round."),
]

CallLimit = Annotated[
    float | None,
    number_option(kind=float, minimum=0.001, help="Seconds that a call of a ClientApp may take. Default: 3600."),
]


@flower.callback()
def _group() -> None:
    """Run Flower apps over a simulated network."""


@flower.command("run")
@handle_errors
@with_options
def run(
    scenario: ScenarioFile,
    app_name: App,
    changes: ScenarioOptions,
    run_config: RunConfig = None,
    sizes: SizesOption = "messages",
    replies: RepliesOption = "delivered",
    evaluation: EvaluationOption = "direct",
    max_update_bits: MaxUpdateBits = None,
    call_limit: CallLimit = None,
    out: Out = None,
    quiet: Quiet = False,
    report: Report = False,
) -> None:
    """Run a Flower ServerApp and ClientApp over the network of a scenario."""
    from netfl.flower.versions import check_flower

    check_flower()
    from netfl.core.screen import open_console
    from netfl.flower.app_files import load_app
    from netfl.flower.app_run import run as run_app
    from netfl.flower.grid import CALL_LIMIT_S
    from netfl.simulation.progress import ProgressDisplay

    loaded = changes.load(scenario)
    flower_app = load_app(app_name, run_config or [])
    warn_of_sweep(loaded, quiet)
    with printed_warnings(quiet), ProgressDisplay(open_console(), quiet=quiet) as observer:
        done = run_app(
            loaded,
            flower_app.server,
            flower_app.client,
            out,
            run_config=flower_app.config,
            sizes=sizes,  # type: ignore[arg-type]  # the grid checks it
            replies=replies,  # type: ignore[arg-type]
            evaluation=evaluation,  # type: ignore[arg-type]
            max_update_bits=max_update_bits,
            call_limit_s=call_limit or CALL_LIMIT_S,
            name=app_name,
            observer=observer,
        )
    report_outcome(done, quiet, report=report)
    for note in done.manifest.get("app_notes", ()):
        echo(f"note: {note}", err=True)
    if failures := done.manifest.get("app_errors"):
        first, failed, calls = failures
        problem = f"the ClientApp failed {failed} times of {calls}, first with {first}; see {done.folder}/flower.log"
        echo(problem, err=True)
        if failed == calls:
            raise typer.Exit(1)
    if done.manifest["replicas"] < loaded.replicas:
        progress = f"with {done.manifest['replicas']} of {loaded.replicas} replicas"
        exit_interrupted("the run of a Flower app cannot be continued", progress)
