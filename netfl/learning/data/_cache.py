"""Where real data sets lie, how they are checked, and how they are fetched."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from netfl.errors import Fault, MachineError, ScenarioError, suggest
from netfl.learning.data._sources import SOURCES, File, Source

_PACKED = (".gz", ".xz")
_MOST_BYTES = 4_000_000_000
"""The most that a packed file may come to; the largest of the published ones comes to a fraction of it."""
_MD5_DIGITS = 32
_SAFE = frozenset({"https"})
"""Ways by which files are fetched."""


class Listed(NamedTuple):
    """A set and whether it is here.

    Args:
        name: what `fetch` calls it.
        state: whether all its files are there.
        folder: where it lies or would lie.
        source: how it is to be had.
    """

    name: str
    state: Literal["here", "not here"]
    folder: Path
    source: str


class Content(NamedTuple):
    """A file of a set, read and checked.

    Args:
        path: where it lies.
        data: what it holds, unpacked if it lies packed where the set's own file is not.
    """

    path: Path
    data: bytes


def root() -> Path:
    """The folder of all sets: that of the environment variable ``NETFL_DATA``, or the user's cache folder."""
    given = os.environ.get("NETFL_DATA")
    if given:
        return Path(given)
    import pooch  # noqa: PLC0415 - slow to import

    return Path(pooch.os_cache("netfl"))


def contents(name: str) -> tuple[Content, ...]:
    """The files of a set, each there and checked; one may also lie packed, with ``.gz`` or ``.xz`` after its name.

    Raises:
        ScenarioError: a file is missing.
        MachineError: a file cannot be read, or is not the published one.
    """
    source = SOURCES[name]
    folder = root() / source.folder
    instead = bool(source.instead) and _whole(folder, source.instead) and not _whole(folder, source.files)
    files = source.instead if instead else source.files
    _miss(name, [folder / file for file, _ in files if _found(folder, file) is None])
    return tuple(_content(_found(folder, file) or folder / file, file, sum_) for file, sum_ in files)


def unpacked(data: bytes, suffix: str = ".gz", most: int = _MOST_BYTES) -> bytes:
    """What *data* hold, packed as files with that *suffix* are.

    Raises:
        OSError: they are no such data, or come to more than *most* bytes.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(data)) if suffix == ".gz" else lzma.LZMAFile(io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it comes to more than {most / 1e9:g} GB")
    return found


def listing() -> tuple[Listed, ...]:
    """Every set that comes as files, and whether it is here; files are checked when they are read."""
    return tuple(_listed(name, source) for name, source in SOURCES.items())


def fetch(name: str) -> Path:
    """Fetch what is missing of a set, check all of it, and give its folder.

    Raises:
        ScenarioError: there is no such set, or it cannot be fetched but has to be downloaded by hand.
        MachineError: a file cannot be fetched or written, or is not the published one; the message says how to get it
            by hand.
    """
    if name not in SOURCES:
        raise ScenarioError([Fault("", "no such set", name, suggest(name, [*SOURCES]))])
    source = SOURCES[name]
    folder = root() / source.folder
    if _listed(name, source).state == "here":
        contents(name)
        return folder
    if source.by_hand:
        _miss(name, [folder / file for file, _ in source.files if _found(folder, file) is None])
    for file, expected in source.files:
        if _found(folder, file) is None:
            _retrieve(source.url + file, expected, folder / file)
    contents(name)
    return folder


def _retrieve(url: str, expected: str, path: Path) -> None:
    """Download a file and check it; what is not the published file is not kept."""
    import pooch  # noqa: PLC0415 - slow to import

    if urlsplit(url).scheme not in _SAFE:
        raise MachineError(f"{url} is not fetched: only https is; download it by hand to {path}")
    try:
        way = pooch.HTTPDownloader(hooks={"response": _stay_safe})
        pooch.retrieve(url, f"sha256:{expected}", path.name, path.parent, downloader=way)
    except (OSError, ValueError) as error:
        lost = type(error).__name__ in {"ConnectionError", "ConnectTimeout"}  # of requests, which says it in many words
        reason = f"no connection to {urlsplit(url).netloc}" if lost else error
        raise MachineError(f"{url} cannot be fetched: {reason}; download it by hand to {path}") from error


def _stay_safe(response: Any, *_: object, **__: object) -> None:
    """Refuse an answer that leads away from https.

    Raises:
        OSError: it does.
    """
    there = urljoin(response.url, response.headers.get("location", ""))
    if urlsplit(there).scheme not in _SAFE:
        response.close()
        raise OSError(f"it leads away from https, to {there}")


def _miss(name: str, missing: Sequence[Path]) -> None:
    """Say which files are missing, and how to get them; nothing where all are there."""
    if not missing:
        return
    source = SOURCES[name]
    others = f", nor {len(missing) - 1} more of the set {name}" if len(missing) > 1 else ""
    way = f"download it from {source.url} to there" if source.by_hand else f"run `netfl data fetch {name}`"
    remedy = f"{way}, or set NETFL_DATA to the folder that holds {source.folder}/"
    raise ScenarioError([Fault("", f"there is no file {missing[0]}{others}", remedy=remedy)])


def _found(folder: Path, file: str) -> Path | None:
    """Where *file* lies, as it is or packed."""
    paths = (folder / (file + packed) for packed in ("", *_PACKED))
    return next((path for path in paths if path.is_file()), None)


def _whole(folder: Path, files: tuple[File, ...]) -> bool:
    """Whether all *files* are there."""
    return all(_found(folder, file) for file, _ in files)


def _content(path: Path, file: str, expected: str) -> Content:
    """What lies at *path* as the set's *file*; it must be the published one."""
    try:
        data = path.read_bytes()
        if path.name != Path(file).name:
            data = unpacked(data, path.suffix)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise MachineError(f"{path} cannot be read, or is cut: {error}; remove it and get it again") from error
    if expected:
        _check(path, data, expected)
    return Content(path, data)


def _check(path: Path, data: bytes, expected: str) -> None:
    """Make sure that *data* are those of the published file."""
    kind = "MD5" if len(expected) == _MD5_DIGITS else "SHA-256"
    made = hashlib.md5(data, usedforsecurity=False) if kind == "MD5" else hashlib.sha256(data)
    if made.hexdigest() != expected:
        what = "is not the published file, or is cut"
        told = f"the {kind} of its content is {made.hexdigest()}, expected {expected}"
        raise MachineError(f"{path} {what}: {told}; remove it and fetch it again")


def _listed(name: str, source: Source) -> Listed:
    """Whether all files of a set are there."""
    folder = root() / source.folder
    whole = _whole(folder, source.files) or (bool(source.instead) and _whole(folder, source.instead))
    return Listed(
        name, "here" if whole else "not here", folder, source.url if source.by_hand else f"netfl data fetch {name}"
    )
