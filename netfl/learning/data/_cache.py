"""Where real data sets lie, how they are checked, and how they are fetched."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from netfl.errors import Fault, MachineError, ScenarioError, suggest


@dataclass(frozen=True, slots=True)
class Source:
    """A published set.

    Args:
        folder: its folder in the cache.
        url: where its files are to be had.
        files: their names, in the order training images and labels, test images and labels, with their SHA-256.
    """

    folder: str
    url: str
    files: tuple[tuple[str, str], ...]


class Listed(NamedTuple):
    """A set and whether it is here.

    Args:
        name: what `fetch` calls it.
        state: whether all its files are there.
        folder: where it lies or would lie.
    """

    name: str
    state: Literal["here", "not here"]
    folder: Path


SOURCES = {
    "mnist": Source(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        (
            ("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            ("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            ("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            ("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    "fashion_mnist": Source(
        "fashion-mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        (
            ("train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            ("train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            ("t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            ("t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
}
"""The sets that can be fetched, by the kind of the data that reads them."""


def root() -> Path:
    """The folder of all sets: that of the environment variable ``NETFL_DATA``, or the user's cache folder."""
    given = os.environ.get("NETFL_DATA")
    if given:
        return Path(given)
    import pooch  # noqa: PLC0415 - slow to import

    return Path(pooch.os_cache("netfl"))


def paths(name: str) -> tuple[Path, ...]:
    """The files of a set, each there and checked.

    Raises:
        ScenarioError: a file is missing.
        MachineError: a file cannot be read, or is not the published one.
    """
    source = SOURCES[name]
    found = tuple(root() / source.folder / file for file, _ in source.files)
    for path, (_, expected) in zip(found, source.files, strict=True):
        if not path.is_file():
            remedy = f"run `netfl data fetch {name}`, or set NETFL_DATA to the folder that holds {source.folder}/"
            raise ScenarioError([Fault("", f"there is no file {path}", remedy=remedy)])
        _check(path, expected)
    return found


def listing() -> tuple[Listed, ...]:
    """Every set that can be fetched, and whether it is here."""
    return tuple(_listed(name, source) for name, source in SOURCES.items())


def fetch(name: str) -> Path:
    """Fetch what is missing of a set, check all of it, and give its folder.

    Raises:
        ScenarioError: there is no such set.
        MachineError: a file cannot be fetched or written, or is not the published one; the message says how to get it
            by hand.
    """
    import pooch  # noqa: PLC0415 - slow to import

    if name not in SOURCES:
        raise ScenarioError([Fault("", "no such set", name, suggest(name, [*SOURCES]))])
    source = SOURCES[name]
    folder = root() / source.folder
    for file, expected in source.files:
        try:
            pooch.retrieve(source.url + file, f"sha256:{expected}", file, folder)
        except (OSError, ValueError) as error:
            by_hand = f"download it by hand to {folder / file}"
            raise MachineError(f"{source.url}{file} cannot be fetched: {error}; {by_hand}") from error
    return folder


def _check(path: Path, expected: str) -> None:
    """Make sure that a file is the published one."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror or error}") from error
    if found != expected:
        what = "is not the published file, or is cut"
        raise MachineError(f"{path} {what}: its SHA-256 is {found}, expected {expected}; remove it and fetch it again")


def _listed(name: str, source: Source) -> Listed:
    """Whether all files of a set are there; they are checked when they are read."""
    folder = root() / source.folder
    whole = all((folder / file).is_file() for file, _ in source.files)
    return Listed(name, "here" if whole else "not here", folder)
