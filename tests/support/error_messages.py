"""Error messages of a value, and their comparison with patterns: the place, the key and a word of the sentence."""

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from netfl.core.spec_errors import faults_of


def assert_messages(messages, patterns):
    """Check that each message is one line, begins with the first part of its pattern, and has the other parts in order.

    The parts of a pattern are separated by `` … ``, as in ``s.yaml:2: users: … whole number``.
    """
    assert len(messages) == len(patterns), messages
    for message, pattern in zip(messages, patterns, strict=True):
        parts = [re.escape(part) for part in pattern.split(" … ")]
        assert re.fullmatch(".*".join([*parts, ""]), message), f"{message!r} does not match {pattern!r}"


def assert_one_fault(error, key, problem, remedy):
    """Check that *error* has one fault, with this key, and with these words in its problem and in what would do.

    A model that is built without its scenario states the key below ``access``.
    """
    assert len(error.faults) == 1, str(error)
    (fault,) = error.faults
    assert fault.key in {key, key.removeprefix("access.")}
    assert problem in fault.problem
    assert remedy in (fault.remedy or "") + fault.problem


def errors_of(model, value):
    """Return the errors of a *value* of *model*, a type or a `pydantic.TypeAdapter`, as a user reads them."""
    adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
    with pytest.raises(ValidationError) as raised:
        adapter.validate_python(value)
    return [str(fault) for fault in faults_of(raised.value)]
