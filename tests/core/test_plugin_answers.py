"""Answers of methods of plug-ins: what is wrong is an error that names the method, when it was called, and a remedy."""

import numpy as np
import pytest

from netfl.core.plugin_answers import PluginMethod
from netfl.errors import Fault, MachineError, ScenarioError


class Own:
    """A plug-in."""


METHOD = PluginMethod(Own(), "gains", "return dB for each user, [n]", "channel", ", at 3 s of simulated time,")
WHERE = f"gains() of {__name__}:Own, at 3 s of simulated time,"


def raising(error):
    def call():
        raise error

    return call


def fault_of(act):
    """Return the one fault of an error that *act* raises."""
    with pytest.raises(ScenarioError) as caught:
        act()
    (fault,) = caught.value.faults
    assert (fault.key, fault.remedy) == ("channel", "return dB for each user, [n]")
    return fault


def test_answers_are_given_as_they_are():
    assert METHOD.answer(lambda: [1, 2]) == [1, 2]
    assert METHOD.instance(lambda: 2.5, float) == 2.5
    assert METHOD.value_of_each(lambda: [True, False], 2).dtype == np.bool_
    assert METHOD.number_of_each(lambda: (1, 2), 2).tolist() == [1.0, 2.0]


def test_failures_name_the_method():
    fault = fault_of(lambda: METHOD.answer(raising(ZeroDivisionError("no distance"))))
    assert fault.problem.startswith(f"{WHERE} fails: ZeroDivisionError: no distance (test_plugin_answers.py, line ")


@pytest.mark.parametrize("error", [ScenarioError([Fault("file", "missing")]), MachineError("the disk is full")])
def test_errors_that_explain_themselves_stay(error):
    with pytest.raises(type(error)) as caught:
        METHOD.answer(raising(error))
    assert caught.value is error


@pytest.mark.parametrize(("given", "words"), [(None, "gives None"), (3, "gives int")])
def test_answers_of_another_type_are_named(given, words):
    assert fault_of(lambda: METHOD.instance(lambda: given, dict)).problem == f"{WHERE} {words}"


@pytest.mark.parametrize(
    ("given", "words"),
    [(1.0, "gives a single number"), ([1.0], "gives 1 values"), (np.zeros((2, 2)), "gives the shape [2, 2]")],
)
def test_shapes_that_would_be_stretched_to_all_users_are_named(given, words):
    assert fault_of(lambda: METHOD.value_of_each(lambda: given, 2)).problem == f"{WHERE} {words} for 2 users"
    assert "for 3 frames" in fault_of(lambda: METHOD.number_of_each(lambda: given, 3, "frames")).problem


def test_texts_are_no_numbers():
    assert "fails: ValueError" in fault_of(lambda: METHOD.number_of_each(lambda: ["loud"], 1)).problem
