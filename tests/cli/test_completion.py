"""What a shell is told when a word is begun."""

import pytest
from typer.testing import CliRunner

from netfl.cli import app


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("netfl re", ["resume", "report"]),
        ("netfl run --ov", ["--override"]),
        ("netfl list chan", ["channel"]),
        ("netfl list channel ra", ["rain", "rayleigh"]),
        ("netfl list nothing ra", []),
        ("netfl new ma", ["mac"]),
    ],
)
def test_a_word_that_is_begun(words, told):
    shell = {"_NETFL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = CliRunner().invoke(app, prog_name="netfl", env=shell)
    assert sorted(result.output.split()) == sorted(told), result.output
