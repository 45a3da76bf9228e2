"""The package as a whole: what it imports and when, and the house rules that no linter keeps."""

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import netfl

ROOT = Path(netfl.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TRACE = "from netfl.cli import app; app(['trace', 's.yaml', '--out', 'run'], standalone_mode=False)"
HEAVY = "{'torch', 'simpy', 'pandas', 'pyarrow', 'pint', 'networkx', 'pydantic', 'matplotlib'}"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def everywhere(search, files=FILES) -> list[str]:
    """What *search* finds in the syntax of *files*, each with its place."""
    return [f"{path.relative_to(ROOT)}:{line}: {what}" for path in files for line, what in search(tree_of(path))]


def imported_by(code: str, cwd: Path | None = None) -> set[str]:
    """Which heavy packages a fresh interpreter has imported after *code*."""
    ending = f"; import sys; print(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + ending], capture_output=True, text=True, timeout=60, check=True, cwd=cwd
    )
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_importing_netfl_imports_nothing_heavy():
    assert imported_by("import netfl; netfl.__version__; dir(netfl)") == set()


def test_help_imports_nothing_heavy():
    assert (
        imported_by(
            "from typer.testing import CliRunner; from netfl.cli import app; CliRunner().invoke(app, ['--help'])"
        )
        == set()
    )


@pytest.mark.slow
def test_a_scenario_without_units_does_without_pint_and_torch(tmp_path):
    (tmp_path / "s.yaml").write_text("name: x\nusers: 2\nrounds: 5\naccess: {kind: stationary, rho: [0.5, 0.5]}\n")
    used = imported_by("import netfl; netfl.load('s.yaml')", tmp_path)
    assert not used & {"torch", "pint", "matplotlib", "simpy"}


@pytest.mark.slow
def test_tracing_a_direct_access_uses_neither_torch_nor_simpy(tmp_path):
    (tmp_path / "s.yaml").write_text("name: x\nusers: 2\nrounds: 5\naccess: {kind: stationary, rho: [0.5, 0.5]}\n")
    used = imported_by(TRACE, tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()
    assert not used & {"torch", "simpy", "matplotlib"}


NETWORK = """\
name: radio
users: 6
rounds: 4
access:
  kind: network
  round: {kind: first, m: 1, deadline: 10 min}
  topology: {kind: star, radius: 200 m}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel:
    - {kind: log_distance, exponent: 2.5, frequency: 868 MHz}
    - {kind: rayleigh, coherence: 1 s}
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.2}
  compute: {speed: 100}
  broadcast_rate: 50 kbps
data: digits
partition: iid
model: logistic
learners:
  FED-CVaR-AVG:
    objective: {kind: cvar, alpha: 0.3, gamma: 0.3, lr_t: 1e-3}
    aggregation: relay
    lr: 0.1
    batch_size: 16
    local_steps: 2
"""


@pytest.mark.slow
def test_tracing_a_network_with_learners_uses_no_torch(tmp_path):
    (tmp_path / "s.yaml").write_text(NETWORK)
    used = imported_by(TRACE, tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()
    assert "simpy" in used
    assert "torch" not in used


def test_every_public_name_is_there():
    for name in netfl.__all__:
        assert callable(getattr(netfl, name))
        assert name in dir(netfl)
    with pytest.raises(AttributeError, match="module 'netfl' has no attribute 'nothing'"):
        _ = netfl.nothing


def test_no_module_hides_a_public_function():
    assert not {path.stem for path in ROOT.iterdir()} & set(netfl.__all__)


def public(tree, inside=""):
    """The public definitions of a module or class, with their names."""
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            yield f"{inside}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{node.name}.")


def undocumented(tree):
    """Where a module, or a public name of it, has no docstring or a type that is not said."""
    if not ast.get_docstring(tree):
        yield 1, "no module docstring"
    for name, node in public(tree):
        if not ast.get_docstring(node) and "." not in name:
            yield node.lineno, f"{name} has no docstring"
        if isinstance(node, FUNCTIONS):
            if node.returns is None:
                yield node.lineno, f"{name} has no type of what it returns"
            listed = node.args
            arguments = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
            untyped = [one.arg for one in arguments if one and one.annotation is None]
            yield from ((node.lineno, f"{name}: {one} has no type") for one in untyped if one not in {"self", "cls"})


def test_public_names_are_documented_and_typed():
    assert everywhere(undocumented) == []


OPTIONAL = {"tracking/tensorboard.py", "tracking/mlflow.py"}
"""Modules whose packages may be missing."""


def test_public_methods_are_documented_where_they_are_defined_or_in_what_they_override():
    bare = []
    for path in FILES:
        if path.name == "__main__.py" or "/".join(path.parts[-2:]) in OPTIONAL:
            continue
        name = ".".join(["netfl", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
        for kind in vars(importlib.import_module(name)).values():
            if inspect.isclass(kind) and kind.__module__ == name and not kind.__name__.startswith("_"):
                methods = [
                    key for key, item in vars(kind).items() if inspect.isfunction(item) and not key.startswith("_")
                ]
                bare += [f"{name}.{kind.__name__}.{key}" for key in methods if not inspect.getdoc(getattr(kind, key))]
    assert bare == []


GLOBAL = {"np.random.seed", "numpy.random.seed", "torch.manual_seed", "random.seed"}
LOCAL = {"Generator", "SeedSequence", "default_rng", "Philox", "BitGenerator"}
"""What of NumPy's random module draws from no generator that others share."""
FROZEN = {"RandomState"}
"""As well, where published sets are drawn: as objects of their own, whose draws NumPy no longer changes (NEP 19)."""


def loud(tree, *, frozen=False):
    """Where a module prints, or uses a generator that others share; *frozen*: it may make objects of the old one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in {"print", *GLOBAL}:
            yield node.lineno, called
        if isinstance(node, ast.Import) and "random" in {alias.name for alias in node.names}:
            yield node.lineno, "import random"
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            yield node.lineno, "from random"
        numpys = isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}
        if numpys and node.attr not in LOCAL | (FROZEN if frozen else set()):
            yield node.lineno, f"np.random.{node.attr}"


def test_nothing_is_printed_and_no_global_generator_is_used():
    legacy = ROOT / "learning/data/_splits.py"
    assert everywhere(loud, [path for path in FILES if path != legacy]) == []
    assert everywhere(lambda tree: loud(tree, frozen=True), [legacy]) == []


@pytest.mark.parametrize(
    "text",
    ["print(1)", "import random", "from random import choice", "np.random.seed(1)", "np.random.RandomState(1)"],
)
def test_the_search_for_prints_and_generators_finds_them(text):
    assert [line for line, _ in loud(ast.parse(text))] == [1] * (2 if text == "np.random.seed(1)" else 1)


MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse",
    "add", "discard", "update", "setdefault", "difference_update", "intersection_update",
}  # fmt: skip


def held(tree):
    """Names that a module binds at its top level, outside functions, with their values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def changed(tree):
    """Names that are changed in place, or bound anew by a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            yield ast.unparse(node.func.value)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            yield from (ast.unparse(target.value) for target in targets if isinstance(target, ast.Subscript))


def stateful(tree):
    """The names that a module holds and changes, or could change."""
    names = dict(held(tree))
    yield from ((1, f"{name} is changed") for name in set(names) & set(changed(tree)))
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    for name, value in names.items():
        if isinstance(value, mutable) and not (name.strip("_").isupper() or name == "__all__"):
            yield value.lineno, f"{name} can be changed and is not named as a constant"


def test_modules_hold_no_state_that_changes():
    assert everywhere(stateful) == []
