"""A network whose costs can be computed by hand, with learners whose payloads differ."""

from support.small_network import PLAIN

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
PARAMETERS = 6
"""Of a logistic regression of two numbers and two labels."""
BITS = 32 * PARAMETERS
"""Size of a model without t."""


def learners_of(**aggregations):
    """Return a section ``learners`` with these aggregations by name."""
    return {name: LEARNER | {"aggregation": aggregation} for name, aggregation in aggregations.items()}


def networked(learners, *, update_size=None, **keys):
    """Return a scenario of two users; a message of BITS is on the air for BITS / 1000 seconds, up and down."""
    access = {key: value for key, value in PLAIN.items() if key not in {"update_size", "broadcast_rate"}}
    access |= {"kind": "network", "broadcast_rate": "1 kbps", "round": {"kind": "first", "m": 1}}
    access |= {"mac": "round_robin"}
    access |= {"energy": {"transmit": 2.0, "receive": 1.0}}
    access |= {} if update_size is None else {"update_size": update_size}
    return learning(access | keys, learners, users=1)


def learning(access, learners, users=2, **keys):
    """Return a scenario with *access* and *learners*."""
    return {
        "name": "payloads",
        "users": users,
        "rounds": 3,
        "access": access,
        "data": {"kind": "blobs", "centers": [[0, 0], [1, 1]], "samples": 40, "std": 0.5},
        "partition": "iid",
        "model": "logistic",
        "learners": learners,
        "evaluate": {"every": 1, "targets": [0.01]},
        **keys,
    }
