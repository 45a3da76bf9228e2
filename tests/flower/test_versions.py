"""Supported versions of Flower."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

import netfl.flower
from netfl.errors import ScenarioError
from netfl.flower import versions

ROOT = Path(__file__).parents[2]


def test_the_declared_range_is_the_one_that_is_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["flower"] == [versions.SUPPORTED]
    first, last = (".".join(map(str, numbers)) for numbers in (versions.OLDEST, versions.FIRST_UNSUPPORTED))
    assert f"flwr>={first},<{last}" == versions.SUPPORTED
    assert versions.SUPPORTED in (ROOT / "docs/howto/flower.md").read_text()


@pytest.mark.parametrize("version", ["1.21.0", "1.43.0", "2.0", "0.19"])
def test_other_versions_are_refused(version, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    message = (
        rf"flower: this version of flwr is not supported; netfl needs flwr>=1.22,<1.43 \('{version}'\); pip install"
    )
    with pytest.raises(ScenarioError, match=message):
        _ = netfl.flower.run


@pytest.mark.parametrize("version", ["1.22.0", "1.42.9", "1.30.0rc1"])
def test_supported_versions_are_accepted(version, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert versions.check_flower() == version


def test_a_missing_flower_is_one_clear_error(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ScenarioError, match=r"needs flwr, which is not installed; pip install 'netfl-sim\[flower\]'"):
        _ = netfl.flower.NetworkGrid
    with pytest.raises(AttributeError, match="no attribute 'gird'"):
        _ = netfl.flower.gird
