"""Root finding for batteries: results compared with closed forms, and numbers of evaluations."""

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
def test_root_matches_closed_form(name):
    function, root = ROOTS[name]
    crossing = find_crossing(function, np.zeros(1), np.ones(1))
    assert crossing == pytest.approx([root], abs=1e-11 if "cube" not in name else 1e-5)
    assert function(crossing) >= 0.0


def test_function_is_negative_before_crossing():
    crossing = find_crossing(lambda x: x**2 - 2.0, np.zeros(1), np.full(1, 2.0))
    assert crossing**2 >= 2.0 > np.nextafter(np.nextafter(crossing, 0.0), 0.0) ** 2


def test_roots_are_found_for_each_element():
    goals = np.random.default_rng(3).uniform(0, 1, 200)
    low, high = np.full(200, 1e7), np.full(200, 1e7 + 43_200.0)  # late in a long run
    crossings = find_crossing(lambda x: (1.0 - np.cos(math.pi * (x - low) / 43_200.0)) / 2.0 - goals, low, high)
    expected = low + np.arccos(1.0 - 2.0 * goals) / math.pi * 43_200.0
    np.testing.assert_allclose(crossings - low, expected - low, rtol=0, atol=1e-7)


def test_empty_input_has_no_roots():
    assert find_crossing(lambda x: x, np.zeros(0), np.zeros(0)).size == 0


@pytest.mark.parametrize(
    ("name", "max_evaluations"), [("a line", 6), ("from flat to steep", 40), ("nearly a step", 40)]
)
def test_number_of_evaluations_is_limited(name, max_evaluations):
    """The search bisects when interpolation fails; bisection alone needs at least 52 evaluations."""
    evaluated = []

    def function(x):
        evaluated.append(x)
        return ROOTS[name][0](x)

    find_crossing(function, np.zeros(1), np.ones(1))
    assert len(evaluated) <= max_evaluations
