"""Fixtures with small files in the formats of published data sets."""

from __future__ import annotations

import hashlib

import pytest

from netfl.learning.data import _download as cache


@pytest.fixture
def place_files(tmp_path, monkeypatch):
    """Write files into the folder of a published data set."""

    def place(name, files):
        source = cache.SOURCES[name]
        sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
        monkeypatch.setitem(cache.SOURCES, name, cache.Source(source.folder, source.url, sums))
        monkeypatch.setenv("NETFL_DATA", str(tmp_path))
        for file, content in files.items():
            path = tmp_path / source.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return place
