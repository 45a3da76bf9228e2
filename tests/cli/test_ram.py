"""`netfl ram`: output, exit codes and errors."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support.merging_accesses import Edges
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.core.formats import FORMAT

SCENARIO = """\
name: small
users: 5
rounds: 400
replicas: 2
access: {kind: stationary, rho: [0.4, 0.3, 0.15, 0.1, 0.05]}
"""
LEARNING = """\
data: {kind: blobs, centers: [[0, 0], [3, 3]], samples: 40}
partition: iid
model: logistic
learners:
  CVaR: {objective: {kind: cvar, alpha: 0.2, lr_t: 0.01}, aggregation: relay, lr: 0.1, batch_size: 4, local_steps: 1}
  narrow:
    {objective: {kind: cvar, alpha: 0.001, lr_t: 0.01}, aggregation: relay, lr: 0.1, batch_size: 4, local_steps: 1}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ram")
    (folder / "s.yaml").write_text(SCENARIO + LEARNING)
    return netfl.trace(netfl.load(folder / "s.yaml"), folder / "run").folder


def call(*words, width=120):
    result = CliRunner().invoke(app, ["ram", *map(str, words)], env={"COLUMNS": str(width)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("width", [80, 120])
def test_run_is_described(run, width):
    code, output = call(run, width=width)
    words = " ".join(output.split())
    assert code == 0
    assert output.startswith("stationary\nThe selection is consistent with a stationary one")
    assert "Stated (access stationary): stationary, as in the result; its rates are in all intervals." in words
    assert "replica 0 of 2" in words
    assert "not tested: one user per" in words
    assert "the 5 rarest users" in words
    assert "The tail of α = 0.2 of CVaR covers all deliveries of the 2 rarest users" in words
    assert "The tail of α = 0.001 of narrow covers no user completely" in words
    assert max(map(len, output.splitlines())) <= width
    assert "…" not in output


def test_rarest_users_are_those_of_all_replicas(run):
    """The list pools the replicas as the explanation does; the verdict is that of one replica."""
    pooled = netfl.open_run(run).deliveries["user"].value_counts().sort_values()
    output = call(run, "--rare", 2)[1]
    rows = re.findall(r"^ +(\d) +(\d+) +0\.\d+ ", output[output.index("the 2 rarest users") :], re.MULTILINE)
    assert [(int(user), int(updates)) for user, updates in rows] == [*pooled.head(2).items()]
    assert "updates: delivered in all replicas" in output
    assert "in all replicas" not in call(run, "--rare", 2, "--replica", 1)[1]


def test_several_deliveries_in_a_round_count_once(tmp_path):
    """The number of deliveries is that of the run; participation counts rounds."""
    scenario = netfl.Scenario(name="edges", users=4, rounds=20, replicas=2, access=Edges(edges=2, edge_rounds=2))
    folder = netfl.trace(scenario, tmp_path / "run").folder
    words = " ".join(call(folder)[1].split())
    assert "80 of 160 deliveries repeat a user of the same round: a user counts once in a round." in words
    assert "160 deliveries, of which 80 count; 4 users" in words
    assert "updates: delivered in all replicas, one for each round;" in words
    rows = re.findall(r"^ +\d +(\d+) +1\.0000 ", call(folder)[1], re.MULTILINE)
    assert rows == ["40"] * 4


def test_json_is_valid_and_complete(run):
    code, output = call(run, "--json", "--replica", 1, "--alpha", 0.5)
    flat = json.loads(output, parse_constant=pytest.fail)
    assert code == 0
    assert flat["rounds"] == 400
    assert flat["expected.process"] == "stationary"
    assert flat["reach.tails.alpha"] == [0.5, 0.2, 0.001]


def test_delivery_table_gives_the_same_result(run):
    whole = json.loads(call(run, "--json")[1])
    table = json.loads(call(run / "deliveries.parquet", "--json", "--users", 5, "--rounds", 400)[1])
    assert [table[name] for name in ("verdict", "rates.deliveries", "tests.memory.p")] == [
        whole[name] for name in ("verdict", "rates.deliveries", "tests.memory.p")
    ]


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_table_of_another_program(tmp_path, sign):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"round": np.arange(1, 301), "user": rng.choice(["Zoë", "ab c", "3"], 300)})
    table.to_csv(tmp_path / "t.csv", index=False, sep=sign)
    code, output = call(tmp_path / "t.csv")
    assert code == 0
    assert "Zoë" in output
    assert "The table has 3 users, taken as all users" in output


@pytest.mark.parametrize("table", ["rounds", "deliveries"])
def test_missing_table_of_a_run_is_reported(run, tmp_path, table):
    shutil.copytree(run, tmp_path / "copy")
    path = tmp_path / f"copy/{table}.parquet"
    path.unlink()
    message = f"{path} is missing; restore it from a copy, or repeat the run that wrote it\n"
    assert call(tmp_path / "copy") == (1, message)


INVALID_TABLES = {
    "empty": ("", "t.csv has no column round and user; its columns: none"),
    "header": ("round,user\n", "the table has no rows"),
    "columns": ("a,b\n1,2\n", "t.csv has no column round and user; its columns: a, b; needed: round, user"),
    "back": ("round,user,arrived_s\n1,a,5\n2,b,3\n", "times are not ascending"),
    "negative": ("round,user\n-1,a\n2,b\n", "t.csv:2: column round: not a whole number from 0 on ('-1')"),
    "one user": ("round,user\n1,a\n2,a\n", "only one user"),
    "one round": ("round,user\n1,a\n1,b\n", "only one round"),
}


@pytest.mark.parametrize("name", INVALID_TABLES)
def test_invalid_tables_are_reported(tmp_path, name):
    text, message = INVALID_TABLES[name]
    (tmp_path / "t.csv").write_text(text)
    code, output = call(tmp_path / "t.csv")
    assert code == 2
    assert message in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_binary_file_is_reported(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(range(128, 256)))
    code, output = call(tmp_path / name)
    assert code == 2
    assert f"{name} cannot be read" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--replica", 9], "no such replica (9); there are: 0, 1"),
        (["--alpha", 0], "not a share in (0, 1]"),
        (["--alpha", 1.5], "not a share in (0, 1]"),
        (["--level", 0], "not a probability"),
        (["--users", 5], "a run stores its own value"),
    ],
)
def test_invalid_options_are_reported(run, words, message):
    code, output = call(run, *words)
    assert code == 2
    assert message in output


def test_missing_folder_is_reported(tmp_path):
    assert call(tmp_path / "nothing")[0] == 2
    code, output = call(tmp_path)
    assert code == 2
    assert "is not a run directory" in output


def test_unfinished_run_is_marked(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    rounds = pd.read_parquet(tmp_path / "run/rounds.parquet")
    rounds[rounds["round"] <= 300].to_parquet(tmp_path / "run/rounds.parquet")
    deliveries = pd.read_parquet(tmp_path / "run/deliveries.parquet")
    deliveries[deliveries["round"] <= 300].to_parquet(tmp_path / "run/deliveries.parquet")
    code, output = call(tmp_path / "run")
    assert code == 0
    assert "The run is not finished (interrupted): it has 300 of 400 rounds." in output


def test_run_without_rounds_is_reported(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run/rounds.parquet").unlink()
    (tmp_path / "run/manifest.json").write_text(f'{{"format": {FORMAT}, "status": "running"}}')
    code, output = call(tmp_path / "run")
    assert code == 2
    assert "has no readable rounds" in output


def test_run_with_duration_is_reported(watched, tmp_path):
    text = f"name: w\nusers: 2\nduration: 10 s\naccess: {{kind: '{watched}'}}\n"
    (tmp_path / "w.yaml").write_text(text)
    run = netfl.trace(netfl.load(tmp_path / "w.yaml"), tmp_path / "run")
    code, output = call(run.folder)
    assert code == 2
    assert "is one of traffic" in output


@pytest.mark.slow
def test_cycle_has_its_period_in_hours(tmp_path):
    text = SCENARIO.replace("400", "1000").replace(
        "{kind: stationary, rho: [0.4, 0.3, 0.15, 0.1, 0.05]}",
        "{kind: cyclic, probability: 0.3, cycle: 24, round_length: 1 h}",
    )
    (tmp_path / "s.yaml").write_text(text)
    run = netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    code, output = call(run.folder)
    assert code == 0
    assert "it repeats every 24 rounds (24 h), and users are available for " in " ".join(output.split())


@pytest.mark.slow
def test_constellation_has_its_orbit_and_its_day(tmp_path):
    """Eight satellites pass over a server once an orbit, while the Earth's rotation brings it below their planes."""
    at = np.arange(864)[:, None]
    rng = np.random.default_rng(1)
    is_visible = ((at / 19 + rng.random(8)) % 1 < 0.3) & ((at / 288 + rng.random(8)) % 1 < 0.4)
    schedule = [
        {"user": user, "start": bool(states[0]), "times": (np.flatnonzero(np.diff(states)) + 1).tolist()}
        for user, states in enumerate(is_visible.T)
    ]
    (tmp_path / "passes.json").write_text(json.dumps(schedule))
    access = f"{{kind: availability, file: {tmp_path}/passes.json, unit: rounds, round_length: 5 min, deliveries: 2}}"
    (tmp_path / "s.yaml").write_text(f"name: s\nusers: 8\nrounds: 864\naccess: {access}\n")
    run = netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    code, output = call(run.folder)
    words = " ".join(output.split())
    assert code == 0
    assert output.startswith("cyclic\nThe selection is cyclic with periods of 19 rounds (1 h 35 min) and 28")
    assert "rounds (24 h), in 864 rounds of 8 users." in words
    assert "yes: 19 rounds (1 h 35 min) and 28" in words
    assert json.loads(call(run.folder, "--json")[1])["cycle.periods_s"] == pytest.approx([5700, 86400], rel=0.02)


@pytest.mark.slow
def test_help_does_not_import_scipy():
    code = "from typer.testing import CliRunner; from netfl.cli import app; CliRunner().invoke(app, ['ram', '--help'])"
    check = "; import sys; print('scipy' in sys.modules)"
    process_ = subprocess.run(
        [sys.executable, "-c", code + check], capture_output=True, text=True, check=True, timeout=60
    )
    assert process_.stdout.strip() == "False"


def test_users_delivered_together_are_named(tmp_path):
    rng = np.random.default_rng(2)
    up = rng.random((1500, 2)) < 0.6
    at, user = np.nonzero(up[:, [0, 0, 1, 1, 1]] & (rng.random((1500, 5)) < 0.7))
    pd.DataFrame({"round": at + 1, "user": user}).to_csv(tmp_path / "t.csv", index=False)
    code, output = call(tmp_path / "t.csv", "--users", 5, "--rounds", 1500)
    assert code == 0
    assert output.startswith("emergent-correlated")
    assert "delivered together: 2, 3, 4 | 0, 1" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "verdict", "agreement"),
    [
        ("common_loss: 0.15", "drift + correlation", "drift + correlation, as in the result."),
        ("cycle: {period: 6, spread: 0.7}", "cycle + drift", "cycle + drift, as in the result."),
    ],
)
def test_all_causes_head_the_output(tmp_path, parts, verdict, agreement):
    (tmp_path / "s.yaml").write_text(
        "name: s\nusers: 4\nrounds: 2000\naccess:\n  kind: time_varying\n  probability: 0.6\n"
        f"  drift: {{slope: [0.8, -0.8, 0.8, -0.8]}}\n  {parts}\n"
    )
    run = netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    code, output = call(run.folder)
    assert code == 0
    assert output.startswith(f"{verdict}\n")
    words = " ".join(output.split())
    assert f"Stated (access time_varying): {agreement}" in words
    assert ("yes, 1 group, beyond the drift" in words) == ("correlation" in verdict)
    assert ("It also repeats every 6 rounds (" in words) == ("cycle" in verdict)


@pytest.mark.quick_first
@pytest.mark.parametrize(
    ("access", "process"),
    [
        ("{kind: adversarial, users: [0], inner: {kind: bernoulli, probability: 0.5, deliveries: 1}}", "stationary"),
        ("{kind: bernoulli, probability: 1.0, selection: {kind: oldest, m: 1}}", None),
        ("{kind: correlated, probability: 0.5, groups: 2, correlation: 0.5, deliveries: 1}", "stationary"),
        ("{kind: adversarial, users: [0, 1], per_round: 1, inner: {kind: bernoulli, probability: 0.5}}", None),
    ],
)
def test_stated_process_is_compared(tmp_path, access, process):
    (tmp_path / "s.yaml").write_text(f"name: s\nusers: 5\nrounds: 400\naccess: {access}\n")
    run = netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    flat = json.loads(call(run.folder, "--json")[1])
    assert flat["expected.process"] == process
    assert flat["expected.rates"] is None
    assert ("Stated" in call(run.folder)[1]) == (process is not None)


def test_rounds_as_text_are_read(tmp_path):
    rng = np.random.default_rng(1)
    rounds = [f"{number}.0" for number in range(1, 301)]
    pd.DataFrame({"round": rounds, "user": rng.integers(0, 3, 300)}).to_parquet(tmp_path / "t.parquet")
    code, output = call(tmp_path / "t.parquet", "--json")
    assert code == 0
    assert json.loads(output)["rounds"] == 300
