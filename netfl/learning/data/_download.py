"""Download and checks of published data sets."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from netfl.core.remedies import call
from netfl.errors import Fault, MachineError, ScenarioError, suggest

_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}


@dataclass(frozen=True, slots=True)
class Source:
    """A published data set, an entry of ``registry.json``.

    Args:
        folder: its folder in the cache.
        url: prefix of its files' addresses or, if *by_hand*, a page for a person.
        files: checksum by file name, in the order in which the files are read: SHA-256, ``md5:`` and an MD5, or empty
            where nothing is published.
        by_hand: a person has to download the files.
        alternative_files: files that replace *files* if all of them exist.
    """

    folder: str
    url: str
    files: Mapping[str, str]
    by_hand: bool = False
    alternative_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return cache_folder() / self.folder

    def locate(self, file: str) -> Path | None:
        """Return the path of *file*, plain or packed; ``None`` if it does not exist."""
        paths = (self.path / f"{file}{suffix}" for suffix in ("", *_UNPACK))
        return next((path for path in paths if path.is_file()), None)

    def missing(self, names: Mapping[str, str]) -> list[str]:
        """Return the files of *names* that do not exist."""
        return [name for name in names if self.locate(name) is None]

    @property
    def used_files(self) -> Mapping[str, str]:
        """The *files*, or the *alternative_files* if only those exist."""
        has_alternative = bool(self.alternative_files) and not self.missing(self.alternative_files)
        if has_alternative and self.missing(self.files):
            return self.alternative_files
        return self.files


SOURCES = {
    kind: Source(**entry)
    for kind, entry in json.loads(files("netfl.learning.data").joinpath("registry.json").read_bytes()).items()
}
"""The published sets, by the kind of the data that reads them."""


class DatasetStatus(NamedTuple):
    """A published set, its state in the cache, and the way to get it."""

    name: str
    state: Literal["here", "not here"]
    folder: Path
    source: str


class FileContent(NamedTuple):
    """A checked file of a set; *data* are unpacked if the file in the cache is packed but the published one is not."""

    path: Path
    data: bytes


def cache_folder() -> Path:
    """Return the folder of all sets: ``NETFL_DATA``, or the user's cache folder."""
    configured = os.environ.get("NETFL_DATA")
    if configured:
        return Path(configured)
    import pooch

    return Path(pooch.os_cache("netfl"))


def list_datasets() -> tuple[DatasetStatus, ...]:
    """List the published sets; files are checked only when they are read."""
    statuses = []
    for name, source in SOURCES.items():
        is_missing = bool(source.missing(source.used_files))
        way = source.url if source.by_hand else f"netfl data fetch {name}"
        statuses.append(DatasetStatus(name, "not here" if is_missing else "here", source.path, way))
    return tuple(statuses)


def fetch_dataset(name: str) -> Path:
    """Download the missing files of a set, check all files, and return the folder.

    Raises:
        ScenarioError: there is no such data set, or it has to be downloaded by hand.
        MachineError: a file cannot be downloaded or written, or differs from the published one; the message says how
            to get it by hand.
    """
    if name not in SOURCES:
        raise ScenarioError([Fault("", "no such data set", name, suggest(name, [*SOURCES]))])
    source = SOURCES[name]
    if not source.by_hand:
        for file in source.missing(source.used_files):
            _download(source.url + file, source.files[file], source.path / file)
    read_files(name)
    return source.path


def _download(url: str, checksum: str, path: Path) -> None:
    """Download and check a file; a file with another checksum is not kept."""
    import pooch

    try:
        pooch.retrieve(url, checksum, path.name, path.parent)
    except (OSError, ValueError) as error:
        reason = str(error)
        if type(error).__name__ in {"ConnectionError", "ConnectTimeout"}:  # of requests, with long messages
            reason = f"no connection to {urlsplit(url).netloc}"
        raise MachineError(f"{url} cannot be downloaded: {reason}; download it manually to {path}") from error


def read_files(name: str) -> tuple[FileContent, ...]:
    """Read and check the files of a set; each may be packed, with ``.gz`` or ``.xz`` after its name.

    Raises:
        ScenarioError: a file is missing.
        MachineError: a file cannot be read, or differs from the published one.
    """
    source = SOURCES[name]
    missing = source.missing(source.used_files)
    if missing:
        others = ""
        if len(missing) > 1:
            others = f", and {len(missing) - 1} more files of the data set {name}"
        if source.by_hand:
            way = f"download it from {source.url} to this path"
        else:
            way = call("data fetch", name)
        remedy = f"{way}, or set NETFL_DATA to the folder that holds {source.folder}/"
        raise ScenarioError([Fault("", f"{source.path / missing[0]} is missing{others}", remedy=remedy)])
    return tuple(_read_checked(source, file, checksum) for file, checksum in source.used_files.items())


def _read_checked(source: Source, file: str, checksum: str) -> FileContent:
    path = source.locate(file) or source.path / file
    try:
        data = path.read_bytes()
        if path.name != Path(file).name:  # it is packed
            data = _UNPACK[path.suffix](data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise MachineError(
            f"{path} cannot be read, or is incomplete: {error}; remove it and download it again"
        ) from error
    stated_algorithm, _, expected = checksum.rpartition(":")
    algorithm = stated_algorithm or "sha256"
    digest = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
    if expected and digest != expected:
        sums = f"the {algorithm} of its content is {digest}, expected {expected}"
        raise MachineError(
            f"{path} is not the published file, or is incomplete: {sums}; remove it and download it again"
        )
    return FileContent(path, data)
