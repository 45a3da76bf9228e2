"""Digests of a run's tables, by which two runs can be compared.

A digest depends on the content of a table, not on the file that holds it.  Rows are taken replica by replica, in their
order within a replica.  Of each column count the name and the values: integers and booleans as 64-bit integers, floats
as their 64 bits (all NaN alike), words as the first 8 bytes of the BLAKE2b of their UTF-8; all little-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from netfl.network.files import open_parquet
from netfl.results.tables import CHUNK

NETWORK = frozenset({"rounds", "deliveries", "events", "users", "nodes", "spent"})
"""Tables that the scenario and its seed determine; without learning, ``figures`` too."""
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
    """Return the digest of one Parquet file, in 32 hexadecimal digits; the file is read in pieces.

    Args:
        path: the file.
        digits: as in `run_digests`.

    Raises:
        MachineError: it cannot be read.
    """
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
    return {name for name in tables if name in NETWORK or (name == "figures" and not learning)}


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
        return values if digits is None else _rounded(values, digits)
    return np.asarray(pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False), "<i8")


def _rounded(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    return np.array([float(f"{value:.{digits - 1}e}") for value in values.tolist()], "<f8") + 0.0


def _code(word: str) -> bytes:
    return blake2b(word.encode(), digest_size=8).digest()
