"""The bound of the weight divergence in "User Selection in Federated Learning", beside the measured divergence.

Theorem: user k of K holds the share s_k of all examples, and the share ``p_k(i)`` of its examples has the label i. All
make T steps of gradient descent of size η between two averages. If the gradient of the mean loss of label i is
λ_i-Lipschitz, the distance of the averaged weights from those of a centrally trained twin after round m is at most

    d_m ≤ Σ_k s_k a_k^T d_(m-1) + η Σ_k s_k Σ_i |p_k(i) - p(i)| Σ_(j<T) a_k^j g(w_(mT-1-j)),

with ``a_k = 1 + η Σ_i p_k(i) λ_i``, the label shares p(i) of all examples, the weights w of the twin after each of its
steps, and the largest norm g of the gradients of the labels at w.

For a logistic regression all of this is known. The Hessian of a softmax has a norm of at most 1/2, so that
``λ_i = ‖E[x xᵀ | i]‖ / 2``, where x ends with a 1 for the biases. The twin is trained here once more, in float64.

    python analysis/divergence_bound.py runs/divergence_one_class-001
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import netfl
from netfl.results.run_reader import Run
from netfl.streams import Streams

Array = NDArray[np.float64]
LEARNER = "FedAvg"


@dataclass(frozen=True)
class LabelledExamples:
    """Examples with a 1 after their features, by label.

    Args:
        x: the examples of each label, ``[n_i, features + 1]``.
    """

    x: Sequence[Array]

    @property
    def shares(self) -> Array:
        """Share p(i) of each label, ``[labels]``."""
        counts = np.array([len(part) for part in self.x], float)
        return counts / counts.sum()

    def gradients(self, weights: Array) -> Array:
        """Return the gradient of the mean cross-entropy of each label, ``[labels, labels, features + 1]``.

        Args:
            weights: ``[labels, features + 1]``, of which the last column are the biases.
        """
        found = []
        for label, x in enumerate(self.x):
            scores = x @ weights.T
            chances = np.exp(scores - scores.max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            chances[:, label] -= 1.0
            found.append(chances.T @ x / len(x))
        return np.array(found)

    def lipschitz_constants(self) -> Array:
        """Return λ_i, ``[labels]``: half of the largest eigenvalue of ``E[x xᵀ | i]``."""
        return np.array([0.5 * np.linalg.eigvalsh(x.T @ x / len(x))[-1] for x in self.x])


@dataclass(frozen=True)
class Users:
    """Users of the theorem.

    Args:
        shares: share s_k of all examples, ``[users]``.
        labels: share ``p_k(i)`` of each label in the examples of a user, ``[users, labels]``.
    """

    shares: Array
    labels: Array


def train_centrally(examples: LabelledExamples, weights: Array, rate: float, steps: int) -> tuple[Array, Array]:
    """Make *steps* steps of gradient descent over all examples.

    Returns:
        The weights after the last step, and the largest norm of a label's gradient before each step, ``[steps]``.
    """
    largest = []
    for _ in range(steps):
        gradients = examples.gradients(weights)
        largest.append(np.sqrt(np.square(gradients).sum((1, 2))).max())
        weights = weights - rate * np.tensordot(examples.shares, gradients, 1)
    return weights, np.array(largest)


def bound(before: float, users: Users, label_shares: Array, constants: Array, rate: float, largest: Array) -> float:
    """Return the right side of the theorem for one round.

    Args:
        before: distance ``d_(m-1)`` before the round.
        users: the users.
        label_shares: share p(i) of each label, ``[labels]``.
        constants: λ_i, ``[labels]``.
        rate: step size η.
        largest: largest norm of a label's gradient before each step of the twin in this round, ``[steps]``.
    """
    growth = 1 + rate * users.labels @ constants  # a_k
    steps = len(largest)
    kept = users.shares @ growth**steps * before
    differences = np.abs(users.labels - label_shares).sum(1)
    powers = growth[:, None] ** np.arange(steps)  # a_k^j
    added = users.shares * differences @ (powers @ largest[::-1])
    return float(kept + rate * added)


def compare_with_bound(run: Run, replica: int) -> dict[str, float]:
    """Return the measured divergence of a run of a logistic regression, and its bounds, after each round.

    Args:
        run: a run with full batches and one step size that recorded all versions and the weight divergence.
        replica: the replica.

    Returns:
        For each round m ``measured m``, ``bound m`` from the measured divergence of the round before, and ``sum m``
        from the bound of the round before. ``error`` is the largest relative difference between the divergence
        measured here and that of the run.
    """
    scenario = netfl.load(run.folder / "scenario.yaml")
    learner = scenario.learners[LEARNER]
    data = scenario.data
    if data is None or learner.local_steps is None:
        raise ValueError(f"{run.folder} has no data, or no local_steps of {LEARNER}")
    loaded = data.load(Streams(0))
    flat = loaded.train_x.reshape(len(loaded.train_x), -1)
    extended = np.concatenate([flat, np.ones((len(flat), 1), flat.dtype)], axis=1).astype(float)
    examples = LabelledExamples([extended[loaded.train_y == label] for label in range(loaded.classes)])
    users = _users(run, replica, loaded.classes)
    constants = examples.lipschitz_constants()
    versions = run.versions(LEARNER, replica)
    measured = _measured(run, replica)

    central = _weights(versions[0])
    distance = summed = 0.0
    found, errors = {}, []
    for index in sorted(versions)[1:]:
        central, largest = train_centrally(examples, central, learner.lr, learner.local_steps)
        arguments = (users, examples.shares, constants, learner.lr, largest)
        found[f"bound {index}"] = bound(distance, *arguments)
        summed = bound(summed, *arguments)
        distance = float(np.linalg.norm(_weights(versions[index]) - central))
        found |= {f"measured {index}": distance, f"sum {index}": summed}
        errors.append(abs(distance / np.linalg.norm(central) - measured[index]) / measured[index])
    return {name: float(f"{value:.5g}") for name, value in found.items()} | {"error": float(f"{max(errors):.2g}")}


def _users(run: Run, replica: int, labels: int) -> Users:
    """Return the users of a replica, from the table of users."""
    table = run.users
    if "replica" in table:
        table = table[table["replica"] == replica]
    counts = table[[f"class:{label}" for label in range(labels)]].to_numpy(float)
    sizes = counts.sum(1)
    return Users(sizes / sizes.sum(), counts / sizes[:, None])


def _measured(run: Run, replica: int) -> dict[int, float]:
    """Return the relative divergence that the run reported, by round."""
    table = run.metrics
    rows = table[(table["metric"] == "weight_divergence") & (table["group"] == "") & (table["replica"] == replica)]
    return dict(zip(rows["round"].tolist(), rows["value"].tolist(), strict=True))


def _weights(version: dict[str, NDArray[np.float32]]) -> Array:
    """Return the weights and biases of a version, ``[labels, features + 1]``."""
    weight, bias = version["layers.0.weight"], version["layers.0.bias"]
    return np.concatenate([weight, bias[:, None]], axis=1).astype(float)


def main() -> None:
    """Read the command line, and print the divergence and its bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    for folder in parser.parse_args().runs:
        found = compare_with_bound(netfl.open_run(folder), 0)
        rounds = [int(name.removeprefix("measured ")) for name in found if name.startswith("measured")]
        print(f"{folder}: measured, bound of the round, bound of all rounds")
        for index in rounds:
            print(index, *(f"{found[f'{name} {index}']:.4g}" for name in ("measured", "bound", "sum")))


if __name__ == "__main__":
    main()
