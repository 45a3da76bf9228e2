"""What is released: what is in the wheel and the sdist, what the SBOM says, and that the wheel does without a checkout.

`make dist` makes them and names, in ``NETFL_INSTALLED``, the environment that the wheel is installed in.
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
pytestmark = pytest.mark.skipif(INSTALLED is None, reason="there is no wheel: make dist")


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(ROOT / f"dist/{NAME}-py3-none-any.whl") as file:
        yield file


def tracked(*folders):
    """The files of the checkout below *folders* that a release has."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def test_the_wheel_has_the_package_and_the_scenarios_and_nothing_else(wheel):
    ours = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    scenarios = {f"netfl/{name}" for name in tracked("scenarios") - {"scenarios/schema.json"}}
    assert ours == tracked("netfl") | scenarios
    assert {
        "netfl/py.typed",
        "netfl/report/templates/page.css",
        "netfl/report/animation/player.js",
        f"{DIGITS}.npz",
    } <= ours


def test_the_wheel_says_what_it_is(wheel):
    licences = {f"{NAME}.dist-info/licenses/{name}" for name in ("LICENSE", f"{DIGITS}.LICENSE.txt")}
    assert licences <= set(wheel.namelist())
    told = message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode())
    assert (told["Name"], told["Version"], told["License-Expression"]) == (
        "netfl-sim", netfl.__version__, "MIT AND CC-BY-4.0",
    )  # fmt: skip
    assert "Typing :: Typed" in told.get_all("Classifier")
    assert told.get_payload().startswith("# netfl")
    assert wheel.read(f"{NAME}.dist-info/entry_points.txt").decode().split() == [
        "[console_scripts]", "netfl", "=", "netfl.cli:main",
    ]  # fmt: skip


def test_the_sdist_has_tests_and_docs_and_no_rubbish():
    with tarfile.open(ROOT / f"dist/{NAME}.tar.gz") as file:
        names = {name.removeprefix(f"{NAME}/") for name in file.getnames()}
    assert names - {"PKG-INFO"} == tracked() - {".ci/run"}
    assert {"tests/test_dist.py", "docs/index.md", "LICENSE", "CITATION.cff"} <= names


def test_the_sbom_names_what_the_wheel_needs_and_no_place_on_this_machine(wheel):
    text = (ROOT / "dist/netfl-sim.cdx.json").read_text()
    told = json.loads(text)
    parts = {part["name"].lower(): part["version"] for part in told["components"]}
    needed = message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode()).get_all("Requires-Dist")
    assert told["bomFormat"] == "CycloneDX"
    assert parts["netfl-sim"] == netfl.__version__
    names = {line.split(">")[0].lower() for line in needed if "extra" not in line}
    assert {canonical(name) for name in names} <= {canonical(name) for name in parts}
    assert str(ROOT) not in text
    assert "file:" not in text


def test_the_demo_runs_from_the_wheel_outside_the_checkout(tmp_path):
    def netfl_(*words):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        command = [ROOT / INSTALLED / "bin/netfl", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert netfl_("--version") == f"netfl {netfl.__version__}\n"
    assert netfl_("scenarios", "rural_outage") == "scenarios/rural_outage.yaml\n"
    netfl_("run", "scenarios/rural_outage.yaml", "--set", "rounds=20", "--out", "here", "--report")
    assert {"report.html", "summary.json", "metrics.parquet"} <= {file.name for file in (tmp_path / "here").iterdir()}
    assert "def " in (netfl_("new", "channel", "my_fading"), (tmp_path / "my_fading.py").read_text())[1]
