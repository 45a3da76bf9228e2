"""A small suite in place of those of netfl."""

import pytest
from support.small_table import SUITE

from netfl.rule_table import suite
from netfl.scenario import examples


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The suite ``tiny`` in place of those of netfl; returns the folder of its rows."""
    table = tmp_path / "netfl/scenarios/table"
    table.mkdir(parents=True)
    (table / "tiny.yaml").write_text(SUITE)
    monkeypatch.setattr(examples, "__file__", str(tmp_path / "netfl/scenario/examples.py"))
    monkeypatch.chdir(tmp_path)
    suite.datasets.cache_clear()
    suite._suite.cache_clear()
    yield table / "rows"
    suite.datasets.cache_clear()
    suite._suite.cache_clear()
