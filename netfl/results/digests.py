"""Digests of the files of a run, and the verification of a run by them.

The digest of a table depends on its content, not on the file that holds it.  Rows are taken replica by replica, in
their order within a replica.  Of each column count the name and the values: integers and booleans as 64-bit integers,
-1 where a value is missing; floats as their 64 bits, all NaN alike; words as the first 8 bytes of the BLAKE2b of their
UTF-8; all little-endian.  The digest of another file is that of its bytes, and that of the manifest one of its entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from netfl.core.remedies import call
from netfl.errors import Fault, MachineError, NetflError, ScenarioError
from netfl.files import RESTORE, is_present, open_file, unreadable_file
from netfl.files.parquet import open_parquet
from netfl.results.differing_keys import differing_keys
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import MERGED, PASSES, Run, open_run
from netfl.results.run_schema import read_rows
from netfl.results.tables import GROWING

NETWORK = frozenset({*GROWING, "users", "nodes", "energy"} - {"metrics"})
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


def file_digests(folder: Path) -> dict[str, str]:
    """Return the digest of each other file of results in a run directory, by name: scenario, summary and versions."""
    return {name: _file_digest(folder / name) for name in _other_files(folder)}


def _other_files(folder: Path) -> list[str]:
    """Return the names of the files of results that are no tables."""
    paths = [folder / "scenario.yaml", folder / "summary.json", *sorted(folder.glob(f"{VERSIONS}/*.safetensors"))]
    return [path.relative_to(folder).as_posix() for path in paths if is_present(path)]


def _file_digest(path: Path) -> str:
    try:
        with open_file(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=_BYTES)).hexdigest()
    except OSError as error:
        raise unreadable_file(path, error) from error


def signed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the digest of its other entries."""
    entries = {key: value for key, value in manifest.items() if key != "digest"}
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"))
    return {**entries, "digest": blake2b(text.encode(), digest_size=_BYTES).hexdigest()}


def table_digest(path: Path, digits: int | None = None) -> str:
    """Return the digest of one Parquet file, in 32 hexadecimal digits, as `run_digests`; it is read in pieces."""
    contents = _read_contents(path, digits)
    return _combine(contents.names, contents)


def column_digests(path: Path, digits: int | None = None) -> dict[str, str]:
    """Return the digest of each column of one Parquet file: that of the table if it had no other column.

    It depends on the replicas of the rows, too.
    """
    contents = _read_contents(path, digits)
    return {name: _combine([name], contents) for name in contents.names}


@dataclass(frozen=True, slots=True)
class _TableContents:
    """Hashes of the values of a table.

    Args:
        names: names of its columns.
        sizes: number of rows of each replica.
        hashes: hash of each column in each replica.
    """

    names: list[str]
    sizes: dict[int, int]
    hashes: dict[int, dict[str, blake2b]]


def _read_contents(path: Path, digits: int | None) -> _TableContents:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
    contents = _TableContents(names, {}, {})
    for batch in read_rows(path):
        for replica, part in _by_replica(batch):
            hashes = contents.hashes.setdefault(replica, {name: blake2b(digest_size=_BYTES) for name in names})
            contents.sizes[replica] = contents.sizes.get(replica, 0) + part.num_rows
            for name, column in zip(names, part.columns, strict=True):
                hashes[name].update(_canonical(column, digits).tobytes())
    return contents


def _combine(names: Sequence[str], contents: _TableContents) -> str:
    """Return the digest of the columns *names* of a table."""
    whole = blake2b(b"".join(map(_code, names)), digest_size=_BYTES)
    for replica in sorted(contents.sizes):
        whole.update(np.array([replica, contents.sizes[replica]], "<i8").tobytes())
        for name in names:
            whole.update(contents.hashes[replica][name].digest())
    return whole.hexdigest()


def _by_replica(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each replica; a table without these numbers counts as replica 0."""
    has_numbers = "replica" in batch.schema.names and pa.types.is_integer(batch.schema.field("replica").type)
    if not has_numbers or not batch.num_rows:
        yield 0, batch
        return
    replicas = batch.column("replica").to_numpy(zero_copy_only=False)
    if (np.diff(replicas) < 0).any():
        order = np.argsort(replicas, kind="stable")
        batch = batch.take(pa.array(order))
        replicas = replicas[order]
    begins = np.flatnonzero(np.diff(replicas)) + 1  # of all replicas but the first
    for begin, end in pairwise([0, *begins.tolist(), len(replicas)]):
        yield int(replicas[begin]), batch.slice(begin, end - begin)


def _canonical(column: pa.Array, digits: int | None) -> NDArray[np.generic]:
    """Return the values of a column as the digest takes them, numbers rounded to *digits* first."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _canonical_words(column.dictionary_encode())
    if pa.types.is_dictionary(kind):
        return _canonical_words(column)
    if pa.types.is_floating(kind):
        values = np.array(column.to_numpy(zero_copy_only=False), "<f8")
        values[np.isnan(values)] = np.nan  # all NaN alike
        if digits is None:
            return values
        rounded = np.array([float(f"{value:.{digits - 1}e}") for value in values.tolist()], "<f8")
        return rounded + 0.0  # no -0
    return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy(zero_copy_only=False), "<i8")


def _canonical_words(words: pa.DictionaryArray) -> NDArray[np.generic]:
    """Return the code of each word; that of a missing one is the code of the empty word."""
    codes = [_code(word) for word in words.dictionary.to_pylist()]
    codes.append(_code(""))  # at the place -1
    places = pc.fill_null(words.indices, -1).to_numpy(zero_copy_only=False)
    return np.asarray(np.frombuffer(b"".join(codes), "<u8")[places])


def _code(word: str) -> bytes:
    """Return the first 8 bytes of the BLAKE2b of a word."""
    return blake2b(word.encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result for one file.

    Args:
        file: the file.
        digest: digest of its present content; empty where it is missing or damaged.
        problem: the difference in words; empty without one.
        good: whether the file is as it must be.
    """

    file: Path
    digest: str
    problem: str = ""
    good: bool = True

    def __str__(self) -> str:
        line = f"{self.digest or '-' * 32}  {self.file}"
        if self.problem:
            line += f": {self.problem}"
        return line


def pass_folder(folder: Path, number: int, replica: int | None = None) -> Path:
    """Return the folder of a pass, from 1, of the tuning of the run in *folder*, or of that of one *replica* of it."""
    place = folder / PASSES
    if replica is not None:
        place /= f"replica-{replica}"
    return place / f"pass-{number}"


def verify_runs(folder: str | Path, like: str | Path | None = None) -> Iterator[VerificationResult]:
    """Yield the result for each file of a run: manifest, scenario, summary, tables, versions, and those of its passes.

    Other processors may give other last bits, so tables that are equal to `DIGITS` digits are good.  Files that depend
    on learning are good whatever they differ by if the scenarios agree, which the result states.

    Args:
        folder: the run directory.
        like: the directory of another run, whose files this run must have too.

    Raises:
        ScenarioError: there is no such run, it is not done, or its manifest has no digests.
        MachineError: a manifest is damaged.
    """
    run = open_run(folder)
    written = _written_digests(run)
    other = None
    others: Mapping[str, str] = {}
    if like is not None and Path(like) != run.folder:
        other = open_run(like)
        others = _written_digests(other)
    yield _verify_manifest(run)
    for name in sorted(written.keys() | _present_files(run) | others.keys()):
        result = _verify_file(run, name, written.get(name))
        if result.good and other is not None and result.digest != others.get(name):
            result = _compare_file(run, other, name, result.digest)
        yield result
    for number, replica in _passes(run):
        of_pass = pass_folder(run.folder, number, replica)
        if not is_present(of_pass):
            yield VerificationResult(of_pass, "", "is missing", good=False)
            continue
        like_pass = None
        if other is not None and is_present(pass_folder(other.folder, number, replica)):
            like_pass = pass_folder(other.folder, number, replica)
        yield from verify_runs(of_pass, like_pass)


def _passes(run: Run) -> Iterator[tuple[int, int | None]]:
    """Yield the number of each pass of the tuning of *run*, and its replica if that is tuned by itself."""
    passes = (run.manifest.get("tuning") or {}).get("passes", 0)
    if isinstance(passes, int):
        yield from ((number, None) for number in range(1, 1 + passes))
        return
    for replica, of_replica in enumerate(passes, run.manifest.get("first", 0)):
        yield from ((number, replica) for number in range(1, 1 + of_replica))


def check_files(run: Run) -> None:
    """Check that the files of a finished run are those that it wrote.

    Raises:
        ScenarioError: its manifest has no digests.
        MachineError: a file is missing, damaged or changed.
    """
    written = _written_digests(run)
    results = (_verify_file(run, name, digest) for name, digest in written.items())
    wrong = next((result for result in (_verify_manifest(run), *results) if not result.good), None)
    if wrong is not None:
        problem = wrong.problem.removesuffix(f"; {RESTORE}")
        raise MachineError(f"{wrong.file} {problem}; {RESTORE}")


def _verify_manifest(run: Run) -> VerificationResult:
    file = run.path_of("manifest.json")
    digest = signed(run.manifest)["digest"]
    if digest != run.manifest.get("digest"):
        return VerificationResult(file, digest, "is not the file that the run wrote", good=False)
    return VerificationResult(file, digest)


def _verify_file(run: Run, name: str, written: str | None) -> VerificationResult:
    """Return the result for a file with the digest that the run has *written*; ``None`` if it had no such file."""
    file = run.folder / name
    try:
        file = run.path_of(name)
        if not is_present(file):
            return VerificationResult(file, "", "is missing", good=False)
        digest = table_digest(file) if file.suffix == ".parquet" else _file_digest(file)
    except NetflError as error:
        return VerificationResult(file, "", str(error).removeprefix(f"{file} "), good=False)
    if digest != written:
        return VerificationResult(file, digest, "is not the file that the run wrote", good=False)
    return VerificationResult(file, digest)


def _compare_file(run: Run, other: Run, name: str, digest: str) -> VerificationResult:
    """Return the result for a file that differs from that of another run in at least one bit."""
    file = run.path_of(name)
    like = other.path_of(name)
    keys = differing_keys([run.scenario, other.scenario])
    if name == "scenario.yaml":
        problem = ""  # only names, descriptions and the like differ
        if keys:
            differences = ", ".join(f"{key} ({' / '.join(values)})" for key, values in keys.items())
            problem = f"differs from {like}: {differences}"
        return VerificationResult(file, digest, problem, good=not keys)
    learns = bool(run.fact("learning"))
    is_network = not name.startswith(VERSIONS) and (file.stem in NETWORK or not learns)
    if not is_network and learns != other.fact("learning"):
        problem = f"is not compared with {like}, as only one of the runs has learners"
        return VerificationResult(file, digest, problem)
    if not is_present(like):
        return VerificationResult(file, digest, f"is not in {like.parent}", good=False)
    if not is_network and not keys:
        return VerificationResult(file, digest, f"differs from {like} by rounding in the training")
    if is_network and _rounded_digest(file) == _rounded_digest(like):
        return VerificationResult(file, digest, f"is the same as {like} to {DIGITS} digits, as on another processor")
    return VerificationResult(file, digest, f"differs from {like}", good=False)


def _rounded_digest(path: Path) -> str:
    """Return the digest of a table, or of a summary, whose numbers are rounded to `DIGITS` digits."""
    if path.suffix == ".parquet":
        return table_digest(path, DIGITS)
    values = json.loads(path.read_text(encoding="utf-8"))
    for name, value in values.items():
        if value is not None:  # a metric that some replica lacks
            values[name] = float(f"{value:.{DIGITS - 1}e}")
    return str(signed(values)["digest"])


def _present_files(run: Run) -> set[str]:
    """Return the names of the files of results that a run has."""
    tables = (f"{name}.parquet" for name in run.tables)
    return {*tables, *_other_files(run.folder), *_other_files(run.folder / MERGED)}


def _written_digests(run: Run) -> dict[str, str]:
    """Return the digest of each file that the run wrote, by name."""
    problem = f"the manifest of {run.folder} has no digests"
    if run.status != "done":
        problem = f"{problem}: it is not finished ({run.status})"
        raise ScenarioError([Fault("", problem, None, f"finish it: {call('resume', run.folder)}")])
    if not {"digests", "files"} <= run.manifest.keys():
        raise ScenarioError([Fault("", f"{problem}: they were removed", None, "run its scenario.yaml again")])
    of_tables = {f"{name}.parquet": digest for name, digest in run.manifest["digests"].items()}
    return {**of_tables, **run.manifest["files"]}
