"""Errors of specs: each has its dotted key, its value and a remedy."""

from typing import Annotated

import pytest
from pydantic import Field, ValidationError
from support.error_messages import errors_of

from netfl.access import Access
from netfl.core.family_members import FamilyMember
from netfl.core.spec import Spec


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


def test_section_without_a_value_is_no_mapping():
    errors = errors_of(Outer, {"access": {"kind": "stationary", "rho": [1]}, "inners": {"a": None}})
    assert errors == ["inners.a: has no value; write a mapping of keys to values"]


def test_specs_are_frozen_and_reject_infinity():
    model = Inner(size=1)
    with pytest.raises(ValidationError):
        model.size = 2
    assert errors_of(Inner, {"size": 1, "share": float("inf")}) == [
        "share: not a finite number (inf); write a finite number"
    ]
