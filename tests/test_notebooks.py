"""The notebooks in docs/notebooks are stored without outputs, and each is on its page; `make docs` runs them."""

from pathlib import Path

import nbformat

FOLDER = Path(__file__).parents[1] / "docs/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_notebooks_are_stored_without_outputs():
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path.name


def test_every_notebook_is_in_the_table_of_its_page():
    page = (FOLDER / "index.md").read_text()
    titles = {path.name: nbformat.read(path, as_version=4).cells[0].source.splitlines()[0] for path in NOTEBOOKS}
    assert len(titles) >= 6
    assert [name for name, title in titles.items() if f"[{title.removeprefix('# ')}]({name})" not in page] == []
