"""Digests of a run's tables, and the verification of a run by them.

A digest depends on the content of a table, not on the file that holds it.  Rows are taken replica by replica, in their
order within a replica.  Of each column count the name and the values: integers and booleans as 64-bit integers, -1
where a value is missing; floats as their 64 bits, all NaN alike; words as the first 8 bytes of the BLAKE2b of their
UTF-8; all little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.files import open_parquet
from netfl.results.run_reader import Run, open_run
from netfl.results.tables import CHUNK

NETWORK = frozenset({"rounds", "deliveries", "events", "users", "nodes", "energy"})
"""Tables that the scenario and its seed determine; without learning, ``final_metrics`` too."""
DIGITS = 9
"""Digits to which tables agree between processors, whose logarithms may differ in the last bit."""
_BYTES = 16


def run_digests(folder: Path, digits: int | None = None) -> dict[str, str]:
    """Return the digest of each table in a run directory, by name.

    Args:
        folder: the run directory.
        digits: significant digits to which numbers are rounded first; ``None``: every bit counts.

    Raises:
        MachineError: a table cannot be read.
    """
    return {path.stem: table_digest(path, digits) for path in sorted(folder.glob("*.parquet"))}


def table_digest(path: Path, digits: int | None = None) -> str:
    """Return the digest of one Parquet file, in 32 hexadecimal digits, as `run_digests`; it is read in pieces."""
    hashes: dict[int, list[blake2b]] = {}
    sizes: dict[int, int] = {}
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        for batch in file.iter_batches(CHUNK):
            for replica, part in _by_replica(batch):
                columns = hashes.setdefault(replica, [blake2b(digest_size=_BYTES) for _ in names])
                sizes[replica] = sizes.get(replica, 0) + part.num_rows
                for each, column in zip(columns, part.columns, strict=True):
                    each.update(_canonical(column, digits).tobytes())
    whole = blake2b(b"".join(map(_code, names)), digest_size=_BYTES)
    for replica in sorted(hashes):
        whole.update(np.array([replica, sizes[replica]], "<i8").tobytes())
        for each in hashes[replica]:
            whole.update(each.digest())
    return whole.hexdigest()


def deterministic_tables(tables: Iterable[str], *, learning: bool) -> set[str]:
    """Return those of *tables* that the scenario determines to the bit; the others depend on learning."""
    return {name for name in tables if name in NETWORK or (name == "final_metrics" and not learning)}


def _by_replica(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each replica; a table without that column counts as replica 0."""
    if "replica" not in batch.schema.names or not batch.num_rows:
        yield 0, batch
        return
    replicas = batch.column("replica").to_numpy(zero_copy_only=False)
    order = np.argsort(replicas, kind="stable")
    if (np.diff(replicas) < 0).any():
        batch, replicas = batch.take(pa.array(order)), replicas[order]
    begins = [0, *(np.flatnonzero(np.diff(replicas)) + 1).tolist(), len(replicas)]
    for begin, end in pairwise(begins):
        yield int(replicas[begin]), batch.slice(begin, end - begin)


def _canonical(column: pa.Array, digits: int | None) -> NDArray[np.generic]:
    if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        words = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes = np.frombuffer(b"".join(map(_code, [*words.dictionary.to_pylist(), ""])), "<u8")
        return np.asarray(codes[pc.fill_null(words.indices, -1).to_numpy(zero_copy_only=False)])
    if pa.types.is_floating(column.type):
        values = np.array(column.to_numpy(zero_copy_only=False), "<f8")
        values[np.isnan(values)] = np.nan
        if digits is None:
            return values
        return np.array([float(f"{value:.{digits - 1}e}") for value in values.tolist()], "<f8") + 0.0
    return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy(zero_copy_only=False), "<i8")


def _code(word: str) -> bytes:
    return blake2b(word.encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result for one table.

    Args:
        file: the file.
        digest: digest of its present content; empty where it is missing.
        problem: the difference in words; empty without one.
        good: whether the table is as it must be.
    """

    file: Path
    digest: str
    problem: str = ""
    good: bool = True

    def __str__(self) -> str:
        return f"{self.digest or '-' * 32}  {self.file}{f': {self.problem}' if self.problem else ''}"


def verify_runs(folder: str | Path, like: str | Path | None = None) -> Iterator[VerificationResult]:
    """Yield the result for each table of a run.

    Other processors may give other last bits, so tables that are equal to `DIGITS` digits are
    good.  Tables that depend on learning are good whatever they differ by, which the result states.

    Args:
        folder: the run directory.
        like: the directory of another run, whose tables this run must have too.

    Raises:
        ScenarioError: there is no such run, it is not done, or its manifest has no digests.
        MachineError: a table is damaged.
    """
    run = open_run(folder)
    written, current = _manifest_digests(run), run_digests(run.folder)
    other = written if like is None else _manifest_digests(open_run(like))
    deterministic = deterministic_tables(written.keys() | other.keys(), learning=bool(run.manifest["learning"]))
    for name in sorted(written.keys() | current.keys() | other.keys()):
        file, digest = run.folder / f"{name}.parquet", current.get(name, "")
        if digest != written.get(name, ""):
            problem = "is not the table that the run wrote" if digest else "is missing"
            yield VerificationResult(file, digest, problem, good=False)
        elif digest != other.get(name, ""):
            yield _differing(file, digest, Path(like or "") / file.name, is_deterministic=name in deterministic)
        else:
            yield VerificationResult(file, digest)


def _differing(file: Path, digest: str, other: Path, *, is_deterministic: bool) -> VerificationResult:
    """Return the result for a table that differs from that of another run in at least one bit."""
    if not is_deterministic:
        return VerificationResult(file, digest, f"differs from {other} by rounding in the training")
    if not (file.exists() and other.exists()):
        return VerificationResult(file, digest, f"only one of it and {other} exists", good=False)
    if table_digest(file, DIGITS) == table_digest(other, DIGITS):
        return VerificationResult(file, digest, f"is the same as {other} to {DIGITS} digits, as on another processor")
    return VerificationResult(file, digest, f"differs from {other}", good=False)


def _manifest_digests(run: Run) -> dict[str, str]:
    if run.status != "done" or "digests" not in run.manifest:
        why = f"it is not finished ({run.status})" if run.status != "done" else "an earlier version of netfl wrote it"
        problem = f"the manifest of {run.folder} has no digests: {why}"
        remedy = f"finish it: netfl resume {run.folder}" if run.status != "done" else "run its scenario.yaml again"
        raise ScenarioError([Fault("", problem, None, remedy)])
    return dict(run.manifest["digests"])
