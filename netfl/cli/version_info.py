"""What a bug report should say of the machine: versions, devices, where data is looked for."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from netfl.errors import __version__
from netfl.results.manifest import versions

_EXTRAS = {"mlflow": "mlflow-skinny", "ray": "ray", "tensorboard": "tensorboard"}
"""What can be installed beside netfl, ``netfl-sim[NAME]``, and the package that shows whether it is."""


def environment_info() -> Iterator[tuple[str, str]]:
    """Each thing and what is said of it."""
    yield "netfl", __version__
    yield "python", platform.python_version()
    yield "system", f"{platform.platform()}, {platform.machine()}"
    yield "cores", _cores()
    yield from ((name, one) for name, one in versions().items() if name not in {"netfl", "python"})
    yield "devices", _devices()
    yield "data", _data()
    yield from ((f"netfl-sim[{extra}]", _version(package)) for extra, package in _EXTRAS.items())


def _cores() -> str:
    """How many there are, and how many of them this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{os.cpu_count()}, usable {usable}"


def _devices() -> str:
    """Where learning can be computed; why nowhere, if torch is broken."""
    try:
        from netfl.learning.tensors import devices
    except (ImportError, OSError) as error:
        return f"torch cannot be imported: {error}"
    return ", ".join(devices())


def _data() -> str:
    """Where data sets are looked for, and who says so."""
    from netfl.learning.data._download import cache_folder

    return f"{cache_folder()} ({'NETFL_DATA' if os.environ.get('NETFL_DATA') else 'the default'})"


def _version(package: str) -> str:
    """The version of a package, if it is there."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return "not installed"
