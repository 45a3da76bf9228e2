"""A small scenario with a learner, and comparisons of its runs, for tests that stop or damage runs."""

import copy

import numpy as np
import pandas as pd

from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from support.small_network import SECTION

TABLES = ("rounds", "deliveries", "events", "metrics", "users", "nodes", "final_metrics", "regions", "points")
LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
ROUNDS = 4


def a_scenario(**overrides):
    settings = {
        "name": "small",
        "users": 3,
        "rounds": ROUNDS,
        "access": copy.deepcopy(SECTION),
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 20},
        "partition": "iid",
        "model": "logistic",
        "learners": {"A": LEARNER},
        "evaluate": {"every": 2},
        "record": {"events": "all", "versions": True},
        "checkpoint": {"rounds": 1},
        **overrides,
    }
    return validate(ScenarioDocument({key: value for key, value in settings.items() if value is not None}, "small"))


def by_replica(table):
    """Return the rows replica by replica; how replicas alternate depends on when events were written."""
    return table.sort_values("replica", kind="stable", ignore_index=True) if "replica" in table else table


def assert_same_tables(first, second, names=TABLES):
    for name in names:
        pd.testing.assert_frame_equal(by_replica(first.table(name)), by_replica(second.table(name)), check_exact=True)


def assert_same(first, second):
    assert_same_tables(first, second)
    assert first.summary == second.summary
    for replica in range(first.manifest["replicas"]):
        versions, other_versions = first.versions("A", replica), second.versions("A", replica)
        assert [*versions] == [*other_versions]
        assert all(
            np.array_equal(versions[index][key], other_versions[index][key])
            for index in versions
            for key in versions[index]
        )
