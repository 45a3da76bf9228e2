"""Where a rising function comes to 0: against closed forms, and how many values it takes."""

import math

import numpy as np
import pytest

from netfl.network.outage.battery import find_crossing

ROOTS = {
    "a line": (lambda x: 3.0 * x - 1.0, 1.0 / 3.0),
    "a cube, flat where it crosses": (lambda x: (x - 0.3) ** 3, 0.3),
    "nearly a step": (lambda x: np.tanh(1e6 * (x - 0.7)), 0.7),
    "very low, then very steep": (lambda x: np.expm1(700.0 * (x - 0.9)), 0.9),
    "from flat to steep": (
        lambda x: 1e4 * (1.0 - np.cos(math.pi * x)) - 1.0,
        math.acos(1 - 1e-4) / math.pi,
    ),
    "at the high end": (lambda x: x - 1.0, 1.0),
    "at the low end": (lambda x: x, 0.0),
}


@pytest.mark.parametrize("name", ROOTS)
def test_it_is_where_the_closed_form_says(name):
    function, root = ROOTS[name]
    found = find_crossing(function, np.zeros(1), np.ones(1))
    assert found == pytest.approx([root], abs=1e-11 if "cube" not in name else 1e-5)
    assert function(found) >= 0.0


def test_just_before_it_the_function_is_below():
    found = find_crossing(lambda x: x**2 - 2.0, np.zeros(1), np.full(1, 2.0))
    assert found**2 >= 2.0 > np.nextafter(np.nextafter(found, 0.0), 0.0) ** 2


def test_each_has_its_own():
    goals = np.random.default_rng(3).uniform(0, 1, 200)
    low, high = np.full(200, 1e7), np.full(200, 1e7 + 43_200.0)  # late in a long run
    found = find_crossing(lambda x: (1.0 - np.cos(math.pi * (x - low) / 43_200.0)) / 2.0 - goals, low, high)
    expected = low + np.arccos(1.0 - 2.0 * goals) / math.pi * 43_200.0
    np.testing.assert_allclose(found - low, expected - low, rtol=0, atol=1e-7)


def test_nobody_asks():
    assert find_crossing(lambda x: x, np.zeros(0), np.zeros(0)).size == 0


@pytest.mark.parametrize(("name", "most"), [("a line", 6), ("from flat to steep", 40), ("nearly a step", 40)])
def test_few_values_are_asked_for(name, most):
    """Where interpolation is of no use it halves, which alone would take 52 and more."""
    asked = []

    def function(x):
        asked.append(x)
        return ROOTS[name][0](x)

    find_crossing(function, np.zeros(1), np.ones(1))
    assert len(asked) <= most
