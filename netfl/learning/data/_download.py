"""Download and checks of published data sets."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from netfl.errors import Fault, MachineError, ScenarioError, suggest

_PACKED = (".gz", ".xz")
_MAX_BYTES = 4_000_000_000
"""Size limit of a file after unpacking; the published files are far smaller."""
_MD5_DIGITS = 32
_SAFE_SCHEMES = frozenset({"https"})


@dataclass(frozen=True, slots=True)
class Source:
    """A published data set, an entry of ``registry.json``.

    Args:
        folder: its folder in the cache.
        url: prefix of its files' addresses or, if *by_hand*, a page for a person.
        files: checksum by file name, in the order in which the files are read: SHA-256, or MD5 or empty where a set
            that is downloaded by hand publishes nothing better.
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

    def has_all(self, names: Mapping[str, str]) -> bool:
        """Return whether all files of *names* are in the folder."""
        return bool(names) and all(_locate(self.path, name) for name in names)

    @property
    def is_complete(self) -> bool:
        return self.has_all(self.files) or self.has_all(self.alternative_files)


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


def read_files(name: str) -> tuple[FileContent, ...]:
    """Read and check the files of a set; each may be packed, with ``.gz`` or ``.xz`` after its name.

    Raises:
        ScenarioError: a file is missing.
        MachineError: a file cannot be read, or differs from the published one.
    """
    source = SOURCES[name]
    use_alternative = source.has_all(source.alternative_files) and not source.has_all(source.files)
    names = source.alternative_files if use_alternative else source.files
    _check_presence(name, names)
    return tuple(_read_checked(source.path, file, checksum) for file, checksum in names.items())


def unpack(data: bytes, suffix: str = ".gz", max_bytes: int = _MAX_BYTES) -> bytes:
    """Unpack *data*, compressed as files with *suffix* are.

    Raises:
        OSError: *data* are not compressed so, or unpack to more than *max_bytes*.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(data)) if suffix == ".gz" else lzma.LZMAFile(io.BytesIO(data)) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it comes to more than {max_bytes / 1e9:g} GB")
    return content


def list_datasets() -> tuple[DatasetStatus, ...]:
    """List the published sets; files are checked only when they are read."""
    return tuple(
        DatasetStatus(
            name,
            "here" if source.is_complete else "not here",
            source.path,
            source.url if source.by_hand else f"netfl data fetch {name}",
        )
        for name, source in SOURCES.items()
    )


def fetch_dataset(name: str) -> Path:
    """Download the missing files of a set, check all files, and return the folder.

    Raises:
        ScenarioError: there is no such set, or it has to be downloaded by hand.
        MachineError: a file cannot be downloaded or written, or differs from the published one; the message says how
            to get it by hand.
    """
    if name not in SOURCES:
        raise ScenarioError([Fault("", "no such set", name, suggest(name, [*SOURCES]))])
    source = SOURCES[name]
    if not source.is_complete:
        if source.by_hand:
            _check_presence(name, source.files)
        for file, checksum in source.files.items():
            if _locate(source.path, file) is None:
                _retrieve(source.url + file, checksum, source.path / file)
    read_files(name)
    return source.path


def _retrieve(url: str, checksum: str, path: Path) -> None:
    """Download and check a file; a file with another checksum is not kept."""
    import pooch

    if urlsplit(url).scheme not in _SAFE_SCHEMES:
        raise MachineError(f"{url} is not fetched: only https is; download it by hand to {path}")
    try:
        downloader = pooch.HTTPDownloader(hooks={"response": _refuse_redirect})
        pooch.retrieve(url, f"sha256:{checksum}", path.name, path.parent, downloader=downloader)
    except (OSError, ValueError) as error:
        is_offline = type(error).__name__ in {"ConnectionError", "ConnectTimeout"}  # requests has long messages
        reason = f"no connection to {urlsplit(url).netloc}" if is_offline else error
        raise MachineError(f"{url} cannot be fetched: {reason}; download it by hand to {path}") from error


def _refuse_redirect(response: Any, *_: object, **__: object) -> None:
    """Raise an OSError if *response* redirects to something other than HTTPS."""
    target = urljoin(response.url, response.headers.get("location", ""))
    if urlsplit(target).scheme not in _SAFE_SCHEMES:
        response.close()
        raise OSError(f"it leads away from https, to {target}")


def _check_presence(name: str, names: Mapping[str, str]) -> None:
    source = SOURCES[name]
    missing = [source.path / file for file in names if _locate(source.path, file) is None]
    if missing:
        others = f", nor {len(missing) - 1} more of the set {name}" if len(missing) > 1 else ""
        command = f"download it from {source.url} to there" if source.by_hand else f"run `netfl data fetch {name}`"
        remedy = f"{command}, or set NETFL_DATA to the folder that holds {source.folder}/"
        raise ScenarioError([Fault("", f"there is no file {missing[0]}{others}", remedy=remedy)])


def _locate(folder: Path, file: str) -> Path | None:
    """Return the path of *file*, plain or packed; ``None`` if it does not exist."""
    paths = (folder / (file + packed) for packed in ("", *_PACKED))
    return next((path for path in paths if path.is_file()), None)


def _read_checked(folder: Path, file: str, checksum: str) -> FileContent:
    path = _locate(folder, file) or folder / file
    try:
        data = path.read_bytes()
        if path.name != Path(file).name:
            data = unpack(data, path.suffix)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise MachineError(f"{path} cannot be read, or is cut: {error}; remove it and get it again") from error
    is_md5 = len(checksum) == _MD5_DIGITS
    digest = (hashlib.md5(data, usedforsecurity=False) if is_md5 else hashlib.sha256(data)).hexdigest()
    if checksum and digest != checksum:
        sums = f"the {'MD5' if is_md5 else 'SHA-256'} of its content is {digest}, expected {checksum}"
        raise MachineError(f"{path} is not the published file, or is cut: {sums}; remove it and fetch it again")
    return FileContent(path, data)
