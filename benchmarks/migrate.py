"""Convert run directories, folders of sweeps and recordings of format 1 to format 2, which netfl reads.

Rows get their order, pages their checksums, and the manifest the digests of all files; no value changes.  The tables of
a finished run must have the digests of its manifest.  Each folder is converted beside itself; the old one is kept as
FOLDER.format1.

    python benchmarks/migrate.py FOLDER...
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from netfl.errors import NetflError
from netfl.results.atomic_write import write_json, write_text
from netfl.results.digests import file_digests, run_digests, signed
from netfl.results.row_order import TIMES, row_order
from netfl.results.tables import write_parquet
from netfl.scenario import yaml_document
from netfl.scenario.path_errors import SWEEP, TASKS

OLD, NEW = 1, 2


def migrate(folder: Path) -> None:
    """Convert *folder*, and keep the old one.

    Raises:
        ValueError: it is of another format, or its tables are not those that its manifest states.
    """
    part = folder.with_name(f"{folder.name}.part")
    kept = folder.with_name(f"{folder.name}.format{OLD}")
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


def convert_sweep(folder: Path) -> None:
    """Convert the runs of a sweep, and its index."""
    for manifest in sorted((folder / TASKS).glob("*/manifest.json")):
        convert_run(manifest.parent)
    index = read_document(folder / SWEEP)
    convert_scenario(folder / "scenario.yaml")
    write_json(folder / SWEEP, {**index, "format": NEW})


def convert_run(folder: Path) -> None:
    """Convert the files of a run, finished or not."""
    manifest = read_document(folder / "manifest.json")
    is_done = manifest["status"] == "done"
    if is_done and run_digests(folder) != manifest["digests"]:
        raise ValueError(f"the tables in {folder} are not those that the run wrote")
    convert_tables(folder)
    scenario = convert_scenario(folder / "scenario.yaml")
    manifest |= {"format": NEW, "users": scenario["users"]}
    if is_done:
        manifest |= {"digests": run_digests(folder), "files": file_digests(folder)}
    write_json(folder / "manifest.json", signed(manifest))


def read_document(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of the old format."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format", OLD) != OLD:
        raise ValueError(f"{path} has the format {content['format']}, not {OLD}")
    return content


def convert_scenario(path: Path) -> dict[str, Any]:
    """State the new format in a scenario, and return its content."""
    text = path.read_text(encoding="utf-8")
    write_text(path, text.replace(f"format: {OLD}\n", f"format: {NEW}\n", 1))
    return dict(yaml_document.parse(text, str(path)))


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
        print(f"{folder}: format {NEW}; the old one is {folder}.format{OLD}")


if __name__ == "__main__":
    main()
