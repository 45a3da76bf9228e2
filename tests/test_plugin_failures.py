"""A method or property of a model from outside netfl that raises is an error that names the model, its file and line.

The members are those that the class of each family declares: one that is added later is tried, too.
"""

import inspect
import pickle
import warnings
from itertools import count

import pytest
import torch
from support.tiny_scenarios import example_settings, world

import netfl
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.plugins import Overridable, import_plugin, one_line
from netfl.core.spec import Spec
from netfl.errors import NetflError, PluginCallError, ScenarioError
from netfl.learning.architecture import Architecture
from netfl.learning.step_graphs import StepGraphs
from netfl.network.layout import Trajectories
from netfl.simulation.setup import prepare_run
from netfl.types import UNDECLARED

KINDS = {
    "learning/data": "digits",
    "learning/partition": "iid",
    "access": "stationary",
    "network/outage": "renewal",
    "network/topology": "tree",
    "tracker": "tensorboard",
}
"""Kinds from which the broken models are derived; of other families the first."""
NUMBERS = count()
"""Numbers of modules, which Python imports once."""
DESCRIPTORS = {property: "@property", classmethod: "@classmethod", staticmethod: "@staticmethod"}


def declared_members(base):
    """Return the methods and properties that a family's class declares, by name."""
    return {
        name: member
        for each in (Spec, base)
        for name, member in vars(each).items()
        if not name.startswith("_") and (inspect.isfunction(member) or type(member) in DESCRIPTORS)
        if name not in {"from_object", "model_post_init"}  # of Python's objects; of pydantic
    }


MEMBERS = [(family, name, member) for family in FAMILIES for name, member in declared_members(base_of(family)).items()]
CASES = [(family, name) for family, name, _ in MEMBERS]
PROPERTIES = [(family, name) for family, name, member in MEMBERS if isinstance(member, property)]
GENERATORS = [(family, name) for family, name, member in MEMBERS if inspect.isgeneratorfunction(member)]
OF_AGGREGATIONS = [name for family, name in CASES if family == "learning/aggregation"]
OF_OTHERS = [(family, name) for family, name in CASES if family != "learning/aggregation"]


def kind_of_family(family):
    return KINDS.get(family) or list_kinds(base_of(family))[0]


def broken_kind(family, name, folder, *, descriptor=None, first="raise RuntimeError('boom')"):
    """Write a module with a model of *family* of which the member *name* raises in line 5; return its kind."""
    base = find_model(base_of(family), kind_of_family(family))
    if descriptor is None:
        descriptor = DESCRIPTORS.get(type(declared_members(base_of(family))[name]), "")
    module = f"broken_{family.replace('/', '_')}_{name}_{next(NUMBERS)}"
    code = [
        f"from {base.__module__} import {base.__name__}",
        f"class Broken({base.__name__}):",
        f"    {descriptor}",
        f"    def {name}(*args, **options):",
        f"        {first}",
        "        yield" if first.startswith("yield") else "",
    ]
    (folder / f"{module}.py").write_text("\n".join(code))
    return f"{module}:Broken"


def settings_with(family, kind, folder):
    """Return a tiny scenario with a model of *family* of another *kind*."""
    own = kind_of_family(family)
    return with_kind(world(family, example_settings(family, own), folder), own, kind)


def with_kind(value, old, new):
    """Return plain data with the kind *new* in place of *old*."""
    if isinstance(value, dict):
        return {
            key: new if (key, entry) == ("kind", old) else with_kind(entry, old, new) for key, entry in value.items()
        }
    return [with_kind(entry, old, new) for entry in value] if isinstance(value, list) else value


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder in which modules are found, and files are written."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", netfl.NetflWarning)
        yield tmp_path


def assert_names(error, kind):
    """Check that the message names the model, the cause, the file and the line."""
    text = str(error)
    assert kind in text
    assert f"RuntimeError: boom ({kind.partition(':')[0]}.py, line 5)" in text


def error_of_run(settings, folder):
    """Return the error that a run ends with; nothing if it is complete, without the member that is broken."""
    try:
        run = netfl.run(netfl.load(settings), folder / "run")
    except NetflError as error:
        return str(error)
    assert run.status == "done"
    return ""


@pytest.mark.parametrize(("family", "name"), CASES)
def test_whoever_calls_a_member_learns_whose_it_is(family, name, folder):
    kind = broken_kind(family, name, folder)
    model = import_plugin(kind).model_construct()
    with pytest.raises(PluginCallError) as error:
        getattr(model, name)()
    assert_names(error.value, kind)
    cause = error.value.__cause__
    assert isinstance(cause, RuntimeError)
    assert cause.__traceback__.tb_frame.f_globals["__name__"] == kind.partition(":")[0]
    assert cause.__traceback__.tb_next is None


@pytest.mark.parametrize(("family", "name"), GENERATORS)
def test_a_generator_that_fails_names_the_model(family, name, folder):
    kind = broken_kind(family, name, folder, first="yield 1 / 0")
    with pytest.raises(PluginCallError, match=rf"{kind}: .*'{name}' fails: ZeroDivisionError: .*line 5"):
        next(getattr(import_plugin(kind).model_construct(), name)())


@pytest.mark.parametrize("name", OF_AGGREGATIONS)
def test_each_member_of_an_aggregation_is_tried_before_a_run(name, folder):
    kind = broken_kind("learning/aggregation", name, folder)
    with pytest.raises(ScenarioError) as error:
        prepare_run(netfl.load(settings_with("learning/aggregation", kind, folder)))
    assert_names(error.value, kind)
    assert "learners.one.aggregation" in {fault.key for fault in error.value.faults}


@pytest.mark.parametrize(("family", "name"), PROPERTIES)
def test_each_property_is_read_with_the_scenario(family, name, folder):
    kind = broken_kind(family, name, folder)
    with pytest.raises(ScenarioError) as error:
        netfl.load(settings_with(family, kind, folder))
    assert_names(error.value, kind)
    assert all(fault.key for fault in error.value.faults)


@pytest.mark.parametrize(("family", "name"), PROPERTIES)
def test_a_method_in_place_of_a_property_is_an_error(family, name, folder):
    kind = broken_kind(family, name, folder, descriptor="")
    with pytest.raises(ScenarioError, match=f"'{kind}': its property '{name}' is a method; write @property"):
        netfl.load(settings_with(family, kind, folder))


@pytest.mark.parametrize("family", FAMILIES)
def test_abstract_classes_that_models_open_name_their_failures(family):
    returned = opened_class(family)
    assert returned is None or issubclass(returned, Overridable)


def opened_class(family):
    """Return the abstract class of what models of *family* open; ``None`` if they open nothing, or data."""
    base = base_of(family)
    name = inspect.signature(base.open).return_annotation if hasattr(base, "open") else ""
    known = vars(inspect.getmodule(base)) | {each.__name__: each for each in (Architecture, Trajectories)}
    return known.get(name) if inspect.isabstract(known.get(name)) else None


OPENED = [
    (family, name)
    for family in FAMILIES
    if opened_class(family) is not None
    for name, member in vars(opened_class(family)).items()
    if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
]
BREAK_OPENED = """
from {module} import {model}
class Broken({model}):
    def open(self, *args, **options):
        opened = super().open(*args, **options)
        def fail(*args, **options): raise RuntimeError("boom")
        opened.__class__ = type("Opened", (type(opened),), {{"__module__": __name__, "{name}": {descriptor}(fail)}})
        return opened
"""
"""A model that opens an object of which one member fails in line 6."""


@pytest.mark.parametrize(("family", "name"), OPENED)
def test_no_member_of_what_a_model_opens_ends_a_run_without_its_name(family, name, folder):
    if family == "tracker":
        pytest.importorskip("tensorboard", reason="netfl-sim[tensorboard] is not installed")
    base = find_model(base_of(family), kind_of_family(family))
    is_property = isinstance(vars(opened_class(family))[name], property)
    parts = {"module": base.__module__, "model": base.__name__, "name": name}
    module = f"opened_{family.replace('/', '_')}_{name}_{next(NUMBERS)}"
    code = BREAK_OPENED.format(**parts, descriptor="property" if is_property else "")
    (folder / f"{module}.py").write_text(code)
    settings = settings_with(family, f"{module}:Broken", folder)
    text = error_of_run(settings, folder)
    assert not text or UNDECLARED in text or (module in text and f"RuntimeError: boom ({module}.py, line 6)" in text)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), OF_OTHERS)
def test_no_member_ends_a_run_without_its_name(family, name, folder):
    if family == "tracker":
        pytest.importorskip("tensorboard", reason="netfl-sim[tensorboard] is not installed")
    kind = broken_kind(family, name, folder)
    settings = settings_with(family, kind, folder)
    assert kind in str(settings)
    text = error_of_run(settings, folder)
    place = f"RuntimeError: boom ({kind.partition(':')[0]}.py, line 5)"
    assert not text or UNDECLARED in text or (kind in text and place in text)


def test_a_part_that_cannot_be_recorded_is_called():
    def refuse(function):
        raise PluginCallError("mod:Own", "its method 'gradient_weights' fails: RuntimeError: captured (mod.py, line 9)")

    graphs = StepGraphs(refuse)
    ones = torch.ones(2)
    results = [graphs.run("key", lambda x: x + 1, [ones]) for _ in range(3)]
    assert all(torch.equal(result, ones + 1) for result in results)


def test_a_failure_keeps_its_cause_and_gets_a_time_once():
    failure = PluginCallError("mod:Own", "its method 'step' fails: KeyError: 'x' (mod.py, line 9)")
    failure.__cause__ = KeyError("x")
    later = failure.at(2.0)
    assert str(later) == f"mod:Own, at 2 s of simulated time: {failure.problem}"
    assert later.__cause__ is failure.__cause__
    assert later.at(3.0) is later
    assert pickle.loads(pickle.dumps(later)).cause == one_line(later) == "KeyError: 'x' (mod.py, line 9)"
