"""Information for bug reports: versions, machine, devices and data folder."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from netfl.errors import __version__
from netfl.results.manifest import versions

_EXTRAS = {"mlflow": "mlflow-skinny", "ray": "ray", "tensorboard": "tensorboard"}
"""The package that each extra ``netfl-sim[NAME]`` installs."""


def environment_info() -> Iterator[tuple[str, str]]:
    """Yield names and values for a bug report."""
    yield "netfl", __version__
    yield "python", platform.python_version()
    yield "system", f"{platform.platform()}, {platform.machine()}"
    yield "cores", _cores()
    yield from ((name, text) for name, text in versions().items() if name not in {"netfl", "python"})
    yield "devices", _devices()
    yield "data", _data()
    yield from ((f"netfl-sim[{extra}]", _version(package)) for extra, package in _EXTRAS.items())


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{os.cpu_count()}, usable {usable}"


def _devices() -> str:
    try:
        from netfl.learning.tensors import devices
    except (ImportError, OSError) as error:
        return f"torch cannot be imported: {error}"
    return ", ".join(devices())


def _data() -> str:
    from netfl.learning.data._download import cache_folder

    return f"{cache_folder()} ({'NETFL_DATA' if os.environ.get('NETFL_DATA') else 'the default'})"


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return "not installed"
