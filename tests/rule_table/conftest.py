"""A small suite in place of those of netfl."""

import pytest
from support.small_table import small_suite


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The suite ``tiny``; returns the folder of its rows."""
    monkeypatch.chdir(tmp_path)
    with small_suite(tmp_path, monkeypatch) as rows:
        yield rows
