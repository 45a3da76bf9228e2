"""Completion of words in a shell."""

import pytest
from typer.testing import CliRunner

from netfl.cli import app


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("netfl re", ["resume", "report"]),
        ("netfl run --ov", ["--override"]),
        ("netfl list chan", ["channel"]),
        ("netfl list channel ra", ["radio_map", "rain", "rayleigh"]),
        ("netfl list nothing ra", []),
        ("netfl new ma", ["mac"]),
    ],
)
def test_incomplete_word_is_completed(words, completions):
    shell = {"_NETFL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = CliRunner().invoke(app, prog_name="netfl", env=shell)
    assert sorted(result.output.split()) == sorted(completions), result.output
