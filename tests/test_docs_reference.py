"""The generated reference is complete, and every public name is documented.

`make generated` updates the tables of columns in `docs/tables.md` and `docs/files.md`.
"""

import importlib
import inspect
import re
from pathlib import Path

import fromcode
import pytest
from fromcode import families, python, things, words

import netfl
from netfl import plots
from netfl.cli.views.model_list import keys_of, laws_of
from netfl.core.descriptions import example
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.results.metrics import CATALOGUE
from netfl.results.tables import SCHEMAS, TABLES
from netfl.scenario.scenario import Scenario
from netfl.types import KINDS

DOCS = Path(__file__).parents[1] / "docs"
TABLES_PAGE = DOCS / "tables.md"
FILES_PAGE = DOCS / "files.md"
FILE_COLUMNS = re.compile(r"(<!-- columns of files: .*? -->\n).*?(<!-- end of columns of files -->)", re.DOTALL)
COLUMNS = re.compile(r"(<!-- columns of (\w+): .*? -->\n).*?(<!-- end of columns -->)", re.DOTALL)


@pytest.fixture(scope="module")
def pages():
    return fromcode.pages()


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_its_models_keys_properties_and_contract(pages, family):
    page, base = pages[families.name_of(family)], base_of(family)
    assert f".. automodule:: {base.__module__}" in page
    sections = page.split("\n## ")[1:-1]
    assert [section.partition("\n")[0] for section in sections] == list_kinds(base)
    for kind, section in zip(list_kinds(base), sections, strict=True):
        model = find_model(base, kind)
        assert example(model) in section
        assert [key for key, *_ in keys_of(model, "") if f"| `{key}` |" not in section] == []
        assert ("**Properties, for the example**" in section) == bool(laws_of(model, kind))
        assert "Example::" not in section


def test_keys_columns_and_kinds_are_listed(pages):
    assert [key for key, *_ in keys_of(Scenario, "") if f"| `{key}` |" not in pages["scenario"]] == []
    named = [*KINDS, *(column for schema in SCHEMAS.values() for column in schema.names)]
    assert [name for name in named if f"`{name}`" not in pages["columns"]] == []
    assert "`netfl.units.Seconds`" in pages["units"]


def with_columns(text):
    """The page on tables, with the declared columns between its marks."""
    return COLUMNS.sub(
        lambda found: f"{found[1]}{things.column_table(TABLES[found[2]], SCHEMAS[found[2]])}\n{found[3]}", text
    )


def test_page_on_tables_has_the_declared_columns():
    text = TABLES_PAGE.read_text("utf-8")
    assert [table for _, table, _ in COLUMNS.findall(text)] == [
        "rounds",
        "deliveries",
        "merges",
        "merged_models",
        "merged_updates",
        "links",
        "attempts",
        "candidates",
    ]
    assert text == with_columns(text), "update it: make generated"


def with_file_columns(text):
    """The page on files, with the declared columns of all readers between its marks."""
    return FILE_COLUMNS.sub(lambda found: f"{found[1]}{things.file_column_table()}\n{found[2]}", text)


def test_page_on_files_has_the_declared_columns():
    text = FILES_PAGE.read_text("utf-8")
    assert len(FILE_COLUMNS.findall(text)) == 1
    assert text == with_file_columns(text), "update it: make generated"


def test_all_readers_of_tables_declare_their_columns():
    """Modules that read a table import its schema; `netfl.learning.data.huggingface` only compares lengths of rows."""
    readers = {
        "placement `table`",
        "motion `trajectory`",
        "outage `calendar`",
        "classification (`ram`)",
        "data `table`",
    }
    assert readers < {schema.reader for schema in things.file_schemas()}
    for path in sorted((DOCS.parent / "netfl").rglob("*.py")):
        text = path.read_text("utf-8")
        if "netfl.files.tables import" in text and "read_table" in text and path.stem not in {"tables", "huggingface"}:
            assert "netfl.files.schema import" in text, path


def test_page_on_tables_has_the_columns_of_other_tables():
    """The page lists these columns in sentences, not in a generated table."""
    text = " ".join(TABLES_PAGE.read_text("utf-8").split())
    for table in ("events", "metrics", "final_metrics"):
        section = text.partition(f"## `{table}`")[2].partition(" ## ")[0]
        assert [name for name in SCHEMAS[table].names if f"`{name}`" not in section] == []


def documented_metrics(text):
    """Names in the first column of the tables of a page."""
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_page_on_metrics_defines_the_metrics_of_learners():
    declared = {metric.name for metric in CATALOGUE if metric.is_learned}
    documented = documented_metrics((DOCS / "metrics.md").read_text("utf-8"))
    of_lanes = {name for name in documented if "." in name}  # costs of targets, of one learner each
    assert declared == {*documented} - of_lanes - {"class:c", "user:k"}


def test_page_on_tables_explains_the_metrics_of_the_access():
    """A row of the page is a metric, or the beginning of names, such as ``lost.``."""
    text = TABLES_PAGE.read_text("utf-8").partition("\n## `final_metrics`")[2]
    documented = [name for name in documented_metrics(text) if not name.startswith((".", "FedAvg.", "own."))]
    declared = {metric.name: metric for metric in CATALOGUE if not metric.is_learned}
    unknown = [name for name in documented if name not in declared and not _is_pattern(name, declared.values())]
    assert unknown == []
    exact = {name for name, metric in declared.items() if not metric.is_pattern}
    in_sentences = {"replicas", "duration_s", "stop_s", "warmup_s", "time_s"}
    of_patterns = {"lost.lost", "snr_theory_db"}
    assert exact - {*documented} == in_sentences | of_patterns


def _is_pattern(name, declared):
    patterns = [metric for metric in declared if metric.is_pattern]
    return any(pattern.matches(name) or pattern.name == f"{name}*" for pattern in patterns)


@pytest.mark.parametrize(
    "option",
    [
        "--set PATH=VALUE",
        "--override NAME",
        "--seed INTEGER",
        "--workers INTEGER",
        "--perfetto",
        "--every TIME",
        "--level FLOAT",
    ],
)
def test_commands_have_their_options(pages, option):
    assert f"`{option}`" in pages["commands"] or f", {option}`" in pages["commands"]


def test_every_command_is_listed(pages):
    headings = [line.removeprefix("## ") for line in pages["commands"].splitlines() if line.startswith("## ")]
    expected = [
        "run",
        "trace",
        "resume",
        "extend",
        "sweep",
        "check",
        "list",
        "schema",
        "new",
        "report",
        "ram",
        "export",
        "orbits",
        "timeout",
        "import lorawan",
        "import phone",
        "import flower",
        "verify",
        "flower run",
        "table",
    ]
    assert set(headings) == {f"netfl {word}" for word in [*expected, "scenarios", "version", "data list", "data fetch"]}


def test_every_public_name_is_listed_and_documented(pages):
    public = [f"netfl.{name}" for name in netfl.__all__] + [f"netfl.plots.{name}" for name in plots.__all__]
    assert set(public) <= set(python.names())
    for name in python.names():
        assert f":: {name}\n" in pages["python"] or f":: {name}()\n" in pages["python"], name
        home, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(home), last)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), name


def test_only_changed_pages_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(fromcode, "pages", lambda: {"one": "# One\n"})
    (tmp_path / "old.md").write_text("gone")
    fromcode.write(tmp_path)
    before = (tmp_path / "one.md").stat().st_mtime_ns
    fromcode.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.md"]
    assert (tmp_path / "one.md").stat().st_mtime_ns == before


def test_docstrings_become_markdown():
    text = "What x * y is, of ``a*b``: [n] < 3.\n\nSo::\n\n    x = 1\n      y\n\n- one of\n  two\n- **three**"
    first, second = "What x \\* y is, of ``a*b``: \\[n\\] \\< 3.", "```text\nx = 1\n  y\n```"
    assert words.prose(text) == f"{first}\n\nSo:\n\n{second}\n\n- one of two\n- **three**"
    assert words.table(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |"


if __name__ == "__main__":
    TABLES_PAGE.write_text(with_columns(TABLES_PAGE.read_text("utf-8")), "utf-8")
    FILES_PAGE.write_text(with_file_columns(FILES_PAGE.read_text("utf-8")), "utf-8")
