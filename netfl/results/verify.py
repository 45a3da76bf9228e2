"""Whether a finished run's tables are those that it wrote, and those that another run of its scenario wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netfl.errors import Fault, ScenarioError
from netfl.results import digests
from netfl.results.run_reader import Run, open_run


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """What is to be said of one table.

    Args:
        file: its file.
        digest: of what is in it now; empty where it is missing.
        problem: what it differs from; empty if from nothing.
        good: whether that is all as it must be.
    """

    file: Path
    digest: str
    problem: str = ""
    good: bool = True

    def __str__(self) -> str:
        """One line: the digest, the file, and what is wrong."""
        return f"{self.digest or '-' * 32}  {self.file}{f': {self.problem}' if self.problem else ''}"


def verify_runs(folder: str | Path, like: str | Path | None = None) -> Iterator[VerificationResult]:
    """What is to be said of each table of a run.

    Other processors may give other last bits: tables that are the same to `netfl.results.digests.DIGITS` digits are
    good.  So
    are those that learning has a part in, whatever they differ by, which is said.

    Args:
        folder: of the run.
        like: that of a run whose tables it must have, too.

    Raises:
        ScenarioError: there is no such run, or it is not done, or of a netfl that told no digests.
        MachineError: a table is damaged.
    """
    run = open_run(folder)
    told, found = _told(run), digests.run_digests(run.folder)
    other = told if like is None else _told(open_run(like))
    decided = digests.deterministic_tables(told.keys() | other.keys(), learning=bool(run.manifest["learning"]))
    for name in sorted(told.keys() | found.keys() | other.keys()):
        file, digest = run.folder / f"{name}.parquet", found.get(name, "")
        if digest != told.get(name, ""):
            problem = "is not the table that the run wrote" if digest else "is not there any more"
            yield VerificationResult(file, digest, problem, good=False)
        elif digest != other.get(name, ""):
            yield _differing(file, digest, Path(like or "") / file.name, decided=name in decided)
        else:
            yield VerificationResult(file, digest)


def _differing(file: Path, digest: str, other: Path, *, decided: bool) -> VerificationResult:
    """What is to be said of a table that is not the same to the last bit as that of another run."""
    if not decided:
        return VerificationResult(file, digest, f"differs from {other}, as what is learned may by rounding")
    if not (file.exists() and other.exists()):
        return VerificationResult(file, digest, f"only one of it and {other} is there", good=False)
    if digests.table_digest(file, digests.DIGITS) == digests.table_digest(other, digests.DIGITS):
        return VerificationResult(
            file, digest, f"is the same as {other} to {digests.DIGITS} digits, as on another processor"
        )
    return VerificationResult(file, digest, f"differs from {other}", good=False)


def _told(run: Run) -> dict[str, str]:
    """The digests in a run's manifest.

    Raises:
        ScenarioError: there are none.
    """
    if run.status != "done" or "digests" not in run.manifest:
        why = f"it is not finished ({run.status})" if run.status != "done" else "an earlier netfl wrote it"
        problem = f"the manifest of {run.folder} has no digests: {why}"
        remedy = f"finish it: netfl resume {run.folder}" if run.status != "done" else "run its scenario.yaml again"
        raise ScenarioError([Fault("", problem, None, remedy)])
    return dict(run.manifest["digests"])
