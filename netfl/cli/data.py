"""Commands about real data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from netfl.cli.app import app
from netfl.cli.common import handle_errors

data_app = typer.Typer(help="List and download real data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("list")
@handle_errors
def data_list() -> None:
    """List the data sets, and the folders in which netfl looks for them."""
    from netfl.cli.views.model_list import show_data

    show_data()


@data_app.command("fetch")
@handle_errors
def data_fetch(name: Annotated[str, typer.Argument(help="A data set, such as mnist.")]) -> None:
    """Download a data set into the cache and check it."""
    from netfl.learning.data import _download

    typer.echo(f"{_download.fetch_dataset(name)}")
