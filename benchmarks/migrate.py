"""Convert run directories, folders of sweeps and recordings of formats 1 and 2 to format 3, which netfl reads.

From format 1 on, rows get their order, pages their checksums, and the manifest the digests of all files.  From format 2
on, a scenario states the values that were defaults before (`KEPT_MEANINGS`), so that its tables still belong to it.  No
row changes.  The tables of a finished run must have the digests of its manifest.  Each folder is converted beside
itself; the old one is kept as FOLDER.format1 or FOLDER.format2.

    python benchmarks/migrate.py FOLDER...
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from netfl.core.formats import FORMAT, STAMP
from netfl.errors import NetflError
from netfl.results.atomic_write import write_json, write_text
from netfl.results.digests import file_digests, run_digests, signed
from netfl.results.row_order import TIMES, row_order
from netfl.results.run_reader import PASSES
from netfl.results.tables import write_parquet
from netfl.scenario import yaml_document
from netfl.scenario.path_errors import SWEEP, TASKS

Model = dict[str, Any]
"""A model of a scenario: its keys and values."""
OLD = (1, 2)
"""Formats that are converted."""


def _round_waits(model: Model) -> Model:
    """A round with a deadline waited for it, even if no update could come any more."""
    if model.get("kind") in {"first", "available", "quorum"} and model.get("deadline") is not None:
        return {"losses": "unknown"}
    return {}


def _all_users_have_shares(model: Model) -> Model:
    """Equal shares of a band were those of all users, whether they had a frame or not."""
    if model.get("kind") == "fdma" and model.get("division", "equal") == "equal":
        return {"among": "users"}
    return {}


def _loss_ends_at_reference(model: Model) -> Model:
    """No user had a smaller path loss than at the reference distance."""
    if model.get("kind") == "log_distance":
        return {"min_distance": model.get("reference_distance", 1.0)}
    return {}


def _absent_users_rest(model: Model) -> Model:
    """Users that were not in a file of motion rested, or moved on straight to where they appeared again."""
    if model.get("kind") == "sumo_fcd":
        return {"absent": "rest"}
    return {}


KEPT_MEANINGS: dict[str, Callable[[Model], Model]] = {
    "round": _round_waits,
    "mac": _all_users_have_shares,
    "channel": _loss_ends_at_reference,
    "motion": _absent_users_rest,
}
"""Values that were defaults up to format 2, which a model has to state now, by its key in a scenario."""


def migrate(folder: Path) -> None:
    """Convert *folder*, and keep the old one.

    Raises:
        ValueError: it is of another format, or its tables are not those that its manifest states.
    """
    part = folder.with_name(f"{folder.name}.part")
    old = format_of(folder)
    if old not in OLD:
        raise ValueError(f"it has the format {old}, not {' or '.join(map(str, OLD))}")
    kept = folder.with_name(f"{folder.name}.format{old}")
    if kept.exists():
        raise ValueError(f"{kept} exists already")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(folder, part)
    if (part / SWEEP).exists():
        convert_sweep(part)
    elif (part / "manifest.json").exists():
        convert_run(part)
    else:
        convert_tables(part)
    folder.rename(kept)
    part.rename(folder)


def format_of(folder: Path) -> int:
    """Return the format that the documents of *folder* state, or else its tables; without a number, it is 1."""
    for path in (folder / SWEEP, folder / "manifest.json"):
        if path.exists():
            return int(read_document(path).get("format", 1))
    stamps = [pq.read_schema(path).metadata or {} for path in folder.glob("*.parquet")]
    return max((int(stamp.get(next(iter(STAMP)), b"1")) for stamp in stamps), default=1)


def convert_sweep(folder: Path) -> None:
    """Convert the runs of a sweep, and its index."""
    for manifest in sorted((folder / TASKS).glob("*/manifest.json")):
        convert_run(manifest.parent)
    index = read_document(folder / SWEEP)
    convert_scenario(folder / "scenario.yaml")
    write_json(folder / SWEEP, {**index, "format": FORMAT})


def convert_run(folder: Path) -> None:
    """Convert the files of a run, finished or not, and the passes of its tuning."""
    for path in sorted((folder / PASSES).glob("*/manifest.json")):
        convert_run(path.parent)
    manifest = read_document(folder / "manifest.json")
    is_done = manifest["status"] == "done"
    if is_done and run_digests(folder) != manifest["digests"]:
        raise ValueError(f"the tables in {folder} are not those that the run wrote")
    convert_tables(folder)
    scenario = convert_scenario(folder / "scenario.yaml")
    manifest |= {"format": FORMAT, "users": scenario["users"]}
    if is_done:
        manifest |= {"digests": run_digests(folder), "files": file_digests(folder)}
    write_json(folder / "manifest.json", signed(manifest))


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def convert_scenario(path: Path) -> dict[str, Any]:
    """State the new format and the former defaults in a scenario, and return its content."""
    text = path.read_text(encoding="utf-8")
    content = dict(yaml_document.parse(text, str(path)))
    converted = with_kept_meanings(content) | {"format": FORMAT}
    write_text(path, yaml_document.dump({"format": FORMAT} | converted))
    return converted


def with_kept_meanings(value: Any, key: str = "") -> Any:
    """Return a part of a scenario, the value of *key*, in which all models state their former defaults."""
    family = key.rpartition(".")[-1]  # keys of sweeps and overrides are dotted
    if isinstance(value, str) and family in KEPT_MEANINGS:
        stated = KEPT_MEANINGS[family]({"kind": value})
        return {"kind": value, **stated} if stated else value
    if isinstance(value, dict):
        inner = {name: with_kept_meanings(entry, name) for name, entry in value.items()}
        if family in KEPT_MEANINGS:
            stated = KEPT_MEANINGS[family](inner)
            inner |= {name: former for name, former in stated.items() if inner.get(name) is None}
        return inner
    if isinstance(value, list):
        return [with_kept_meanings(entry, key) for entry in value]
    return value


def convert_tables(folder: Path) -> None:
    """Sort the rows of all tables, and write them with checksums."""
    for path in sorted(folder.glob("*.parquet")):
        rows = pq.read_table(path).unify_dictionaries().combine_chunks()
        if path.stem in TIMES and len(rows):
            order = row_order(rows, TIMES[path.stem], np.zeros(len(rows), np.int64))
            rows = rows.take(pa.array(order))
        write_parquet(path, rows.schema, [rows])


def main() -> None:
    """Convert the folders that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    for folder in parser.parse_args().folders:
        try:
            migrate(folder)
        except (OSError, ValueError, KeyError, NetflError) as error:
            sys.exit(f"{folder}: {error}")
        print(f"{folder}: format {FORMAT}; the old one is kept beside it")


if __name__ == "__main__":
    main()
