"""Verification of a finished run: compare its tables with its manifest, and with another run of its scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netfl.errors import Fault, ScenarioError
from netfl.results import digests
from netfl.results.run_reader import Run, open_run


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
        """Return one line: the digest, the file and the problem."""
        return f"{self.digest or '-' * 32}  {self.file}{f': {self.problem}' if self.problem else ''}"


def verify_runs(folder: str | Path, like: str | Path | None = None) -> Iterator[VerificationResult]:
    """Yield the result for each table of a run.

    Other processors may give other last bits, so tables that are equal to `netfl.results.digests.DIGITS` digits are
    good.  Tables that depend on learning are good whatever they differ by, which the result states.

    Args:
        folder: the run directory.
        like: the directory of another run, whose tables this run must have too.

    Raises:
        ScenarioError: there is no such run, it is not done, or its manifest has no digests.
        MachineError: a table is damaged.
    """
    run = open_run(folder)
    written, current = _manifest_digests(run), digests.run_digests(run.folder)
    other = written if like is None else _manifest_digests(open_run(like))
    deterministic = digests.deterministic_tables(written.keys() | other.keys(), learning=bool(run.manifest["learning"]))
    for name in sorted(written.keys() | current.keys() | other.keys()):
        file, digest = run.folder / f"{name}.parquet", current.get(name, "")
        if digest != written.get(name, ""):
            problem = "is not the table that the run wrote" if digest else "is not there any more"
            yield VerificationResult(file, digest, problem, good=False)
        elif digest != other.get(name, ""):
            yield _differing(file, digest, Path(like or "") / file.name, is_deterministic=name in deterministic)
        else:
            yield VerificationResult(file, digest)


def _differing(file: Path, digest: str, other: Path, *, is_deterministic: bool) -> VerificationResult:
    """Return the result for a table that differs from that of another run in at least one bit."""
    if not is_deterministic:
        return VerificationResult(file, digest, f"differs from {other}, as what is learned may by rounding")
    if not (file.exists() and other.exists()):
        return VerificationResult(file, digest, f"only one of it and {other} is there", good=False)
    if digests.table_digest(file, digests.DIGITS) == digests.table_digest(other, digests.DIGITS):
        return VerificationResult(
            file, digest, f"is the same as {other} to {digests.DIGITS} digits, as on another processor"
        )
    return VerificationResult(file, digest, f"differs from {other}", good=False)


def _manifest_digests(run: Run) -> dict[str, str]:
    """Return the digests in a run's manifest.

    Raises:
        ScenarioError: there are none.
    """
    if run.status != "done" or "digests" not in run.manifest:
        why = f"it is not finished ({run.status})" if run.status != "done" else "an earlier netfl wrote it"
        problem = f"the manifest of {run.folder} has no digests: {why}"
        remedy = f"finish it: netfl resume {run.folder}" if run.status != "done" else "run its scenario.yaml again"
        raise ScenarioError([Fault("", problem, None, remedy)])
    return dict(run.manifest["digests"])
