"""Messages to somebody who is new: every command and every function, given the wrong kind of thing.

Each message is one line in the words of its reader, with what is wrong and what to do, and never a traceback.  The
command line names options and commands, Python names arguments and functions.
"""

import ast
import inspect
import re
from itertools import product
from pathlib import Path

import pytest
from support.exported_runs import call
from support.inline_sweep_engine import Here

import netfl
from netfl.cli import app
from netfl.core.family_members import base_of
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.remedies import command_line
from netfl.errors import NetflError, ScenarioError

ROOT = Path(__file__).parents[1]
SMALL = """name: small
users: 4
rounds: 3
access: {kind: bernoulli, probability: 0.5}
"""
LEARNING = """name: learning
users: 4
rounds: 3
access: {kind: bernoulli, probability: 0.5}
data: digits
partition: iid
model: logistic
learners:
  a: {objective: erm, aggregation: average, lr: 0.1, batch_size: full, local_steps: 1}
"""
NETWORK = """name: network
users: 4
rounds: 3
access:
  kind: network
  topology: {kind: star, radius: 1 km}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: free_space, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}
  mac: {kind: round_robin}
  compute: {speed: 100, samples: 100}
  update_size: 1e4
  broadcast_rate: 1e5
  round: {kind: first, m: 1}
"""
OPTION = re.compile(r"(^|[\s(])--[a-z]")
COMMAND = re.compile(r"\bnetfl (?!wrote\b|has\b|contains\b|reads\b|of\b)[a-z]+\b")
FUNCTION = re.compile(r"netfl\.[a-z_]+|overrides=")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run, a sweep, a scenario, and things that are none of these."""
    folder = tmp_path_factory.mktemp("first_steps")
    (folder / "small.yaml").write_text(SMALL)
    (folder / "notes.txt").write_text("hello\n")
    (folder / "empty").mkdir()
    netfl.run(SMALL, folder / "runs" / "mine", progress=False)
    netfl.sweep(f"{SMALL}sweep: {{users: [4, 5]}}\n", folder / "grid", engine=Here(), progress=False)
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def assert_is_for(reader, message):
    """Check that a message is lines of a problem and a remedy, in the words of the command line or of Python."""
    for line in message.splitlines():
        assert not line.endswith("."), line
        assert "; " in line or "known: " in line or "did you mean" in line, f"no remedy: {line}"
        if reader == "python":
            outside = re.sub(r"in a shell, netfl [^;]*", "", line)
            assert not OPTION.search(outside), line
            assert not COMMAND.search(outside), line
        else:
            assert not FUNCTION.search(line), line


PLACES = {
    "missing": "nowhere/at_all",
    "typo": "rural_outge",
    "run": "runs/mine",
    "run with a typo": "runs/mien",
    "folder of runs": "runs",
    "table of a run": "runs/mine/rounds.parquet",
    "manifest": "runs/mine/manifest.json",
    "scenario of a run": "runs/mine/scenario.yaml",
    "sweep": "grid",
    "scenario": "small.yaml",
    "scenario with a typo": "smal.yaml",
    "example": "rural_outage",
    "folder": "empty",
    "text": "notes.txt",
    "address": "https://example.org/a.yaml",
    "nothing": "",
}
COMMANDS = {
    "run": (["run"], {"scenario", "scenario of a run", "example"}),
    "trace": (["trace"], {"scenario", "scenario of a run", "example"}),
    "check": (["check"], {"scenario", "scenario of a run", "example"}),
    "sweep": (["sweep"], set()),
    "resume": (["resume"], set()),
    "extend": (["extend", "--replicas", "1"], set()),
    "ram": (["ram"], {"run"}),
    "report": (["report"], {"run", "sweep"}),
    "export": (["export", "--csv"], {"run"}),
    "verify": (["verify"], {"run"}),
    "orbits": (["orbits"], set()),
    "timeout": (["timeout", "--rounds", "4"], {"scenario", "run", "example"}),
    "import flower": (["import", "flower", "--out", "recorded"], set()),
    "import phone": (["import", "phone", "--out", "drive.csv"], set()),
    "import lorawan": (["import", "lorawan", "--out", "recorded"], set()),
}
"""Words of each command, and the places that it takes."""


@pytest.mark.parametrize(("command", "place"), list(product(COMMANDS, PLACES)))
def test_each_command_says_what_is_at_a_wrong_path(here, command, place):
    words, accepted = COMMANDS[command]
    if place in accepted:
        pytest.skip("a right path")
    code, output = call(*words, PLACES[place])
    assert code == 2
    assert_is_for("cli", output)
    if command != "check":
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ram", "small.yaml"], "it is a scenario; run it first: netfl run small.yaml"),
        (["report", "small.yaml"], "it is a scenario; run it first: netfl run small.yaml"),
        (["ram", "rural_outage"], "it is a scenario of netfl; run it first: netfl run rural_outage"),
        (["ram", "grid"], "it is the folder of a sweep; give one of its runs, such as grid/tasks/"),
        (["ram", "runs"], "give one of the runs in it, such as runs/mine"),
        (["resume", "runs/mien"], "it does not exist; did you mean 'runs/mine'?"),
        (["export", "runs/mine/rounds.parquet", "--csv"], "it is a file of a run; give its run directory, runs/mine"),
        (["run", "runs/mine"], "it is a run directory, not a scenario; its scenario is runs/mine/scenario.yaml"),
        (["run", "grid"], "it is the folder of a sweep, not a scenario; its scenario is grid/scenario.yaml"),
        (["check", "runs/mine/manifest.json"], "a file of a run, not a scenario; its scenario is runs/mine/scen"),
        (["check", "rural_outge"], "did you mean 'rural_outage', a scenario that netfl contains?"),
        (["check", "smal.yaml"], "the file does not exist; did you mean 'small.yaml'?"),
        (["new", "aggregation"], "netfl new: NAME: missing; write for example: netfl new aggregation my_aggregation"),
        (["run"], "netfl run: SCENARIO: missing; write for example: netfl run rural_outage"),
        (["extend", "runs/mine"], "--replicas: missing; write for example: netfl extend runs/mine --replicas 5"),
        (["simulate", "x"], "netfl: no such command ('simulate'); did you mean 'run' or 'trace'?"),
        (["data", "fech"], "netfl data: no such command ('fech'); did you mean 'fetch'?"),
        (["run", "small.yaml", "--qiet"], "netfl run: no such option: --qiet; did you mean --quiet?"),
        (["list", "rayleig"], "no such family ('rayleig'); did you mean the model 'rayleigh' of channel?"),
        (["list", "FedAvg"], "no such family ('FedAvg'); did you mean the model 'average' of aggregation?"),
        (["list", "aloha"], "no such family ('aloha'); did you mean the model 'slotted_aloha' of mac?"),
        (["list", "scenari"], "no such family ('scenari'); did you mean 'scenario'?"),
        (["list", "constant"], "several families have this model ('constant'); write netfl list channel constant or"),
        (["extend", "runs/mine", "--replicas", "1"], "--replicas: the run in runs/mine already has 1 (1); give more"),
        (["check", "small.yaml", "--set", "usrs=3"], "--set usrs=3: usrs: unknown key; did you mean 'users'?"),
    ],
)  # fmt: skip
def test_a_command_names_what_is_meant(here, words, message):
    code, output = call(*words)
    assert code == 2
    assert message in output
    assert_is_for("cli", output)


def test_a_model_is_listed_without_its_family():
    code, output = call("list", "rayleigh")
    assert (code, output) == call("list", "channel", "rayleigh")
    assert code == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_kind_with_a_typo_is_recognised(family):
    name = family.rpartition("/")[2]
    for kind in list_kinds(base_of(family)):
        typo = f"{kind[:2]}{kind[3:]}" if len(kind) > 4 else f"{kind}x"
        if typo in list_kinds(base_of(family)):
            continue
        code, output = call("list", name, typo)
        assert code == 2
        assert f"no such {name}: '{typo}'; did you mean '" in output
    code, output = call("list", f"{name}x")
    assert (code, "did you mean" in output) == (2, True)


@pytest.mark.parametrize("command", [command.name or command.callback.__name__ for command in app.registered_commands])
def test_each_command_with_a_typo_is_recognised(command):
    code, output = call(f"{command}x")
    assert code == 2
    assert f"did you mean '{command}'?" in output


ENTRY_POINTS = {
    "load": netfl.load,
    "run": lambda value: netfl.run(value, "out", progress=False),
    "trace": lambda value: netfl.trace(value, "out", progress=False),
    "sweep": lambda value: netfl.sweep(value, "out", progress=False),
    "Simulation": netfl.Simulation,
    "resume": netfl.resume,
    "extend": lambda value: netfl.extend(value, 1),
    "open_run": netfl.open_run,
    "open_sweep": netfl.open_sweep,
    "compare": lambda value: netfl.compare(value, "jain"),
    "out of run": lambda value: netfl.run(SMALL, value, progress=False),
    "observer": lambda value: netfl.run(SMALL, "out", observer=value, progress=False),
    "overrides": lambda value: netfl.load("small.yaml", value),
    "named": lambda value: netfl.load("small.yaml", named=value),
    "device": lambda value: netfl.run(SMALL, "out", device=value, progress=False),
    "workers": lambda value: netfl.run(SMALL, "out", workers=value, progress=False),
    "replicas": lambda value: netfl.extend("runs/mine", value),
    "replica": lambda value: netfl.Simulation(SMALL, replica=value),
    "engine": lambda value: netfl.sweep(f"{SMALL}sweep: {{users: [4, 5]}}\n", "out", engine=value, progress=False),
    "metric": lambda value: netfl.compare("runs/mine", value),
    "by": lambda value: netfl.compare("runs/mine", "jain", by=value),
    "baseline": lambda value: netfl.compare("runs/mine", "jain", baseline=value),
    "at": lambda value: netfl.compare("runs/mine", "jain", at=value),
    "Scenario": netfl.Scenario,
    "users of Scenario": lambda value: netfl.Scenario(name="x", users=value, rounds=2, access="adversarial"),
    "learners of Scenario": lambda value: netfl.load({"name": "x", "users": 2, "rounds": 2, "learners": value}),
    "access of Scenario": lambda value: netfl.load({"name": "x", "users": 2, "rounds": 2, "access": value}),
}
"""Calls of Python, each with one argument that is given."""
OTHERS = {
    "None": None, "bytes": b"x", "list": [b"x"], "class": netfl.Scenario, "object": object(), "float": 2.5,
    "long": "x" * 300, "NUL": "a\0b", "typo": "rural_outge",
}  # fmt: skip
ALLOWED = {
    ("out of run", "None"), ("observer", "None"), ("overrides", "None"), ("engine", "None"), ("by", "None"),
    ("baseline", "None"), ("at", "None"), ("at", "float"), ("out of run", "typo"),
}  # fmt: skip
"""Defaults, and values that are right."""


@pytest.mark.parametrize(("name", "value"), [pair for pair in product(ENTRY_POINTS, OTHERS) if pair not in ALLOWED])
def test_each_function_refuses_wrong_values_with_a_remedy(here, name, value):
    with pytest.raises(NetflError) as error:
        ENTRY_POINTS[name](OTHERS[value])
    if value == "long" and name in {"out of run"}:
        return  # the message of the system
    assert_is_for("python", str(error.value))


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name, place in product([*ENTRY_POINTS][:10], PLACES) if place != "nothing"],
)
def test_each_function_says_what_is_at_a_wrong_path(here, name, place, monkeypatch, tmp_path):
    reads_scenario = name in {"load", "run", "trace", "sweep", "Simulation"}
    accepted = {"scenario", "scenario of a run", "example"} if reads_scenario else {"run"}
    if name in {"open_sweep", "compare"}:
        accepted = {"sweep"} if name == "open_sweep" else {"run", "sweep"}
    if place in accepted and name not in {"resume", "extend", "sweep"}:
        pytest.skip("a right path")
    with pytest.raises(NetflError) as error:
        ENTRY_POINTS[name](PLACES[place])
    assert isinstance(error.value, ScenarioError)
    assert len(error.value.faults) == 1
    assert_is_for("python", str(error.value))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (lambda: netfl.run("rural_outge"), "did you mean 'rural_outage', a scenario that netfl contains?"),
        (lambda: netfl.load(SMALL, {"users": -1}), "overrides={'users': -1}: users: should be greater"),
        (lambda: netfl.load(SMALL, {"mac.probability": 1}), "mac: unknown key; write it as access.mac.probability"),
        (lambda: netfl.load(LEARNING, {"learners": None}), "has no value; write a mapping of keys to values, or {}"),
        (lambda: netfl.open_run("small.yaml"), "run it first: netfl.run('small.yaml')"),
        (lambda: netfl.open_sweep("small.yaml"), "run it first: netfl.sweep('small.yaml')"),
        (lambda: netfl.open_sweep("runs/mine"), "it is a run directory; open it with netfl.open_run('runs/mine')"),
        (lambda: netfl.open_run("grid"), "netfl.open_sweep('grid') reads the whole sweep"),
        (lambda: netfl.load(netfl.open_run("runs/mine")), "give the path of its scenario, 'runs/mine/scenario.yaml'"),
        (lambda: netfl.open_run(netfl.open_run("runs/mine")), "give its folder, 'runs/mine'"),
        (lambda: netfl.run(SMALL, device="gpu"), "device: no such device ('gpu'); write auto, cpu, cuda or cuda:N"),
        (lambda: netfl.Scenario("small.yaml"), "netfl.load reads files and mappings"),
        (lambda: netfl.resume("runs/mine"), "is finished; use netfl.extend to add replicas"),
    ],
)  # fmt: skip
def test_a_function_names_what_is_meant(here, entry, message):
    with pytest.raises(NetflError) as error:
        entry()
    assert message in str(error.value)
    assert_is_for("python", str(error.value))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("data", "file", "data: no such data: 'file'; did you mean 'table'?"),
        ("optimizer", "adam", "unknown key; users train by SGD (lr, momentum, weight_decay); for one at the server, "
                              "write it as learners.a.aggregation: fedadam"),
        ("learners.a.optimizer", "adam", "for one at the server, did you mean 'aggregation: fedadam'?"),
        ("lr", 0.2, "lr: unknown key; write it as learners.a.lr"),
    ],
)  # fmt: skip
def test_words_of_other_programs_lead_to_a_key_and_its_value(key, value, message):
    with pytest.raises(ScenarioError) as error:
        netfl.load(LEARNING, {key: value})
    assert message in str(error.value)
    for fault in error.value.faults:
        if "write it as" in fault.remedy:
            _, _, written = fault.remedy.rpartition("write it as ")
            path, _, kind = written.partition(": ")
            needed = {"learners.a.aggregation.server_lr": 0.01} if kind else {}
            netfl.load(LEARNING, {path: kind or value, **needed})  # the remedy is right


def test_the_remedy_for_a_key_without_its_section_works():
    with pytest.raises(ScenarioError) as error:
        netfl.load(NETWORK, {"radio.power": "20 dBm"})
    assert str(error.value).endswith("radio: unknown key; write it as access.radio.power")
    assert (
        netfl.load(NETWORK, {"access.radio.power": "20 dBm"}).access.radio.power
        != netfl.load(NETWORK).access.radio.power
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("users: 4", "users 4", 2, "no colon after the key ('users 4'); write 'users: 4'"),
        ("users: 4", "users:4", 2, "no space after the colon ('users:4'); write 'users: 4'"),
        ("rounds: 3", "rounds 3", 3, "no colon after the key ('rounds 3'); write 'rounds: 3'"),
        ("name: network", "name network", 1, "no colon after the key ('name network'); write 'name: network'"),
        ("access:", "access", 4, "no colon after the key ('access'); write 'access:'"),
        ("  kind: network", "  kind network", 5, "no colon after the key ('kind network'); write 'kind: network'"),
    ],
)  # fmt: skip
def test_a_missing_colon_is_named_with_its_line(tmp_path, old, new, line, problem):
    path = tmp_path / "s.yaml"
    path.write_text(NETWORK.replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        netfl.load(path)
    assert str(error.value) == f"{path}:{line}: {problem}"


def test_a_missing_colon_in_braces_is_named(tmp_path):
    with pytest.raises(ScenarioError, match="write a colon after the key: 'kind: bernoulli'"):
        netfl.load(SMALL.replace("kind: bernoulli", "kind bernoulli"))


def test_a_plugin_may_leave_out_the_type_of_a_property_of_its_contract(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = (
        "from netfl.learning.aggregation import Aggregation\n"
        "class Mine(Aggregation):\n"
        '    """A rule."""\n'
        "    accepts_parts = True\n"
        "    def step(self, state, current, updates):\n"
        "        return current, state\n"
    )
    (tmp_path / "rule_with_parts.py").write_text(rule)
    scenario = netfl.load(LEARNING, {"learners.a.aggregation": "rule_with_parts:Mine"})
    assert scenario.learners["a"].aggregation.accepts_parts is True
    (tmp_path / "rule_with_type.py").write_text(
        "from typing import ClassVar\n" + rule.replace("accepts_parts", "accepts_parts: ClassVar[bool]")
    )
    typed = netfl.load(LEARNING, {"learners.a.aggregation": "rule_with_type:Mine"}).learners["a"].aggregation
    assert type(typed).accepts_parts is True
    (tmp_path / "rule_with_number.py").write_text(rule.replace("accepts_parts = True", "FACTOR = 3"))
    with pytest.raises(ScenarioError) as error:
        netfl.load(LEARNING, {"learners.a.aggregation": "rule_with_number:Mine"})
    assert "the attribute 'FACTOR = 3' has no type (rule_with_number.py, line 2); write FACTOR: ClassVar = 3" in str(
        error.value
    )


def test_a_partition_by_a_prerun_names_the_selection_that_needs_the_data():
    changes = {
        "access.selection": {"kind": "f3ast", "m": 2},
        "partition": {"kind": "rare_classes", "classes": [9], "users": 1, "by": "prerun"},
    }
    with pytest.raises(ScenarioError) as error:
        netfl.load(LEARNING, changes)
    assert "the selection 'f3ast' on the data that users hold ('prerun'); use another selection" in str(error.value)


def test_words_of_the_command_line_end_with_the_command(here):
    call("check", "rural_outge")
    with pytest.raises(ScenarioError, match=r"use netfl\.extend"):
        netfl.resume("runs/mine")
    with command_line(), pytest.raises(ScenarioError, match="use netfl extend"):
        netfl.resume("runs/mine")


# What the code says


def strings_of(path):
    """Yield line and text of each string of a file that is no docstring; parts that are computed are ``{}``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "argument":
            skipped |= {id(name) for name in node.args}  # the option for the command line, beside that for Python
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)


LIBRARY = sorted(
    path
    for path in (ROOT / "netfl").rglob("*.py")
    if path.relative_to(ROOT / "netfl").parts[0] != "cli" and path != ROOT / "netfl/core/remedies.py"
)
FOR_SHELLS = {
    "app_files.py": "reads arguments of `netfl flower run` alone",
    "_fcd_file.py": "the option of sumo",
    "sumo_fcd.py": "the option of sumo",
    "ray_cluster.py": "the option of ray",
    "slurm_engine.py": "options of sbatch",
    "app_run.py": "the command that is noted in the manifest",
    "examples.py": "a function for Flower apps, which a command starts",
    "style.py": "variables of CSS",
    "_download.py": "what a page of data sets lists",
}
"""Files of the library whose strings have words for a shell, each with the reason."""


def test_the_library_has_no_words_of_the_command_line():
    found = []
    command = re.compile(r"\bnetfl (run|trace|resume|extend|sweep|report|ram|check)\b")
    for path in LIBRARY:
        if path.name in FOR_SHELLS:
            continue
        for line, text in strings_of(path):
            if OPTION.search(text) or command.search(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: {text}")
    assert found == [], "use netfl.core.remedies: argument, given, changed, function or call"


ERRORS = {"Fault", "MachineError", "ModelError", "PluginError", "QuantityError", "invalid", "BadParameter"}
"""Calls whose texts are read as messages."""
PARTS = {"problem", "remedy", "reason", "message"}
"""Variables whose texts become parts of messages."""


def test_no_message_ends_with_a_period():
    """A message ends with its remedy; only sentences of reports, notes, help and tables end with a period."""
    found = []
    for path in sorted((ROOT / "netfl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in ERRORS:
                texts = [*node.args, *(keyword.value for keyword in node.keywords)]
            elif isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & PARTS:
                texts = [node.value]
            else:
                continue
            found += [f"{path.relative_to(ROOT)}:{node.lineno}" for text in texts if ends_with_a_period(text)]
    assert found == []


def test_every_error_of_a_scenario_has_a_remedy():
    found = []
    for path in sorted((ROOT / "netfl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fault":
                has_remedy = len(node.args) > 3 or "remedy" in {keyword.arg for keyword in node.keywords}
                found += [] if has_remedy else [f"{path.relative_to(ROOT)}:{node.lineno}"]
    assert found == []


def ends_with_a_period(node):
    """Return whether a text that code builds ends with a full stop, but not with an ellipsis."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return ends_with_a_period(node.values[-1])
    if isinstance(node, ast.BinOp):
        return ends_with_a_period(node.right)
    if isinstance(node, ast.IfExp):
        return ends_with_a_period(node.body) or ends_with_a_period(node.orelse)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and re.search(r"[^.]\.$", node.value) is not None


def test_every_public_function_is_in_the_matrix():
    functions = {name for name in netfl.__all__ if inspect.isfunction(getattr(netfl, name))}
    assert functions <= {*ENTRY_POINTS}
    assert {"Scenario", "Simulation"} <= {*ENTRY_POINTS}
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    (readers,) = (group for group in app.registered_groups if group.name == "import")
    in_group = readers.typer_instance.registered_commands
    commands |= {f"import {command.name or command.callback.__name__}" for command in in_group}
    without_path = {"list", "schema", "scenarios", "version", "new", "table"}
    assert commands - without_path == {*COMMANDS}
