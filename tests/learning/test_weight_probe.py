"""Rules that state no largest weight are probed, and those that state one too small are refused."""

import numpy as np
import pytest
from support import probed_rules
from support.probed_rules import Triple

import netfl
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.learning import aggregation, objective
from netfl.learning.aggregation import Aggregation, Average, Fedau, Fedavgm
from netfl.learning.effective_steps import StepRule
from netfl.learning.objective import Objective
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import grid_centres
from netfl.learning.weight_probe import MAX_USERS, probe_aggregation, probe_objective
from netfl.scenario.yaml_document import dump

USERS, DELIVERIES = 6, 3
WORK = {"lr": 0.1, "batch_size": 8, "local_steps": 2}


def weight(rule, users=USERS, deliveries=DELIVERIES, **changes):
    """Return the largest weight of a learner with this aggregation."""
    settings = {"objective": "erm", "aggregation": rule, **WORK, **changes}
    learner = LearnerSpec.model_validate(settings)
    return StepRule(users, deliveries).weight(learner)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Seven", 7),
        ("ByUser", 4 + 5 + 6),  # the three heaviest of six users
        ("HeavyBall", pytest.approx(1 / (1 - 0.8), rel=1e-3)),
        ("MemoryInPlace", 5),
        ("Inherited", 3),  # what an Average states is not meant for it
    ],
)
def test_the_weight_of_a_proportional_rule_is_found(name, expected):
    assert weight(f"support.probed_rules:{name}") == expected


@pytest.mark.parametrize(
    "name",
    [
        "Buffer",
        "Sign",
        "Clipped",
        "Middle",
        "Aside",
        "Falling",
        "ByLoss",
        "BySize",
        "ByAbsence",
        "Still",
        "Failing",
    ],
)
def test_other_rules_have_no_weight(name):
    assert weight(f"support.probed_rules:{name}") is None


def test_a_rule_around_one_from_outside_has_its_weight_times_that_of_the_inner_one():
    around = {"kind": "fedavgm", "momentum": 0.5, "server_lr": 0.25, "inner": "support.probed_rules:Seven"}
    assert weight(around) == pytest.approx(0.25 / (1 - 0.5) * 7, rel=1e-3)


def test_weights_of_objective_rule_and_momentum_multiply():
    settings = {"objective": "support.probed_rules:Triple", "momentum": 0.5}
    assert weight("support.probed_rules:Seven", **settings) == 3 * 7 / (1 - 0.5)
    assert weight("average", objective="support.probed_rules:OfLoss") is None


@pytest.mark.parametrize(("users", "deliveries"), [(1, 1), (4, 0), (5, 9), (40, 7), (1000, 1)])
def test_the_number_of_users_and_deliveries_does_not_matter_to_a_mean(users, deliveries):
    assert weight("support.probed_rules:Seven", users, deliveries) == 7


def test_more_users_than_the_limit_are_not_probed():
    assert probe_aggregation(probed_rules.Seven(), MAX_USERS + 1, 1) is None
    assert weight("support.probed_rules:Seven", MAX_USERS + 1, 1) is None


def random_rules(rng):
    """Return one object of each aggregation of netfl, with random settings, by kind."""
    server_lr = float(rng.uniform(0.1, 3))
    participation = tuple(rng.uniform(0.1, 1, USERS).tolist())
    settings = {
        "afl": {"lr_lambda": rng.uniform(0.05, 1), "weights": rng.choice(["lambda", "share", "equal"])},
        "average": {"weights": rng.choice(["size", "equal"]), "server_lr": server_lr},
        "average_all": {"server_lr": server_lr},
        "average_by_snr": {"server_lr": server_lr},
        "average_received": {"server_lr": server_lr},
        "ca_fed": {"server_lr": server_lr, "b": rng.uniform(0, 1), "s": rng.uniform(0, 0.9)},
        "climb": {"server_lr": server_lr, "lr_lambda": rng.uniform(1, 9), "epsilon": 0.0, "primal_rounds": 2},
        "f3ast": {"beta": rng.uniform(0.01, 0.5), "weights": "equal"},
        "fedadam": {"server_lr": server_lr, "tau": 10.0 ** rng.uniform(-4, 0)},
        "fedasync": {"alpha": rng.uniform(0.1, 0.9)},
        "fedau": {"cutoff": rng.choice([1, 5, 50]), "server_lr": server_lr},
        "fedavgm": {"momentum": rng.uniform(0, 0.9), "server_lr": server_lr},
        "fedawe": {"server_lr": server_lr, "clip": 0.05},  # below the changes that are tried
        "fedbuff": {"server_lr": server_lr, "exponent": rng.uniform(0, 1)},
        "fedstale": {
            "beta": rng.uniform(0, 1),
            "server_lr": server_lr,
            "weights": tuple(rng.uniform(0.1, 1, USERS).tolist()),
            "probability": participation if rng.random() < 0.7 else "estimated",
            "empty_round": rng.choice(["move", "keep"]),
        },
        "fedvarp": {"server_lr": server_lr, "empty_round": rng.choice(["move", "keep"])},
        "known_participation": {"probability": participation, "server_lr": server_lr},
        "mifa": {"server_lr": server_lr},
        "over_the_air": {},
        "qfedavg": {"q": rng.choice([0.0, 0.5, 2.0])},
        "qfedsgd": {"q": rng.choice([0.0, 0.5, 2.0])},
        "relay": {},
        "scaffold": {"server_lr": server_lr},
        "superquantile": {"alpha": rng.uniform(0.1, 1)},
    }
    assert settings.keys() == {*list_kinds(Aggregation)}
    for kind, values in settings.items():
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        yield getattr(aggregation, "".join(word.capitalize() for word in kind.split("_"))).model_validate(plain)


@pytest.mark.parametrize("seed", range(4))
def test_what_aggregations_of_netfl_state_is_what_a_probe_finds(seed):
    for rule in random_rules(np.random.default_rng(seed)):
        deliveries = 1 if type(rule).__name__ == "Relay" else DELIVERIES
        stated = rule.largest_weight(USERS, deliveries)
        probed = probe_aggregation(rule, USERS, deliveries)
        assert probed.is_proportional == (stated is not None), rule
        if stated is not None:
            assert probed.largest == pytest.approx(stated, rel=2e-3), rule


@pytest.mark.parametrize("seed", range(4))
def test_what_objectives_of_netfl_state_is_no_less_than_a_probe_finds(seed):
    rng = np.random.default_rng(seed)
    settings = {
        "cvar": {"alpha": rng.uniform(0.02, 1), "gamma": rng.uniform(0, 1), "lr_t": 0.1},
        "erm": {},
        "proximal": {"mu": rng.uniform(0, 2)},
        "tilted": {"tau": rng.uniform(-3, 3)},
    }
    assert settings.keys() == {*list_kinds(Objective)}
    for kind, values in settings.items():
        part = getattr(objective, kind.capitalize()).model_validate(values)
        probed = probe_objective(part)
        assert probed.largest == pytest.approx(part.largest_weight, rel=1e-4), part
        assert probed.is_proportional == (kind != "cvar"), part


def test_rules_of_netfl_without_a_weight_are_not_probed(monkeypatch):
    monkeypatch.setattr("netfl.learning.weight_probe.probe_aggregation", lambda *_: pytest.fail("probed"))
    assert weight("fedau") is None


def test_a_probe_leaves_no_trace_in_the_rule_or_its_next_probe():
    rule = probed_rules.MemoryInPlace()
    assert [probe_aggregation(rule, USERS, DELIVERIES).largest for _ in range(2)] == [5, 5]


def scenario(learners, **changes):
    return {
        "name": "probed",
        "users": USERS,
        "rounds": 4,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60},
        "partition": "iid",
        "model": "logistic",
        "learners": learners,
        **changes,
    }


def line_of(file, key):
    """Return the number of the first line that begins with *key*."""
    lines = file.read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if line.strip().startswith(key))


def rule(name, **settings):
    return {"objective": "erm", "aggregation": {"kind": f"support.probed_rules:{name}", **settings}, **WORK}


def test_a_hidden_factor_of_seven_is_tuned_as_a_stated_one():
    stated = {"objective": "erm", "aggregation": {"kind": "average", "weights": "equal", "server_lr": 7}, **WORK}
    plain = {**stated, "aggregation": {"kind": "average", "weights": "equal"}}
    learners = {"plain": plain, "stated": stated, "hidden": rule("Seven")}
    tuned = {"evaluate": {"validation": 0.2}, "tuning": {"by": "loss"}}
    loaded = netfl.load(scenario(learners, **tuned))
    centres = grid_centres(loaded.learners, loaded.step_rule)
    assert centres["hidden"] == centres["stated"] == pytest.approx(centres["plain"] / 7)
    assert loaded.effective_steps["hidden"] == pytest.approx(0.7)


def test_a_hidden_factor_gives_the_step_of_another_learner():
    learners = {"A": {**rule("Seven"), "aggregation": "average"}, "B": {**rule("Seven"), "lr": None, "step_of": "A"}}
    assert netfl.load(scenario(learners)).learners["B"].step_size == pytest.approx(0.1 / 7)


@pytest.mark.parametrize(
    ("learner", "key", "problem", "remedy"),
    [
        (
            rule("StatedSeven", stated=2),
            "learners.A.aggregation",
            "its largest_weight gives 2.0, but a change that all users make moves the version 7 times as far",
            "give at least 7",
        ),
        (
            {**rule("Seven"), "objective": "support.probed_rules:StatedOne"},
            "learners.A.objective",
            "its largest_weight gives 1.0, but the weights of a mini-batch have the sum 3",
            "give at least 3",
        ),
    ],
)
def test_a_stated_weight_below_the_answer_of_the_rule_is_a_located_error(tmp_path, learner, key, problem, remedy):
    file = tmp_path / "stated.yaml"
    file.write_text(dump(scenario({"A": learner})))
    with pytest.raises(ScenarioError) as error:
        netfl.load(file)
    (fault,) = error.value.faults
    assert (fault.key, fault.problem) == (key, problem)
    assert fault.remedy == remedy
    assert fault.where == f"{file}:{line_of(file, key.rpartition('.')[2])}"


@pytest.mark.parametrize("stated", [7, 7.001, 20])
def test_the_remedy_and_larger_weights_are_accepted(stated):
    loaded = netfl.load(scenario({"A": rule("StatedSeven", stated=stated)}))
    assert loaded.effective_steps["A"] == pytest.approx(stated * 0.1)


def test_derived_rules_state_what_they_do():
    assert weight("average") == Average().largest_weight(USERS, DELIVERIES) == 1
    assert Fedavgm(inner=Fedau()).largest_weight(USERS, DELIVERIES) is None
    assert probe_objective(Triple()).largest == 3
