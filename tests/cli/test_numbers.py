"""Numbers of options are read as those of scenarios."""

import pytest
from typer.testing import CliRunner

from netfl.cli import app


@pytest.mark.parametrize("number", ["1_0", "+1", " 8 ", "８", "1.0", "0x8", ""])
@pytest.mark.parametrize(
    "words",
    [["run", "s.yaml", "--workers"], ["run", "s.yaml", "--seed"], ["extend", ".", "--replicas"],
     ["ram", ".", "--replica"], ["export", ".", "--replica"], ["sweep", "s.yaml", "--retries"]],
)  # fmt: skip
def test_integers_are_strict(tmp_path, monkeypatch, words, number):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").touch()
    result = CliRunner().invoke(app, [*words, number])
    assert result.exit_code == 2
    problem = f"{number!r} is not a whole number, such as 8"
    assert result.stderr == f"netfl {words[0]}: {words[-1]}: {problem}; see netfl {words[0]} --help\n"


@pytest.mark.parametrize("number", ["1_0", "+1", " 8 ", "nan", "inf"])
def test_decimal_numbers_are_strict(tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").touch()
    result = CliRunner().invoke(app, ["run", "s.yaml", "--gpus", number])
    assert result.exit_code == 2
    assert result.stderr == f"netfl run: --gpus: {number!r} is not a number, such as 0.5; see netfl run --help\n"


@pytest.mark.parametrize("number", ["1_0", "' 8 '", "'8'"])
def test_numbers_of_set_are_strict(tmp_path, number):
    path = tmp_path / "s.yaml"
    path.write_text("{name: x, users: 4, rounds: 2, access: {kind: bernoulli, probability: 0.5}}")
    result = CliRunner().invoke(app, ["trace", str(path), "--set", f"users={number}"])
    assert result.exit_code == 2
    assert "users: not a whole number" in result.stderr
