"""The notebooks in docs/notebooks run and show plots and tables, and each is on its page."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("<table" in output.get("data", {}).get("text/html", "") for output in outputs)


def test_notebooks_are_stored_without_outputs():
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path.name


def test_every_notebook_is_in_the_table_of_its_page():
    page = (FOLDER / "index.md").read_text()
    titles = {path.name: nbformat.read(path, as_version=4).cells[0].source.splitlines()[0] for path in NOTEBOOKS}
    assert len(titles) >= 6
    assert [name for name, title in titles.items() if f"[{title.removeprefix('# ')}]({name})" not in page] == []
