"""Effect of the initial biases of a model on its test accuracy.

If a model is trained on pixels of 0 to 255 and tested on pixels of 0 to 1, its biases outweigh the test inputs. A run
shows one draw of the initial biases. This module draws them again, uniform on ±1/√(fan in) as in a new model. It keeps
the trained weights, and the distance that each bias moved in training:

    bias = trained bias - initial bias + redrawn initial bias.

All learners of a run get the same draws, so their difference is paired. The approximation is that training would move
weights and biases in the same way from the redrawn biases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data import Data
from netfl.results.run_reader import Run
from netfl.streams import Streams

DRAWS = 200
LEAK = 0.01
"""The slope of the leaky ReLU below 0."""
LARGE = 0.3
"""A gain or loss as large as in the published curves, as a share of the test examples."""
Layers = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Weights ``[out, in]`` and biases ``[out]`` of each layer."""


def redraw_biases(run: Run, tests: Mapping[str, Data], classes: Sequence[int], replica: int = 0) -> dict[str, float]:
    """Test the last versions of a replica with redrawn initial biases.

    Args:
        run: a run of dense layers that stored its first and last versions.
        tests: data with the test examples, by name.
        classes: the classes whose accuracies are returned.
        replica: the replica.

    Returns:
        For each test, learner and class ``<test> <learner> <class> own``, the accuracy of the run itself, and the
        quantiles over the draws ``… q10``, ``… q50`` and ``… q90``. The class of all examples is ``all``. With two
        learners also the same of ``<test> gain <class>``, the accuracy of the second learner minus that of the first
        with the same biases. ``… positive`` is the share of draws in which this gain is above 0. ``… unpaired rise``
        and ``… unpaired fall`` are the shares of pairs of different draws that differ by `LARGE` or more.
        ``<learner> moved`` is the RMS of the distances that the biases moved over the RMS of the initial biases.
    """
    rng = np.random.default_rng(0)
    models = {
        learner: (_layers(run, learner, replica, 0), _layers(run, learner, replica, -1)) for learner in run.learners
    }
    shapes = [weight.shape for weight, _ in next(iter(models.values()))[0]]
    draws = [[_draw_start(shape, rng) for shape in shapes] for _ in range(DRAWS)]
    found: dict[str, float] = {"draws": DRAWS}
    for learner, (start, trained) in models.items():
        found[f"{learner} moved"] = round(_relative_distance(start, trained), 4)
    for test, data in tests.items():
        loaded = data.load(Streams(0))
        x, y = loaded.test_x.reshape(len(loaded.test_y), -1), loaded.test_y
        accuracies = {}
        for learner, (start, trained) in models.items():
            first = x @ trained[0][0].T
            layers = [trained, *(replace_start(start, trained, drawn) for drawn in draws)]
            accuracies[learner] = np.array([_accuracies(first, candidate, y, classes) for candidate in layers])
        for place, name in enumerate(["all", *classes]):
            columns = {learner: table[:, place] for learner, table in accuracies.items()}
            for learner, column in columns.items():
                found |= _quantiles(f"{test} {learner} {name}", column)
            if len(columns) == 2:
                found |= _gains(f"{test} gain {name}", *columns.values())
    return found


def replace_start(start: Layers, trained: Layers, drawn: Sequence[NDArray[np.float32]]) -> Layers:
    """Return trained layers whose biases start at *drawn* and move as far as they did in training."""
    return [(weight, bias - old + new) for (weight, bias), (_, old), new in zip(trained, start, drawn, strict=True)]


def _layers(run: Run, learner: str, replica: int, place: int) -> Layers:
    """Return the layers of a stored version: 0 for the first one, -1 for the last one."""
    versions = run.versions(learner, replica)
    version = versions[sorted(versions)[place]]
    count = sum(name.endswith(".weight") for name in version)
    return [(version[f"layers.{i}.weight"], version[f"layers.{i}.bias"]) for i in range(count)]


def _draw_start(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw the initial biases of a layer whose weights have this shape."""
    fan_out, fan_in = shape
    return (rng.uniform(-1, 1, fan_out) / np.sqrt(fan_in)).astype(np.float32)


def _relative_distance(start: Layers, trained: Layers) -> float:
    """Return the RMS of the distances that the biases moved, over the RMS of the initial biases."""
    before, after = (np.concatenate([bias for _, bias in layers]) for layers in (start, trained))
    return float(np.linalg.norm(after - before) / np.linalg.norm(before))


def _accuracies(
    first: NDArray[np.float32], layers: Layers, y: NDArray[np.int64], classes: Sequence[int]
) -> list[float]:
    """Return the accuracy on all examples and on each class, given the *first* layer's outputs without biases."""
    hidden = first + layers[0][1]
    for weight, bias in layers[1:]:
        hidden = np.where(hidden > 0, hidden, LEAK * hidden) @ weight.T + bias
    correct = hidden.argmax(axis=1) == y
    return [float(correct.mean()), *(float(correct[y == label].mean()) for label in classes)]


def _quantiles(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """Return the value of the run itself, which is the first of *values*, and the quantiles of the draws."""
    of_run, drawn = values[0], values[1:]
    return {f"{name} own": round(float(of_run), 4)} | {
        f"{name} q{share}": round(float(np.quantile(drawn, share / 100)), 4) for share in (10, 50, 90)
    }


def _gains(name: str, below: NDArray[np.float64], above: NDArray[np.float64]) -> dict[str, float]:
    """Return the differences of two learners, with the same draw and with different draws."""
    gain = above - below
    unpaired = (above[1:, None] - below[None, 1:])[~np.eye(len(gain) - 1, dtype=bool)]
    return _quantiles(name, gain) | {
        f"{name} positive": round(float((gain[1:] > 0).mean()), 4),
        f"{name} unpaired rise": round(float((unpaired >= LARGE).mean()), 4),
        f"{name} unpaired fall": round(float((unpaired <= -LARGE).mean()), 4),
    }
