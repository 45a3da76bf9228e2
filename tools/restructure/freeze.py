"""Digests of the tables of every scenario with two seeds, traced and run, column by column.

    python tools/restructure/freeze.py digests.json                 # plays all scenarios; takes some minutes
    python tools/restructure/freeze.py --compare before.json after.json [renames.json]

It uses nothing of netfl but `netfl.load`, `run` and `trace`, so that it works before and after the redesign.
*renames.json* maps "table" or "table.column" of before to what it is called after.
"""

import json
import sys
import tempfile
import warnings
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

SEEDS = (7, 11)
LEFT_OUT = {"replica", "wall_s", "cpu_s"}


def column_digest(values: pd.Series) -> str:
    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        data = np.ascontiguousarray(values.to_numpy(dtype="float64", na_value=np.nan)).tobytes()
    else:
        data = json.dumps([None if v is None else str(v) for v in values.tolist()]).encode()
    return f"{len(values)}:{blake2b(data, digest_size=8).hexdigest()}"


def digests(folder: Path) -> dict[str, dict[str, str]]:
    return {
        path.stem: {name: column_digest(column) for name, column in pd.read_parquet(path).items()}
        for path in sorted(folder.glob("*.parquet"))
    }


def play(path: Path, seed: int, mode: str) -> object:
    import netfl

    heavy = path.parent.name in {"paper", "learning", "beyond", "sweeps"}
    rounds = 150 if mode == "trace" else 3 if heavy else 12
    first = netfl.load(path)
    changes = {"seed": seed, "replicas": min(2, first.replicas)}
    if first.rounds is not None:
        changes["rounds"] = min(rounds, first.rounds)
    with tempfile.TemporaryDirectory() as out:
        scenario = netfl.load(path, changes)
        getattr(netfl, mode)(scenario, Path(out) / "run")
        return digests(Path(out) / "run")


def main() -> None:
    target = Path(sys.argv[1])
    found: dict[str, object] = json.loads(target.read_text()) if target.exists() else {}
    for path in sorted(Path("scenarios").rglob("*.yaml")):
        for seed in SEEDS:
            for mode in ("trace", "run"):
                if mode == "run" and "shakespeare" in path.name:
                    continue  # minutes for one evaluation
                key = f"{path.relative_to('scenarios')} | {seed} | {mode}"
                if key in found:
                    continue
                try:
                    found[key] = play(path, seed, mode)
                except Exception as error:
                    found[key] = {"error": {type(error).__name__: "1"}}
                target.write_text(json.dumps(found, indent=1))
    print(len(found), "plays,", sum("error" in v for v in found.values()), "of them errors")


def compare(before: str, after: str, renames: str | None = None) -> None:
    old, new = json.loads(Path(before).read_text()), json.loads(Path(after).read_text())
    changed = json.loads(Path(renames).read_text()) if renames else {}
    differences = columns = 0
    for key, tables in old.items():
        for table, values in tables.items():
            for column, digest in values.items():
                columns += 1
                other = changed.get(f"{table}.{column}", column)
                there = new.get(key, {}).get(changed.get(table, table), {}).get(other)
                if there != digest:
                    differences += 1
                    print(f"{key}: {table}.{column}: {digest} -> {there}")
    print(f"{columns} columns of {len(old)} plays, {differences} differ")
    sys.exit(differences > 0)


if sys.argv[1] == "--compare":
    compare(*sys.argv[2:])
else:
    warnings.simplefilter("ignore")
    main()
