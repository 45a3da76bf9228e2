"""The command that writes the passes of satellites over ground stations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from netfl.cli.app import app, echo, path_argument, path_option
from netfl.cli.common import handle_errors


@app.command()
@handle_errors
def orbits(
    constellation: Annotated[Path, path_argument("FILE", "A constellation and its stations, in YAML.")],
    out: Annotated[Path | None, path_option("DIR", "The folder of the files. Default: the current one.")] = None,
) -> None:
    """Write when satellites pass over ground stations (passes.csv), with gains and delays (gains.csv)."""
    from netfl.scenario.orbits_file import load_orbits

    loaded = load_orbits(constellation)
    passes = loaded.passes()
    passes_path, gains_path = loaded.write(out or Path(), passes)
    for number, station in enumerate(loaded.stations):
        name = station.name or f"{station.latitude:g}°, {station.longitude:g}°"
        of_station = passes[passes["tower"] == f"tower:{number}"]
        mean_s = 0.0
        if len(of_station):
            mean_s = (of_station["end"] - of_station["start"]).mean()
        echo(f"tower:{number} ({name}): {len(of_station)} passes of {mean_s / 60.0:.1f} min on average")
    missing = loaded.satellites - passes["user"].nunique()
    if missing:
        echo(f"{missing} of {loaded.satellites} satellites pass over no station")
    echo(f"{passes_path}, {gains_path}: one revolution takes {loaded.period_s / 60.0:.1f} min")
