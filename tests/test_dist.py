"""The release: contents of the wheel, the sdist and the SBOM, and the wheel without a checkout.

`make dist` builds them and sets ``NETFL_INSTALLED`` to the environment with the installed wheel.
"""

import json
import os
import subprocess
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from test_declared import canonical

import netfl

ROOT = Path(__file__).parents[1]
INSTALLED = os.environ.get("NETFL_INSTALLED")
NAME = f"netfl_sim-{netfl.__version__}"
DIGITS = "netfl/learning/data/optdigits"
RECORDINGS = "netfl/access/recordings"
pytestmark = pytest.mark.skipif(INSTALLED is None, reason="there is no wheel: make dist")


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(ROOT / f"dist/{NAME}-py3-none-any.whl") as file:
        yield file


def tracked(*folders):
    """Return the tracked files below *folders*."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def test_wheel_has_only_package_and_scenarios(wheel):
    package_files = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    scenarios = {f"netfl/{name}" for name in tracked("scenarios") - {"scenarios/schema.json"}}
    assert package_files == tracked("netfl") | scenarios
    assert {
        "netfl/py.typed",
        "netfl/report/templates/page.css",
        "netfl/report/animation/player.js",
        f"{DIGITS}.npz",
        f"{RECORDINGS}/real/saint_eynard/deliveries.parquet",
        f"{RECORDINGS}/real/tour_perret/rounds.parquet",
    } <= package_files


def test_wheel_has_metadata(wheel):
    licences = {
        f"{NAME}.dist-info/licenses/{name}"
        for name in ("LICENSE", f"{DIGITS}.LICENSE.txt", f"{RECORDINGS}/LICENSE.txt")
    }
    assert licences <= set(wheel.namelist())
    metadata = message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == (
        "netfl-sim", netfl.__version__, "MIT AND CC-BY-4.0 AND ODbL-1.0",
    )  # fmt: skip
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert metadata.get_payload().startswith("# netfl")
    assert wheel.read(f"{NAME}.dist-info/entry_points.txt").decode().split() == [
        "[console_scripts]", "netfl", "=", "netfl.cli:main",
    ]  # fmt: skip


def test_sdist_has_only_tracked_files():
    with tarfile.open(ROOT / f"dist/{NAME}.tar.gz") as file:
        names = {name.removeprefix(f"{NAME}/") for name in file.getnames()}
    assert names - {"PKG-INFO"} == tracked() - {".ci/run"}
    assert {"tests/test_dist.py", "docs/index.md", "LICENSE", "CITATION.cff"} <= names


def test_sbom_has_requirements_and_no_local_paths(wheel):
    text = (ROOT / "dist/netfl-sim.cdx.json").read_text()
    sbom = json.loads(text)
    parts = {part["name"].lower(): part["version"] for part in sbom["components"]}
    needed = message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode()).get_all("Requires-Dist")
    assert sbom["bomFormat"] == "CycloneDX"
    assert parts["netfl-sim"] == netfl.__version__
    names = {line.split(">")[0].lower() for line in needed if "extra" not in line}
    assert {canonical(name) for name in names} <= {canonical(name) for name in parts}
    assert str(ROOT) not in text
    assert "file:" not in text


def test_demo_runs_from_wheel_outside_checkout(tmp_path):
    def netfl_(*words):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        command = [ROOT / INSTALLED / "bin/netfl", *words]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert netfl_("--version") == f"netfl {netfl.__version__}\n"
    netfl_("trace", "access/real", "--set", "rounds=20", "--out", "real")
    assert netfl_("scenarios", "rural_outage") == "scenarios/rural_outage.yaml\n"
    netfl_("run", "scenarios/rural_outage.yaml", "--set", "rounds=20", "--out", "here", "--report")
    assert {"report.html", "summary.json", "metrics.parquet"} <= {file.name for file in (tmp_path / "here").iterdir()}
    assert "def " in (netfl_("new", "channel", "my_fading"), (tmp_path / "my_fading.py").read_text())[1]
