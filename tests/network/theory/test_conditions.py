"""Conditions of theories: what a case violates is reported at once, apart from what presupposes another condition."""

from netfl.network.theory import Condition, Theory

ONE_SENDER = Condition("traffic", "one sender", lambda case: len(case["senders"]) == 1)
ONE_PATH = Condition("topology", "one path", lambda case: case["paths"][case["senders"][0]] == 1, given=(ONE_SENDER,))
STABLE = Condition(
    "traffic",
    lambda case: f"loads below {case['limit']}",
    lambda case: case["load"] < case["limit"],
    lambda case: case["load"],
    given=(ONE_PATH,),
)


FIFO = Condition("queue", "drop_tail", lambda case: case["queue"] == "drop_tail")


class Line(Theory):
    conditions = (
        ONE_SENDER,
        ONE_PATH,
        STABLE,
        Condition("queue", "drop_tail", lambda case: case["queue"] == "drop_tail"),
    )

    def predict(self, case):
        return {}


FIT = {"senders": ["a"], "paths": {"a": 1}, "limit": 2, "load": 1.5, "queue": "drop_tail"}


def misfits(**changes):
    return [(fault.key, fault.problem, fault.value) for fault in Line().misfits(FIT | changes)]


def test_all_violated_conditions_are_reported():
    assert misfits() == []
    expected = [
        ("traffic", "the theory is valid only for loads below 2", 3.0),
        ("queue", "the theory is valid only for drop_tail", None),
    ]
    assert misfits(load=3.0, queue="codel") == expected


def test_condition_is_asked_only_if_what_it_presupposes_is_met():
    expected = [
        ("traffic", "the theory is valid only for one sender", None),
        ("queue", "the theory is valid only for drop_tail", None),
    ]
    assert misfits(senders=[], load=3.0, queue="codel") == expected
    assert misfits(paths={"a": 2}, load=3.0) == [("topology", "the theory is valid only for one path", None)]
    assert not STABLE.is_met(FIT | {"senders": []})
