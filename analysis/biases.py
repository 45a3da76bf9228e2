"""How much of a test accuracy the biases decide that a model started with.

A model that is trained on pixels of 0 to 255 and tested on pixels of 0 to 1 sees inputs that its biases outweigh; and
biases hardly move while such large inputs move the weights.  So the trained weights are tested with biases drawn anew,
as a model starts with them, uniform on ±1/√(fan in).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import netfl
from netfl.reading import Run
from netfl.streams import Streams

DRAWS = 200
LEAK = 0.01
"""The slope of the leaky ReLU below 0."""
Layers = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]


def redrawn(run: Run, path: str, classes: Sequence[int]) -> Mapping[str, float]:
    """Test accuracies in [0, 1] of the first learner's last version: with its own biases, and with others.

    Args:
        run: a run that kept it.
        path: the scenario whose test pixels are taken.
        classes: those whose own accuracy is asked for.

    Returns:
        ``own <class>``, and the 10 %, 50 % and 90 % quantiles over draws, ``q10 <class>`` …; the class of all is
        ``all``.
    """
    data = netfl.load(path).data
    if data is None:
        raise ValueError(f"{path} has no data")
    held = data.load(Streams(0))
    x, y = held.test_x.reshape(len(held.test_y), -1), held.test_y
    kept = run.versions(run.learners[0])
    last = kept[max(kept)]
    layers = [(last[f"layers.{i}.weight"], last[f"layers.{i}.bias"]) for i in range(len(last) // 2)]
    rng = np.random.default_rng(0)
    found = [_accuracies(layers, x, y, classes)]
    for _ in range(DRAWS):
        drawn = [(w, (rng.uniform(-1, 1, len(b)) / np.sqrt(w.shape[1])).astype(np.float32)) for w, b in layers]
        found.append(_accuracies(drawn, x, y, classes))
    told: dict[str, float] = {"draws": DRAWS}
    for name in found[0]:
        told[f"own {name}"] = round(found[0][name], 4)
        for share in (10, 50, 90):
            told[f"q{share} {name}"] = round(float(np.quantile([one[name] for one in found[1:]], share / 100)), 4)
    return told


def _accuracies(
    layers: Layers, x: NDArray[np.float32], y: NDArray[np.int64], classes: Sequence[int]
) -> dict[str, float]:
    """Accuracy on all examples and on those of each class."""
    for weight, bias in layers[:-1]:
        x = x @ weight.T + bias
        x = np.where(x > 0, x, LEAK * x)
    weight, bias = layers[-1]
    right = (x @ weight.T + bias).argmax(axis=1) == y
    return {"all": float(right.mean()), **{str(one): float(right[y == one].mean()) for one in classes}}
