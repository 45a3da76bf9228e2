"""Each rule reaches the optimum of its own weights: convex losses, exact shares, and steps that fall.

Users train with all their examples and one local step, so that the mean change of a round is the gradient of the
weighted losses to first order.  The optima follow from closed forms and from SciPy, which know no learner.
"""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

import netfl
from netfl.learning.performance import cvar
from netfl.learning.user_weights import CvarLevel, merge_shares

GAMMA = 0.1
PER_CENT = 0.01
"""Largest distance to the optimum of a rule, in units of that between the optima of FedAvg and of equal weights."""


def falling(half):
    return {"kind": "inverse", "half": half}


def learner(aggregation, lr, half, objective="erm", **schedules):
    return {
        "objective": objective,
        "aggregation": aggregation,
        "lr": lr,
        "schedule": falling(half),
        "batch_size": "full",
        "local_steps": 1,
        **schedules,
    }


def cvar_learner(base, alpha, steps, half):
    """Return CVaR at the level *alpha*; *steps* are its step sizes on θ and t, and `half` of the schedule of t.

    Where losses are equal, θ and t go back and forth by their steps, which must be small in the end.
    """
    lr, lr_t, t_half = steps
    objective = {"kind": "cvar", "alpha": alpha, "gamma": GAMMA, "lr_t": lr_t}
    return learner(base, lr, half, objective, t_schedule=falling(t_half))


def other_learners(order, users, lr, half, base="relay"):
    """Return FedAvg, and three rules that give all users equal weights."""
    rates = np.bincount(np.concatenate(order), minlength=users) / len(order)
    known = {"kind": "known_participation", "probability": rates.tolist()}
    rules = {"FedAvg": base, "known": known, "MIFA": "mifa", "FedAU": "fedau"}
    return {name: learner(rule, lr, half) for name, rule in rules.items()}


def train(folder, order, rounds, x, y, model, learners, **data):
    """Train *learners* and return the mean of their last versions, over whole repetitions of *order*, by name."""
    users, examples = len(x), len(x[0])
    file = folder / "examples.npz"
    flat = np.concatenate(x).astype(np.float32)
    np.savez(file, x=flat, label=np.concatenate(y), user=np.repeat(np.arange(users), examples))
    scenario = {
        "name": "optima",
        "seed": 1,
        "users": users,
        "rounds": rounds,
        "precision": "float64",
        "access": {"kind": "support.quadratic_learning:InOrder", "order": order},
        "data": {"kind": "arrays", "file": str(file), "test": str(file), "features": [1], **data},
        "partition": "natural",
        "model": model,
        "learners": learners,
        "evaluate": {"every": rounds},
        "record": {"events": "none", "versions": 1},
    }
    run = netfl.run(scenario, folder / "run", progress=False)
    means = {}
    for name in learners:
        versions = run.versions(name)
        last = [versions[index] for index in range(rounds - len(order) + 1, rounds + 1)]
        means[name] = {key: np.mean([version[key] for version in last], axis=0) for key in last[0]}
    return means


# users on a line: nine at 0 with a constant c beside their losses, and a rare one at 1


def line_order():
    """Return rounds of which each fiftieth has the rare user, number 9, and the others are shared evenly by nine."""
    turns = np.resize(np.arange(9), 441)
    return [[int(user)] for user in np.insert(turns, np.arange(25, 441, 49), 9)]


def train_on_a_line(folder, offset, learners):
    """Train on the line with the *offset* c, and return θ by learner: the weight of the rare user at the optimum."""
    targets = np.zeros((10, 1, 2))
    targets[:9, 0, 1] = np.sqrt(2 * offset)  # of a coordinate that stays at 0
    targets[9, 0, 0] = 1
    model = {
        "kind": "module",
        "module": "support.quadratic_learning:Point",
        "args": {"free": 1, "fixed": 1},
        "loss": "support.quadratic_learning:half_square",
    }
    means = train(folder, line_order(), 4500, np.zeros((10, 1, 1)), targets, model, learners, targets=2)
    return {name: float(version["theta"][0]) for name, version in means.items()}


@pytest.mark.slow
def test_rules_without_levels_on_a_line(tmp_path):
    reached = train_on_a_line(tmp_path, 0.0, other_learners(line_order(), 10, 0.01, 300))
    assert reached == pytest.approx({"FedAvg": 0.02, "known": 0.1, "MIFA": 0.1, "FedAU": 0.1}, abs=PER_CENT * 0.08)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("offset", "levels"),
    [
        (0.0, {0.3: (0.01, 0.002, 300), 0.1: (0.01, 0.002, 300), 0.05: (0.01, 0.002, 300), 0.02: (0.002, 0.001, 100)}),
        (0.45, {0.3: (0.004, 0.001, 100), 0.1: (0.002, 0.001, 100)}),
    ],
)
def test_cvar_on_a_line(tmp_path, offset, levels):
    """The optimum is ``clip(1/2 - c, lowest, highest)``.

    With c = 0.45 the others are worst beyond w = 0.05, and CVaR gives the rare user less than equal weights do.
    """
    learners = {f"{alpha:g}": cvar_learner("relay", alpha, steps, 300) for alpha, steps in levels.items()}
    expected = {f"{alpha:g}": CvarLevel(alpha, GAMMA).two_block_weight(0.02, 0.5 - offset) for alpha in levels}
    assert train_on_a_line(tmp_path, offset, learners) == pytest.approx(expected, abs=PER_CENT * 0.08)


# three users in the plane, of which up to two are delivered in a round

CENTERS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
PLANE_ORDER = [[0], [0, 1], [0], [1, 2], [0, 1]]


def plane_optimum(level, rho):
    """Return the minimiser of ``(1-γ) CVaR_α + γ mean`` of ``f_k = |θ - c_k|²/2`` by the quadratic program of its dual.

    It maximises ``min_θ Σ w_k f_k = Σ w_k |c_k|²/2 - |Σ w_k c_k|²/2``, whose minimiser is ``θ = Σ w_k c_k``.
    """

    def negated(weights):
        return ((weights @ CENTERS) ** 2).sum() / 2 - weights @ (CENTERS**2).sum(1) / 2

    upper = (1 - level.gamma) * rho / level.alpha + level.gamma * rho
    bounds = [*zip(level.gamma * rho, np.minimum(1, upper), strict=True)]
    total = {"type": "eq", "fun": lambda weights: weights.sum() - 1}
    options = {"ftol": 1e-15, "maxiter": 500}
    solution = minimize(negated, rho, method="SLSQP", bounds=bounds, constraints=total, options=options)
    theta = solution.x @ CENTERS
    losses = ((theta - CENTERS) ** 2).sum(1) / 2
    primal = (1 - level.gamma) * cvar(losses, rho, level.alpha) + level.gamma * losses @ rho
    assert primal == pytest.approx(-solution.fun, abs=1e-7)  # both forms agree at an optimum
    return theta


@pytest.mark.slow
def test_quadratics_in_the_plane(tmp_path):
    """The share ρ is the mean weight in a merge: 0.6, 0.3, 0.1, where the shares of deliveries are 4/8, 3/8, 1/8."""
    delivered = np.array([[user in users for user in range(3)] for users in PLANE_ORDER])
    rho = merge_shares(delivered, np.ones(3))
    assert rho == pytest.approx([0.6, 0.3, 0.1])
    model = {
        "kind": "module",
        "module": "support.quadratic_learning:Point",
        "args": {"free": 2},
        "loss": "support.quadratic_learning:half_square",
    }
    levels = {0.5: (0.05, 0.02, 50), 0.25: (0.05, 0.02, 50), 0.1: (0.05, 0.01, 200)}
    learners = other_learners(PLANE_ORDER, 3, 0.05, 100, base="average")
    for alpha, steps in levels.items():
        learners[f"CVaR {alpha:g}"] = cvar_learner("average", alpha, steps, 100)
    means = train(tmp_path, PLANE_ORDER, 1500, np.zeros((3, 1, 1)), CENTERS[:, None], model, learners, targets=2)
    equal = CENTERS.mean(0)
    expected = {"FedAvg": rho @ CENTERS, "known": equal, "MIFA": equal, "FedAU": equal}
    for alpha in levels:
        expected[f"CVaR {alpha:g}"] = plane_optimum(CvarLevel(alpha, GAMMA), rho)
    assert expected["CVaR 0.5"] == pytest.approx([1, 0.38], abs=1e-5)
    assert expected["CVaR 0.1"] == pytest.approx([0.94, 0.94], abs=1e-5)
    largest = PER_CENT * np.linalg.norm(expected["FedAvg"] - equal)
    distances = {name: np.linalg.norm(means[name]["theta"] - point) for name, point in expected.items()}
    assert {name: distance for name, distance in distances.items() if distance > largest} == {}


# five points of two classes, which a rare user labels the other way round

POINTS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
USUAL = np.array([0, 0, 0, 1, 1])
CONTRARY = np.array([1, 1, 0, 0, 0])


def logistic_loss(line, labels):
    signs = np.where(labels > 0, -1, 1)
    return np.logaddexp(0, signs * (line[0] * POINTS + line[1])).mean()


def logistic_optimum(weight):
    """Return slope and bias that minimise the loss with a *weight* of the rare user."""

    def loss(line):
        return (1 - weight) * logistic_loss(line, USUAL) + weight * logistic_loss(line, CONTRARY)

    return minimize(loss, [0.1, 0.0], method="BFGS", options={"gtol": 1e-9}).x


def logistic_gap(weight):
    """Return by how much the loss of the rare user exceeds that of the others."""
    line = logistic_optimum(weight)
    return logistic_loss(line, CONTRARY) - logistic_loss(line, USUAL)


@pytest.mark.slow
def test_logistic_regression_in_conflict(tmp_path):
    """With α = 0.5 CVaR gives the rare user less than equal weights do, with 0.2 more, and with 0.1 equal losses."""
    turns = np.resize(np.arange(4), 36)
    order = [[int(user)] for user in np.insert(turns, [4, 13, 22, 31], 4)]  # the rare user in each tenth round
    levels = {0.5: (0.05, 0.01, 400), 0.2: (0.1, 0.02, 400), 0.1: (0.05, 0.005, 400)}
    learners = other_learners(order, 5, 0.2, 300)
    for alpha, steps in levels.items():
        learners[f"CVaR {alpha:g}"] = cvar_learner("relay", alpha, steps, 200)
    x = np.tile(POINTS[:, None], (5, 1, 1))
    y = np.array([USUAL] * 4 + [CONTRARY])
    means = train(tmp_path, order, 4000, x, y, "logistic", learners, labels=2)
    equalising = brentq(logistic_gap, 0.05, 0.95)
    weights = {"FedAvg": 0.1, "known": 0.2, "MIFA": 0.2, "FedAU": 0.2}
    for alpha in levels:
        weights[f"CVaR {alpha:g}"] = CvarLevel(alpha, GAMMA).two_block_weight(0.1, equalising)
    assert weights["CVaR 0.5"] == pytest.approx(0.19)
    assert weights["CVaR 0.2"] == pytest.approx(0.46)
    assert weights["CVaR 0.1"] == pytest.approx(0.5, abs=1e-4)
    largest = PER_CENT * np.linalg.norm(logistic_optimum(0.1) - logistic_optimum(0.2))
    distances = {}
    for name, weight in weights.items():
        of_scores = [values.ravel() for key, values in means[name].items() if key != "t"]  # weights, then biases
        line = [second - first for first, second in of_scores]
        distances[name] = np.linalg.norm(line - logistic_optimum(weight))
    assert {name: distance for name, distance in distances.items() if distance > largest} == {}
