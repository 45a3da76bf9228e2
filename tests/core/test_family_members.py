"""Models found by kind: those of netfl, those from outside, and the errors of other kinds."""

# ruff: noqa: E501 - each expected message is on one line

import sys
import textwrap
from typing import Annotated

import pytest
from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError
from support.error_messages import errors_of

from netfl.access import Access
from netfl.access.stationary import Stationary
from netfl.core.descriptions import example
from netfl.core.family_members import FamilyMember, base_of, find_model
from netfl.core.kinds import FAMILIES, family_of, kind_of, list_kinds
from netfl.network.mac import Mac

ACCESS = TypeAdapter(Annotated[Access, FamilyMember()])
MAC = TypeAdapter(Annotated[Mac, FamilyMember()])


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
