"""netfl is published as `netfl-sim`; a package of another project named `netfl` is reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import netfl
from netfl.cli.distribution import conflict

PACKAGE = Path(netfl.__file__).parent
THEIRS = "[console_scripts]\nNetFL = netfl.utils.runner:main\n"
OURS = "[console_scripts]\nnetfl = netfl.cli:main\n"


def metadata(site, name, entry_points=None):
    folder = site / name
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: netfl\nVersion: 1.5.0\n")
    if entry_points is not None:
        (folder / "entry_points.txt").write_text(entry_points)
    return folder


@pytest.mark.parametrize("name", ["netfl-1.5.0.dist-info", "NetFL-1.5.0.dist-info"])
@pytest.mark.parametrize("entry_points", [THEIRS, None])
def test_other_project_is_reported_with_path_and_remedy(tmp_path, name, entry_points):
    found = metadata(tmp_path, name, entry_points)
    assert conflict(tmp_path / "netfl") == (
        f"netfl: another project's package of this name is installed ({found}). "
        "Run: pip uninstall netfl; pip install --force-reinstall --no-deps netfl-sim"
    )


@pytest.mark.parametrize(
    ("name", "entry_points"),
    [
        ("netfl-0.1.0.dist-info", OURS),  # an older checkout, or a wheel made from one
        ("netfl_sim-0.2.0.dist-info", OURS),
        ("netfl_tools-1.0.dist-info", None),
        ("netflix-1.0.dist-info", None),
        ("netfl-notes", None),
    ],
)
def test_own_and_unrelated_packages_are_not_reported(tmp_path, name, entry_points):
    metadata(tmp_path, name, entry_points)
    assert conflict(tmp_path / "netfl") is None


def test_current_environment_has_no_conflict():
    assert conflict() is None


@pytest.fixture
def overwritten(tmp_path):
    """A folder of packages in which the other project was installed over netfl, with an empty `__init__`."""
    package = tmp_path / "site/netfl"
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name not in {"__init__.py", "__pycache__"}:
            (package / path.name).symlink_to(path)
    (package / "__init__.py").touch()
    (package / "utils").mkdir()
    (package / "utils/runner.py").touch()
    metadata(tmp_path / "site", "netfl-1.5.0.dist-info", THEIRS)
    return tmp_path / "site"


def test_command_prints_the_warning_and_continues(overwritten):
    process_ = subprocess.run(
        [sys.executable, "-m", "netfl", "--version"],
        env=os.environ | {"PYTHONPATH": str(overwritten)}, cwd=overwritten, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert process_.stdout == f"netfl {netfl.__version__}\n"
    (line,) = process_.stderr.splitlines()
    assert line.startswith(f"netfl: another project's package of this name is installed ({overwritten}/netfl-1.5.0")
