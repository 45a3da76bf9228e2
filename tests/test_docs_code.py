"""Code blocks of the documentation run, and their commands exist."""

import sys
from pathlib import Path

import pytest
from support import doc_pages as guides

import netfl
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

FIRST_PAGES = [guides.ROOT / "README.md", guides.ROOT / "docs/tutorial.md"]
"""Pages that run whole, one after the other, in an empty folder."""
GUIDES = sorted((guides.ROOT / "docs/howto").glob("*.md"))
"""Pages that run with all their commands."""
PYTHON_PAGES = [
    page
    for page in guides.PAGES
    if page not in {*FIRST_PAGES, *GUIDES} and any(block.language == "python" for block in guides.blocks(page))
]
"""Pages of which only the Python code runs."""
SHORTENED = {"traces": ("--set", "rounds=60", "--set", "replicas=2")}
"""Options that shorten the commands of slow pages."""
SCENARIO = {
    "name": "first", "users": 10, "rounds": 25, "replicas": 2, "record": {"events": "all", "versions": True},
    "access": {
        "kind": "network", "round": {"kind": "first", "m": 1}, "topology": {"kind": "star", "radius": "1 km"},
        "mac": {"kind": "slotted_aloha", "probability": 0.1}, "compute": {"speed": 100}, "broadcast_rate": "11 kbps",
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
        "channel": [
            {"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": 1}
        ],
        "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "5.5 kbps"},
    },
    "data": "digits", "partition": {"kind": "rare_classes", "classes": [9], "users": 2, "by": "distance"},
    "model": "logistic",
    "learners": {
        name: {"objective": objective, "aggregation": "relay", "lr": 0.1, "batch_size": 16, "local_epochs": 1}
        for name, objective in
        (("FedAvg", "erm"), ("FED-CVaR-AVG", {"kind": "cvar", "alpha": 0.1, "gamma": 0.1, "lr_t": 0.02}))
    },
}  # fmt: skip
"""The scenario of a small run, for pages that use an existing one."""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return netfl.run(
        validate(ScenarioDocument(SCENARIO, "small")), tmp_path_factory.mktemp("small") / "run", device="cpu"
    ).folder


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Change to an empty folder from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    for name in {Path(block.name).stem for page in guides.PAGES for block in guides.blocks(page) if block.name}:
        monkeypatch.delitem(sys.modules, name, raising=False)  # a module of that name from another test
    yield tmp_path
    guides.forget(tmp_path)


@pytest.fixture
def folder(empty):
    """Change to a folder with the shipped scenarios."""
    (empty / "scenarios").symlink_to(guides.ROOT / "scenarios")
    (empty / "runs").mkdir()
    return empty


@pytest.fixture
def short_flagship(monkeypatch):
    """Shorten the flagship in Python code, which takes a minute: `make demo` runs it whole."""
    run = netfl.run

    def run_shortened(scenario, *parts, **options):
        if scenario == "rural_outage":
            scenario = netfl.load(scenario).at({"rounds": 8, "tuning": None})
        return run(scenario, *parts, **options)

    monkeypatch.setattr(netfl, "run", run_shortened)


@pytest.mark.slow
@pytest.mark.usefixtures("empty", "short_flagship")
def test_readme_and_tutorial_run_in_an_empty_folder():
    """Run every file, command and block of Python, as a new user does."""
    player = guides.Player(of_scenario={"rural_outage": ("--set", "rounds=8", "--set", "tuning=null")})
    for page in FIRST_PAGES:
        player.play(page, commands=True)
    runs = {path.name for path in Path("runs").iterdir()}
    assert {"first", "first-sweep", "rural_outage-001", "tutorial", "tdma", "again", "trees"} <= runs
    assert netfl.open_run("runs/first").manifest["replicas"] == 5


@pytest.mark.parametrize("page", [guides.case(page, pytest.mark.slow) for page in GUIDES])
def test_guides_run(page, folder):
    guides.skip_without_packages(page)
    guides.Player(SHORTENED.get(page.stem, ())).play(page, commands=True)


@pytest.mark.usefixtures("short_flagship")
@pytest.mark.parametrize("page", [guides.case(page) for page in PYTHON_PAGES])
def test_python_of_pages_runs(page, folder, small):
    guides.skip_without_packages(page)
    for name in ("first", "mine-001", "rural_outage-001"):
        (folder / "runs" / name).symlink_to(small)
    guides.Player().play(page, commands=False)


@pytest.mark.parametrize("page", guides.PAGES, ids=lambda page: page.stem)
def test_commands_of_pages_exist(page):
    for block in guides.blocks(page):
        for words, _ in block.commands:
            if words[0] == "netfl":
                guides.parse(words)


def test_packages_of_a_page_are_on_its_first_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: ray, optuna -->\n# Title\n")
    assert guides.needs(page) == ["ray", "optuna"]
    assert [mark.name for mark in guides.case(page, pytest.mark.slow).marks] == ["extra"]
    page.write_text("# Title\n<!-- needs: ray -->\n")
    assert guides.needs(page) == []
    assert [mark.name for mark in guides.case(page, pytest.mark.slow).marks] == ["slow"]


def test_a_page_is_skipped_without_its_packages(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: numpy, nowhere_a -->\n# Title\n")
    with pytest.raises(pytest.skip.Exception, match=r"^the page needs nowhere_a, which is not installed$"):
        guides.skip_without_packages(page)
    page.write_text("<!-- needs: numpy -->\n# Title\n")
    guides.skip_without_packages(page)


def test_blocks_after_a_directive_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```{note}\nx\n```\n\n```c++ y\n1\n```\n\n```python\nraise SystemExit\n```\n")
    assert [(block.language, block.text) for block in guides.blocks(page)] == [
        ("{note}", "x\n"), ("c++", "1\n"), ("python", "raise SystemExit\n")
    ]  # fmt: skip


def test_languages_of_blocks_are_known():
    """Blocks in other languages would not be tested; ``none`` is output of the full run, while a test shortens it."""
    assert {block.language for page in guides.PAGES for block in guides.blocks(page)} <= {
        "", "python", "yaml", "text", "none", "bash", "csv", "json", "xml", "bibtex", "{toctree}", "{include}"
    }  # fmt: skip
