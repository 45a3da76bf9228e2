"""The whole package: lazy imports, and rules of the code that no linter checks."""

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import netfl

ROOT = Path(netfl.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TRACE = "from netfl.cli import app; app(['trace', 's.yaml', '--out', 'run'], standalone_mode=False)"
HEAVY = "{'torch', 'simpy', 'pandas', 'pyarrow', 'networkx', 'pydantic', 'matplotlib', 'scipy'}"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def search_all(search, files=FILES) -> list[str]:
    """Return what *search* finds in the syntax trees of *files*, with locations."""
    return [f"{path.relative_to(ROOT)}:{line}: {message}" for path in files for line, message in search(tree_of(path))]


def imported_by(code: str, cwd: Path | None = None) -> set[str]:
    """Return the heavy packages that a new interpreter has imported after *code*."""
    check = f"; import sys; print(sorted({HEAVY} & set(sys.modules)))"
    process = subprocess.run(
        [sys.executable, "-c", code + check], capture_output=True, text=True, timeout=60, check=True, cwd=cwd
    )
    return set(ast.literal_eval(process.stdout.splitlines()[-1]))


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
def test_loading_a_network_imports_neither_tables_nor_the_simulator():
    used = imported_by(
        "import netfl; netfl.load('rural_outage'); import sys; assert 'netfl.network.simulator' not in sys.modules"
    )
    assert not used & {"torch", "matplotlib", "pandas", "pyarrow", "scipy"}


@pytest.mark.slow
def test_listing_a_family_imports_no_other_and_no_scipy():
    code = "from netfl.cli import app; app(['list', 'channel'], standalone_mode=False)"
    code += (
        "; import sys; assert not {'netfl.scenario.scenario', 'netfl.learning.data', 'netfl.access'} & set(sys.modules)"
    )
    assert not imported_by(code) & {"torch", "matplotlib", "pandas", "scipy"}


@pytest.mark.slow
def test_loading_a_scenario_imports_no_torch(tmp_path):
    (tmp_path / "s.yaml").write_text("name: x\nusers: 2\nrounds: 5\naccess: {kind: stationary, rho: [0.5, 0.5]}\n")
    used = imported_by("import netfl; netfl.load('s.yaml')", tmp_path)
    assert not used & {"torch", "matplotlib", "simpy"}


@pytest.mark.slow
def test_tracing_a_direct_access_imports_neither_torch_nor_simpy(tmp_path):
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
def test_tracing_a_network_with_learners_does_not_import_torch(tmp_path):
    (tmp_path / "s.yaml").write_text(NETWORK)
    used = imported_by(TRACE, tmp_path)
    assert (tmp_path / "run" / "manifest.json").exists()
    assert "simpy" in used
    assert "torch" not in used


def test_every_public_name_exists():
    for name in netfl.__all__:
        assert callable(getattr(netfl, name))
        assert name in dir(netfl)
    with pytest.raises(AttributeError, match="module 'netfl' has no attribute 'nothing'"):
        _ = netfl.nothing


def test_no_module_hides_a_public_function():
    assert not {path.stem for path in ROOT.iterdir()} & set(netfl.__all__)


def public(tree, inside=""):
    """Yield the public definitions of a module or class, with their names."""
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            yield f"{inside}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{node.name}.")


def undocumented(tree):
    """Yield modules and public names without a docstring or with missing types."""
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
            untyped = [argument.arg for argument in arguments if argument and argument.annotation is None]
            yield from (
                (node.lineno, f"{name}: {argument} has no type")
                for argument in untyped
                if argument not in {"self", "cls"}
            )


def test_public_names_are_documented_and_typed():
    assert search_all(undocumented) == []


def test_public_methods_are_documented_or_override_documented_ones():
    undocumented_methods = []
    for path in FILES:
        if path.name == "__main__.py":
            continue
        if path.parent.name == "flower" and find_spec("flwr") is None:
            continue
        if path.parent.name == "gym" and find_spec("gymnasium") is None:
            continue
        name = ".".join(["netfl", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
        for kind in vars(importlib.import_module(name)).values():
            if inspect.isclass(kind) and kind.__module__ == name and not kind.__name__.startswith("_"):
                methods = [
                    key for key, item in vars(kind).items() if inspect.isfunction(item) and not key.startswith("_")
                ]
                undocumented_methods += [
                    f"{name}.{kind.__name__}.{key}" for key in methods if not inspect.getdoc(getattr(kind, key))
                ]
    assert undocumented_methods == []


GLOBAL = {"np.random.seed", "numpy.random.seed", "torch.manual_seed", "random.seed"}
LOCAL = {"PCG64", "bit_generator", "Generator", "SeedSequence", "default_rng", "Philox", "BitGenerator"}
"""Names of NumPy's random module that do not use its global generator."""
FROZEN = {"RandomState"}
"""Additional names for published splits: frozen generators, whose draws NumPy does not change (NEP 19)."""


def prints_and_global_random(tree, *, frozen=False):
    """Yield prints and uses of global generators; *frozen* allows generators of the old kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (function := ast.unparse(node.func)) in {"print", *GLOBAL}:
            yield node.lineno, function
        if isinstance(node, ast.Import) and "random" in {alias.name for alias in node.names}:
            yield node.lineno, "import random"
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            yield node.lineno, "from random"
        numpys = isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}
        if numpys and node.attr not in LOCAL | (FROZEN if frozen else set()):
            yield node.lineno, f"np.random.{node.attr}"


def test_package_does_not_print_or_use_global_generators():
    legacy = ROOT / "learning/data/_splits.py"
    seeding = ROOT / "flower/client_calls.py"  # seeds the generators that Flower's apps use, and restores them
    assert search_all(prints_and_global_random, [path for path in FILES if path not in {legacy, seeding}]) == []
    assert search_all(lambda tree: prints_and_global_random(tree, frozen=True), [legacy]) == []


@pytest.mark.parametrize(
    "text",
    ["print(1)", "import random", "from random import choice", "np.random.seed(1)", "np.random.RandomState(1)"],
)
def test_search_finds_prints_and_global_generators(text):
    assert [line for line, _ in prints_and_global_random(ast.parse(text))] == [1] * (
        2 if text == "np.random.seed(1)" else 1
    )


MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse",
    "add", "discard", "update", "setdefault", "difference_update", "intersection_update",
}  # fmt: skip


def module_names(tree):
    """Yield the names that a module binds at top level, with their values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def modified_names(tree):
    """Yield the names that are modified in place or rebound by a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            yield ast.unparse(node.func.value)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            yield from (ast.unparse(target.value) for target in targets if isinstance(target, ast.Subscript))


def stateful(tree):
    """Yield the module-level names that are, or could be, modified."""
    names = dict(module_names(tree))
    yield from ((1, f"{name} is modified") for name in set(names) & set(modified_names(tree)))
    mutable = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    for name, value in names.items():
        if isinstance(value, mutable) and not (name.strip("_").isupper() or name == "__all__"):
            yield value.lineno, f"{name} can be modified and is not named as a constant"


def test_modules_have_no_mutable_state():
    assert search_all(stateful) == []
