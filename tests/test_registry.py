"""Models found by name: kinds of netfl, external models, and errors for wrong names and keys."""

# ruff: noqa: E501 - each expected message is on one line

import sys
import textwrap
from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from support.error_messages import assert_messages

from netfl.access import Access
from netfl.access.stationary import Stationary
from netfl.core.descriptions import example
from netfl.core.family_members import FamilyMember, base_of, find_model
from netfl.core.kinds import FAMILIES, family_of, kind_of, list_kinds
from netfl.core.spec import ByForm, Spec
from netfl.core.spec_errors import faults_of
from netfl.errors import ScenarioError
from netfl.network.mac import Mac
from netfl.units import Seconds

ACCESS = TypeAdapter(Annotated[Access, FamilyMember()])
MAC = TypeAdapter(Annotated[Mac, FamilyMember()])


class Inner(Spec):
    """A nested model."""

    size: Annotated[int, Field(ge=1)]
    """A number."""
    share: float = 0.5
    """Another."""


class Outer(Spec):
    """A model with nested models."""

    access: Annotated[Access, FamilyMember()]
    """One of a family."""
    inners: dict[str, Inner] = Field(default_factory=dict)
    """By name."""
    listed: tuple[Inner, ...] = ()
    """In order."""


def errors_of(model, value):
    """Return the errors of *value*."""
    with pytest.raises(ValidationError) as raised:
        (TypeAdapter(model) if not isinstance(model, TypeAdapter) else model).validate_python(value)
    return [str(fault) for fault in faults_of(raised.value)]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a module ``mine.models``."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text):
        (folder / "models.py").write_text(textwrap.dedent(text))

    yield write
    for name in ("mine", "mine.models"):
        sys.modules.pop(name, None)


MINE = """
    from netfl.access.stationary import Stationary
    class Mine(Stationary):
        extra: int = 3
    class Half(__import__("netfl.access", fromlist=["Access"]).Access):
        pass
    number = 5
"""


def test_every_family_finds_all_its_kinds():
    for family in FAMILIES:
        base = base_of(family)
        assert family_of(base) == family
        assert list_kinds(base), family
        for kind in list_kinds(base):
            assert kind_of(find_model(base, kind)) == kind
            assert example(find_model(base, kind)).startswith("kind: ")


def test_kind_alone_is_a_model_without_keys():
    assert MAC.validate_python("tdma") == MAC.validate_python({"kind": "tdma"})
    assert kind_of(type(MAC.validate_python("tdma"))) == "tdma"


def test_model_is_kept_and_dumped_with_kind_first():
    model = Stationary(rho=(0.5, 0.5))
    assert ACCESS.validate_python(model) is model
    dumped = ACCESS.dump_python(model, mode="json")
    assert next(iter(dumped.items())) == ("kind", "stationary")
    assert ACCESS.validate_python(dumped) == model


def test_model_of_another_family_is_rejected():
    errors = errors_of(MAC, Stationary(rho=(1.0,)))
    assert errors[0].startswith("a model of mac is needed: its kind, or a mapping with 'kind'; kinds: ")


@pytest.mark.parametrize(
    ("kind", "suggestion"),
    [("stationry", "stationary"), ("bernouli", "bernoulli"), ("markow", "markov"),
     ("repaly", "replay"), ("netwrok", "network")],
)  # fmt: skip
def test_misspelt_kind_gets_a_suggestion(kind, suggestion):
    assert errors_of(ACCESS, kind) == [f"no such access: '{kind}'; did you mean '{suggestion}'?"]


def test_a_guess_comes_with_the_list():
    known = ", ".join(list_kinds(Access))
    assert errors_of(ACCESS, "cycle") == [f"no such access: 'cycle'; did you mean 'cyclic'? (known: {known})"]


@pytest.mark.parametrize("kind", ["xyz", "", "_direct", "__init__", "stationary.py", "../access"])
def test_unknown_kind_gets_the_list(kind):
    (errors,) = errors_of(ACCESS, kind)
    assert "bernoulli" in errors or "did you mean" in errors
    assert errors.startswith("no such access")


def test_unknown_kind_is_located():
    assert errors_of(ACCESS, {"kind": "markow"})[0].startswith("kind: no such access: 'markow'")


@pytest.mark.parametrize("value", [5, None, [], {}, {"kind": 5}, {"rho": [1]}])
def test_value_without_kind_gets_the_list(value):
    (errors,) = errors_of(ACCESS, value)
    assert "a model of access is needed: its kind, or a mapping with 'kind'" in errors
    assert f"kinds: {', '.join(list_kinds(Access))}" in errors


def test_errors_in_nested_models_have_the_whole_path():
    errors = errors_of(
        Outer,
        {
            "access": {"kind": "stationary", "rho": [0.5, "x"], "deliveris": 2, "round_length": "5 kg"},
            "inners": {"a": {"size": 0}, "b": {}, "c": 5},
            "listed": [{"size": 1}, {"size": 1.5, "shar": 2}],
            "lsted": [],
        },
    )
    assert sorted(errors) == [
        "access.deliveris: unknown key; did you mean 'deliveries'?",
        "access.rho.1: not a number ('x'); write a number",
        "access.round_length: unknown unit: kg ('5 kg'); write a number in s, or a quantity such as '20 ms'",
        "inners.a.size: should be greater than or equal to 1 (0); write 1 or more",
        "inners.b.size: missing; give it a value",
        "inners.c: not a mapping (5); write a mapping of keys to values",
        "listed.1.shar: unknown key; did you mean 'share'?",
        "listed.1.size: not a whole number (1.5); write a whole number",
        "lsted: unknown key; did you mean 'listed'?",
    ]


def test_specs_are_frozen_and_reject_infinity():
    model = Inner(size=1)
    with pytest.raises(ValidationError):
        model.size = 2
    assert errors_of(Inner, {"size": 1, "share": float("inf")}) == [
        "share: not a finite number (inf); write a finite number"
    ]


def test_external_model_needs_no_registration(package):
    package(MINE)
    model = ACCESS.validate_python({"kind": "mine.models:Mine", "rho": [1.0], "extra": 4})
    assert model.extra == 4
    assert kind_of(type(model)) == "mine.models:Mine"
    assert ACCESS.validate_python(ACCESS.dump_python(model, mode="json")) == model


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("mine.models:Half", "'mine.models:Half' is not complete: rounds missing; define it in the class"),
        ("netfl.access:Access", "'netfl.access:Access' is not complete: rounds missing; define it in the class"),
        ("mine.models:number", "'mine.models:number' is no subclass of Access; derive it from netfl.access.Access"),
        ("netfl.network.mac.tdma:Tdma", "'netfl.network.mac.tdma:Tdma' is no subclass of Access; derive it from netfl.access.Access"),
        ("mine.models:None", "'mine.models:None' cannot be imported: 'mine.models' exists, but has no 'None'; known: Mine, Half"),
        ("mine.modles:Mine", "'mine.modles:Mine' cannot be imported: there is no module 'mine.modles'; run in its folder, install its package, or add its folder to PYTHONPATH"),
        (":Mine", "':Mine' cannot be imported: it is not of the form package.module:Class; give the module and the class"),
    ],
)  # fmt: skip
def test_invalid_external_model_is_reported(package, kind, problem):
    package(MINE)
    assert errors_of(ACCESS, kind) == [problem]


@pytest.mark.parametrize("kind", [".mine:Mine", "mine.models:", "mine models:Mine", "a:b:c"])
def test_malformed_name_is_an_error(package, kind):
    package(MINE)
    (errors,) = errors_of(ACCESS, kind)
    assert errors.startswith(f"'{kind}' cannot be imported: ")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("def (:\n", "SyntaxError: invalid syntax (models.py, line 1)"),
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero (models.py, line 2)"),
        ("raise RuntimeError('no {luck}')\n", "RuntimeError: no {luck} (models.py, line 1)"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (models.py, line 1)"),
    ],
)
def test_broken_external_module_is_an_error_with_its_cause(package, text, cause):
    package(text)
    assert errors_of(ACCESS, "mine.models:Mine") == [
        f"'mine.models:Mine' cannot be imported: 'mine.models' exists, but fails: {cause}; fix it"
    ]


def test_find_model_raises_pydantic_error():
    with pytest.raises(PydanticCustomError, match="no such access: 'x'"):
        find_model(Access, "x")


def test_file_must_define_one_model(monkeypatch):
    module = sys.modules["netfl.access.stationary"]
    twin = type("Twin", (Stationary,), {"__module__": module.__name__})
    monkeypatch.setattr(module, "Twin", twin, raising=False)
    with pytest.raises(
        TypeError, match=r"netfl\.access\.stationary must define exactly one public Access, it defines 2"
    ):
        find_model(Access, "stationary")


class Numbers(Spec):
    """A model with all forms of numbers."""

    count: int = 0
    share: float = 0.0
    flag: bool = False
    listed: tuple[tuple[int, float], ...] = ()
    weights: dict[int, float] = Field(default_factory=dict)
    either: Annotated[bool | Annotated[int, Field(ge=1)], ByForm()] = False
    batch: Annotated[Annotated[int, Field(ge=1)] | Literal["full"], ByForm()] = 1
    duration: Seconds = 0.0


@pytest.mark.parametrize("value", [8.0, 1e12])
def test_whole_floats_are_whole_numbers(value):
    assert Numbers(count=value) == Numbers(count=int(value))


@pytest.mark.parametrize("value", [10**12 + 1, 1e19, 10**19, -(10**30), 1e300])
def test_numbers_that_overflow_in_arrays_are_refused(value):
    """YAML reads ``1e19`` as a float, and the same digits as an integer."""
    with pytest.raises(ScenarioError, match=r"Numbers\.count: too large a number"):
        Numbers(count=value)
    assert Bounded(seed=2**100).seed == 2**100


class Bounded(Spec):
    """A model with a maximum of its own."""

    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0


NO_NUMBERS = [
    ({"count": True}, "count: not a whole number (True); write a whole number"),
    ({"count": "8.0"}, "count: not a whole number ('8.0'); write 8.0 without quotes"),
    ({"count": " 8 "}, "count: not a whole number (' 8 '); write 8"),
    ({"count": "+8"}, "count: not a whole number ('+8'); write 8 without quotes"),
    ({"count": "1_0"}, "count: not a whole number ('1_0'); write 10"),
    ({"count": 2.5}, "count: not a whole number (2.5); write a whole number"),
    ({"count": "9" * 5000}, "count: not a whole number … write a whole number of fewer digits"),
    ({"count": np.True_}, "count: not a whole number … write a whole number"),
    ({"share": False}, "share: not a number (False); write a number"),
    ({"share": "10 %"}, "share: not a number ('10 %'); write 0.1"),
    ({"share": "0,5"}, "share: not a number ('0,5'); write 0.5"),
    ({"share": "1,000"}, "share: not a number ('1,000'); write a number"),
    ({"share": 10**400}, "share: not a finite number … write a finite number"),
    ({"share": 10**5000}, "share: not a finite number (too long to print); write a finite number"),
    ({"flag": 1}, "flag: neither true nor false (1); write true or false"),
    ({"flag": "yes"}, "flag: neither true nor false ('yes'); write true or false"),
    ({"listed": [[1, True]]}, "listed.0.1: not a number (True); write a number"),
    ({"weights": {"1_0": 1.0}}, "weights.1_0: not a whole number ('1_0'); write 10"),
    ({"weights": {"1": "2"}}, "weights.1: not a number ('2'); write 2 without quotes"),
    ({"either": "no"}, "either: not a whole number ('no'); write a whole number"),
    ({"batch": True}, "batch: not a whole number (True); write a whole number"),
    ({"duration": True}, "duration: not a number (True); write a number"),
    ({"duration": "8.0"}, "duration: not a number with a unit ('8.0'); write a number in s, … '20 ms'"),
]


@pytest.mark.parametrize(("fields", "message"), NO_NUMBERS, ids=[message[:40] for _, message in NO_NUMBERS])
def test_only_numbers_are_numbers(fields, message):
    with pytest.raises(ScenarioError) as raised:
        Numbers(**fields)
    assert_messages([str(raised.value).removeprefix("Numbers.")], [message])


def test_integral_numbers_and_those_of_numpy_are_whole_numbers():
    numbers = Numbers(count=1e3, share=np.float32(0.5), flag=np.True_, weights={"0": 1, 7: 2.5}, batch=np.int64(8))
    assert numbers == Numbers(count=1000, share=0.5, flag=True, weights={0: 1.0, 7: 2.5}, batch=8)
    assert [type(value) for value in (numbers.count, numbers.share, numbers.batch)] == [int, float, int]
    assert Numbers(either=True).either is True
    assert Numbers(either=4).either == 4
