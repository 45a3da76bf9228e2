"""Curves of benchmarks/scale.py: the unit of each, and the scenario of each of its points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import netfl
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.yaml_document import ScenarioDocument

HERE = Path(__file__).parent
LANE_ROUNDS = 50
"""Rounds that each lane of the curve of lanes learns."""
_BLOBS = {"kind": "blobs", "centers": [[1, 1], [2, 3], [2.3, 1.5]], "std": 0.1, "test_share": 0.2}
_LEARNER = {"objective": "erm", "aggregation": "average", "local_steps": 5, "batch_size": 1, "lr": 0.001}


class Curve(NamedTuple):
    """A curve: its *scenario* is run at each of the *points*, or at the *small* ones for a quick test."""

    unit: str
    of: str
    scenario: Callable[[int], Scenario]
    points: Sequence[int]
    small: Sequence[int]


def direct(users: int, rounds: int) -> Scenario:
    """Return a direct access that delivers one of many users in each round, by rates."""
    return _scenario(users, rounds, {"kind": "stationary", "rho": {"zipf": 0.5}, "deliveries": 1})


def emergent(users: int, rounds: int) -> Scenario:
    """Return the network of benchmarks/million_users.yaml, with one attempt in each slot and cell on average."""
    changes = {"users": users, "rounds": rounds, "access.mac.probability": min(0.5, 40.0 / users)}
    return netfl.load(HERE / "million_users.yaml", changes)


def learning(users: int, rounds: int = 20, hidden: int = 64, replicas: int = 1) -> Scenario:
    """Return ten of many users delivered in each round, each with one or two examples and a small network."""
    access = {"kind": "stationary", "rho": {"zipf": 0.5}, "deliveries": min(10, users)}
    parts = {
        "data": {**_BLOBS, "samples": max(1000, users // 2)},
        "partition": {"kind": "iid"},
        "model": {"kind": "mlp", "hidden": [hidden]},
        "learners": {"FedAvg": _LEARNER},
        "evaluate": {"every": rounds},
    }
    return _scenario(users, rounds, access, replicas=replicas, **parts)


def packets(number: int) -> Scenario:
    """Return packets of 1 kB through one queue and one link of 10 Mbps, at a load of 0.8."""
    changes = {"duration": number * 0.001, "warmup": 0.0}
    return netfl.load(HERE.parent / "scenarios/validation/mm1.yaml", changes)


def _scenario(users: int, rounds: int, access: Mapping[str, Any], **more: Any) -> Scenario:
    """Return a scenario that records no events."""
    fields = {"name": "scale", "seed": 1, "users": users, "rounds": rounds, "record": "none", "access": access, **more}
    return validate(ScenarioDocument(fields))


CURVES = {
    "direct, users": Curve(
        "user",
        "1,000 rounds of `first: 1`",
        lambda x: direct(x, 1000),
        (10**3, 10**4, 10**5, 10**6, 10**7),
        (10, 100),
    ),
    "direct, rounds": Curve(
        "round",
        "`first: 1`, 1,000 users",
        lambda x: direct(1000, x),
        (10**3, 10**4, 10**5, 10**6),
        (10, 100),
    ),
    "direct, a million users, rounds": Curve(
        "round",
        "`first: 1`, 1,000,000 users",
        lambda x: direct(10**6, x),
        (10**3, 10**4, 10**5, 10**6),
        (10, 100),
    ),
    "emergent, users": Curve(
        "user",
        "10 rounds of slotted ALOHA in 40 cells",
        lambda x: emergent(x, 10),
        (10**3, 10**4, 10**5, 10**6),
        (80, 160),
    ),
    "emergent, rounds": Curve(
        "round",
        "slotted ALOHA, 100,000 users in 40 cells",
        lambda x: emergent(10**5, x),
        (10, 30, 100, 300),
        (2, 4),
    ),
    "emergent, a million users, rounds": Curve(
        "round",
        "slotted ALOHA, 1,000,000 users in 40 cells",
        lambda x: emergent(10**6, x),
        (10, 30, 100),
        (1, 2),
    ),
    "learning, users": Curve(
        "user",
        "20 rounds, 10 users delivered in each, MLP 2-64-3",
        learning,
        (10**3, 10**4, 10**5, 10**6),
        (20, 40),
    ),
    "learning, rounds": Curve(
        "round",
        "10 of 1,000 users delivered in each, MLP 2-64-3",
        lambda x: learning(1000, x),
        (30, 100, 300, 1000),
        (2, 4),
    ),
    "learning, lanes": Curve(
        "lane",
        "50 rounds, 10 of 1,000 users delivered in each, MLP 2-64-3",
        lambda x: learning(1000, LANE_ROUNDS, replicas=x),
        (1, 4, 16, 64),
        (1, 2),
    ),
    "learning, model bytes": Curve(
        "byte of model",
        "20 rounds, 10 of 1,000 users delivered in each, MLP 2-h-3",
        lambda x: learning(1000, 20, hidden=x // 24),
        (24 * 10**3, 24 * 10**4, 24 * 10**5, 24 * 10**6),
        (24 * 8, 24 * 16),
    ),
    "packets": Curve("packet", "one queue, one link, load 0.8", packets, (10**4, 10**5, 10**6), (200, 400)),
}
