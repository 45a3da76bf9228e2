"""Every aggregation, objective and local step in the whole learner, compared with the papers' formulas in NumPy."""

from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from support import paper_algorithms as papers
from support.learner_factory import DATA, SPLIT, TANH, USERS, a_round, draw_batches, learner, spec, torch_model
from torch import nn

from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.ca_fed import CaFed
from netfl.learning.aggregation.climb import Climb
from netfl.learning.aggregation.f3ast import F3ast
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedbuff import Fedbuff
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.qfedsgd import Qfedsgd
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.aggregation.superquantile import Superquantile
from netfl.learning.minibatches import BatchSampler
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.objective.proximal import Proximal
from netfl.learning.objective.tilted import Tilted
from netfl.learning.schedule.constant import Constant
from netfl.learning.schedule.halving import Halving
from netfl.learning.schedule.step import Step
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.streams import Streams

SIZE, LR, LR_T = 34, 0.3, 0.2
EXAMPLES = [(DATA.train_x[rows].astype(float), DATA.train_y[rows]) for rows in SPLIT]
TEST = DATA.test_x.astype(float), DATA.test_y
FULL, MINI = {"batch_size": "full", "local_steps": 3}, {"batch_size": 8, "local_epochs": 2}
P = (0.9, 0.5, 0.05, 0.3)
LAMBDA = (0.1, -0.3, 0.8, 0.55)
EQUAL = [1 / USERS] * USERS
BY_SIZE = [len(rows) / sum(map(len, SPLIT)) for rows in SPLIT]

TRACE = [
    [(0, 0), (3, 0)],
    [],
    [(1, 2), (0, 1), (0, 2)],
    [(2, 3)],
    [],
    [],
    [(3, 2), (3, 2), (1, 6)],
    [(0, 7), (1, 7), (2, 7), (3, 7)],
    [(2, 4), (0, 8)],
    [(1, 9)],
]
"""Deliveries as (user, base): empty rounds, repeated users, late first deliveries and old bases."""
SINGLE = [deliveries[:1] for deliveries in TRACE]
"""The trace with at most one delivery per round, for `relay`."""


def long_trace(rounds=40):
    """Draw rounds with old bases and repeated users; user 2 is delivered in the last quarter alone, and rarely."""
    rng = np.random.default_rng(1)
    rows = []
    for index in range(rounds):
        users = rng.choice(USERS, size=rng.integers(0, 4), p=[0.5, 0.3, 0.05, 0.15])
        users = users[(users != 2) | (4 * index >= 3 * rounds)]
        rows.append([(int(user), int(rng.integers(max(0, index - 5), index + 1))) for user in users])
    return rows


LONG = long_trace()
"""Deliveries of 40 rounds, as in `TRACE`."""

RULES = {
    "average": (Average(), papers.Average),
    "average equal": (Average(weights="equal", server_lr=1.5), partial(papers.Average, False, 1.5)),
    "average_all": (AverageAll(server_lr=2), partial(papers.Weighted, [1.0] * USERS, 2)),
    "known_participation": (
        KnownParticipation(probability=P, server_lr=0.5),
        partial(papers.Weighted, [1 / p for p in P], 0.5),
    ),
    "fedau": (Fedau(), partial(papers.Fedau, USERS)),
    "fedau cut": (Fedau(cutoff=2, server_lr=1.3), partial(papers.Fedau, USERS, 2, 1.3)),
    "fedbuff": (Fedbuff(server_lr=0.8), partial(papers.Fedbuff, 0.8, 0.5)),
    "fedasync": (Fedasync(alpha=0.6, staleness="polynomial", a=0.5), partial(papers.Fedasync, 0.6, 0.5)),
    "mifa": (Mifa(server_lr=0.9), lambda rates: papers.Mifa(USERS, rates, 0.9)),
    "fedvarp": (Fedvarp(server_lr=1.1), partial(papers.Fedvarp, USERS, 1.1)),
    "fedvarp keep": (Fedvarp(server_lr=1.1, empty_round="keep"), partial(papers.Fedvarp, USERS, 1.1, True)),
    "fedstale": (Fedstale(server_lr=0.7), partial(papers.Fedstale, BY_SIZE, 0.5, None, 0.7)),
    "fedstale keep": (
        Fedstale(beta=1, weights="equal", empty_round="keep"),
        partial(papers.Fedstale, EQUAL, 1.0, keeps=True),
    ),
    "fedstale known": (
        Fedstale(beta=0.3, probability=P, weights=(1, 2, 3, 4), server_lr=0.2),
        partial(papers.Fedstale, [0.1, 0.2, 0.3, 0.4], 0.3, P, 0.2),
    ),
    "f3ast": (F3ast(beta=0.2), partial(papers.F3ast, BY_SIZE, 0.2)),
    "f3ast divided": (
        F3ast(beta=0.01, start="equal", divisor=3, server_lr=1.2),
        partial(papers.F3ast, BY_SIZE, 0.01, EQUAL, 3, 1.2),
    ),
    "fedlaavg": (Mifa(), lambda rates: papers.Fedlaavg(USERS, rates)),
    "qfedavg 0": (Qfedavg(q=0), partial(papers.Qfedavg, 0)),
    "qfedavg 1": (Qfedavg(q=1), partial(papers.Qfedavg, 1)),
    "qfedavg 5": (Qfedavg(q=5), partial(papers.Qfedavg, 5)),
    "qfedavg half": (Qfedavg(q=0.5), partial(papers.Qfedavg, 0.5)),
    "afl": (Afl(lr_lambda=0.2), partial(papers.Afl, USERS, 0.2)),
    "afl share": (Afl(lr_lambda=0.2, weights="share"), partial(papers.Afl, USERS, 0.2, 1)),
    "afl equal": (Afl(lr_lambda=0.2, weights="equal"), partial(papers.Afl, USERS, 0.2, 2)),
    "superquantile": (Superquantile(alpha=0.5), partial(papers.Superquantile, 0.5)),
    "superquantile 0.2": (Superquantile(alpha=0.2), partial(papers.Superquantile, 0.8)),
    "superquantile 0.8": (Superquantile(alpha=0.8), partial(papers.Superquantile, 0.2)),
    "climb": (
        Climb(server_lr=0.9, lr_lambda=8, epsilon=0.01, primal_rounds=1),
        partial(papers.Climb, USERS, 0.9, 8, 0.01, 1),
    ),
    "climb 3": (
        Climb(lr_lambda=20, epsilon=0, primal_rounds=3),
        partial(papers.Climb, USERS, 1.0, 20, 0.0, 3),
    ),
    "ca_fed": (CaFed(server_lr=0.3, s=0.2), partial(papers.CaFed, USERS, 0.3, s=0.2)),
    "ca_fed b": (
        CaFed(server_lr=0.2, b=0.1, tolerance=0.01, optimum=(0.3, 0.1, 0.0, 0.2)),
        partial(papers.CaFed, USERS, 0.2, 0.1, 0.01, optimum=(0.3, 0.1, 0.0, 0.2)),
    ),
    "ca_fed known": (
        CaFed(server_lr=0.2, b=0.3, estimate="known", probability=P, correlation=LAMBDA),
        partial(papers.CaFed, USERS, 0.2, 0.3, known=(np.array(P), LAMBDA)),
    ),
    "ca_fed prior": (
        CaFed(server_lr=0.2, b=0.3, s=0.5, estimate="prior", probability=P, correlation=LAMBDA, prior_rounds=7),
        partial(papers.CaFed, USERS, 0.2, 0.3, s=0.5, known=(np.array(P), LAMBDA), prior=7),
    ),
    "scaffold": (Scaffold(server_lr=0.9), partial(papers.Scaffold, USERS, SIZE, 0.9)),
    "fedavgm": (
        Fedavgm(momentum=0.7, server_lr=0.6),
        lambda: papers.Fedavgm(papers.Average(), 0.6, 0.7),
    ),
    "fedavgm of mifa": (
        Fedavgm(momentum=0.7, inner=Mifa()),
        lambda rates: papers.Fedavgm(papers.Mifa(USERS, rates), 1.0, 0.7),
    ),
    "fedavgm of scaffold": (
        Fedavgm(momentum=0.5, inner=Scaffold()),
        lambda: papers.Fedavgm(papers.Scaffold(USERS, SIZE), 1.0, 0.5),
    ),
    "fedadam": (
        Fedadam(server_lr=0.05, inner=Average(weights="equal")),
        lambda: papers.Fedadam(papers.Average(False), 0.05, 0.9, 0.99, 1e-3),
    ),
    "fedadam of fedau": (
        Fedadam(server_lr=0.02, beta1=0.5, beta2=0.9, tau=0.01, inner=Fedau(cutoff=3)),
        lambda: papers.Fedadam(papers.Fedau(USERS, 3), 0.02, 0.5, 0.9, 0.01),
    ),
    "fedavgm of ca_fed": (
        Fedavgm(momentum=0.4, inner=CaFed(server_lr=0.3, b=0.2)),
        lambda: papers.Fedavgm(papers.CaFed(USERS, 0.3, 0.2), 1.0, 0.4),
    ),
    "fedadam of f3ast": (
        Fedadam(server_lr=0.02, inner=F3ast(beta=0.1, weights="equal")),
        lambda: papers.Fedadam(papers.F3ast(EQUAL, 0.1), 0.02, 0.9, 0.99, 1e-3),
    ),
    "fedavgm of fedstale": (
        Fedavgm(momentum=0.7, inner=Fedstale(beta=0.4)),
        lambda: papers.Fedavgm(papers.Fedstale(BY_SIZE, 0.4), 1.0, 0.7),
    ),
    "fedadam of qfedavg": (
        Fedadam(server_lr=0.02, inner=Qfedavg(q=2)),
        lambda: papers.Fedadam(papers.Qfedavg(2), 0.02, 0.9, 0.99, 1e-3),
    ),
}
USES_SCHEDULE = ("mifa", "fedavgm of mifa", "fedlaavg")
"""Rules whose server uses the step sizes of the schedule."""
OBJECTIVES = {
    "erm": (Erm(), {"objective": papers.erm}),
    "cvar": (
        Cvar(alpha=0.3, gamma=0.1, lr_t=LR_T),
        {"objective": papers.cvar(0.3, 0.1), "lr_t": LR_T},
    ),
    "cvar sample": (
        Cvar(alpha=0.4, gamma=0.2, lr_t=LR_T, per="sample"),
        {"objective": papers.sample_cvar(0.4, 0.2), "lr_t": LR_T},
    ),
    "tilted": (Tilted(tau=2), {"objective": papers.tilted(2)}),
    "tilted down": (Tilted(tau=-1.5), {"objective": papers.tilted(-1.5)}),
    "proximal": (Proximal(mu=0.7), {"objective": papers.erm, "mu": 0.7}),
}
STEPS = {
    "plain": ({}, {}),
    "momentum": ({"momentum": 0.8}, {"momentum": 0.8}),
    "decay": ({"weight_decay": 0.3}, {"decay": 0.3}),
    "constant": ({"schedule": Constant()}, {}),
    "step": ({"schedule": Step(milestones=(2, 7), factor=0.3)}, {"factor": lambda at: 0.3 ** ((at >= 2) + (at >= 7))}),
    "halving": ({"schedule": Halving(every=3)}, {"factor": lambda at: 0.5 ** (at // 3)}),
    "all": (
        {"momentum": 0.5, "weight_decay": 0.1, "schedule": Halving(every=2)},
        {"momentum": 0.5, "decay": 0.1, "factor": lambda at: 0.5 ** (at // 2)},
    ),
}
WITHOUT_MOMENTUM = ("decay", "step", "halving")
"""Steps without momentum, which SCAFFOLD does not support."""


def cases():
    """Yield every rule with every objective, and every kind of step with some rules and every objective."""
    yield from product(RULES, OBJECTIVES, ["plain"])
    yield from product(
        ["average", "mifa", "fedvarp", "fedstale", "qfedavg 1"], OBJECTIVES, [name for name in STEPS if name != "plain"]
    )
    yield from product(["scaffold"], OBJECTIVES, WITHOUT_MOMENTUM)
    yield from product(["fedavgm of mifa"], OBJECTIVES, ["step", "halving"])


CASES = [*cases()]


def batches(amount, user, base, repeat):
    """Return the mini-batches that the learner draws, or all examples of the user."""
    x, y = EXAMPLES[user]
    if amount["batch_size"] == "full":
        return [(x, y)] * amount["local_steps"]
    work = LocalWork(amount["batch_size"], amount["local_epochs"], None)
    drawn = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, user, base, len(y))], work, np.array([repeat]))
    return [
        (x[indices[:count]], y[indices[:count]])
        for indices, count in zip(drawn.places[0], drawn.counts[0], strict=True)
    ]


def run_trace(specs, trace):
    """Return all versions and losses of every learner, trained in one `BatchedLearner`."""
    batched = learner(specs, evaluate=EvaluateSpec(every=1), rounds=len(trace))
    reports = [batched.start()]
    versions = {name: [batched.version(lane)] for lane, name in enumerate(specs)}
    for index, deliveries in enumerate(trace, start=1):
        reports.append(batched.step([a_round(index, *deliveries)]))
        for lane, name in enumerate(specs):
            versions[name].append(batched.version(lane))
    losses = {name: [float(report.metrics["loss"][lane]) for report in reports] for lane, name in enumerate(specs)}
    return {name: np.array(values) for name, values in versions.items()}, losses


@cache
def versions_of_all_cases(full, trace="TRACE", rules=tuple(RULES)):
    """Return versions and losses of all cases."""
    amount = FULL if full else MINI
    cases = [case for case in CASES if case[0] in rules] if trace == "TRACE" else [*product(rules, OBJECTIVES, STEPS)]
    rule = {name: aggregation for name, (aggregation, _) in RULES.items()} | {"relay": Relay()}
    specs = {case: spec(OBJECTIVES[case[1]][0], rule[case[0]], lr=LR, **amount, **STEPS[case[2]][0]) for case in cases}
    return run_trace(specs, globals()[trace])


def expected(start, rule, objective, steps, *, trace=TRACE, amount):
    """Return the versions of *rule*, which is created with the step sizes of users if it uses them."""
    local = papers.Local(**({"lr": LR} | OBJECTIVES[objective][1] | STEPS[steps][1]))
    rule = rule(local.rates) if rule in [RULES[name][1] for name in USES_SCHEDULE] else rule()
    return papers.play(rule, local, start, trace, data=EXAMPLES, batches=partial(batches, amount))


def test_the_trace_covers_the_special_cases():
    assert sum(not deliveries for deliveries in TRACE) >= 3
    assert any(len({user for user, _ in deliveries}) < len(deliveries) for deliveries in TRACE)
    assert any(len(set(deliveries)) < len(deliveries) for deliveries in TRACE)
    assert max(index - base for index, deliveries in enumerate(TRACE) for _, base in deliveries) >= 4
    assert len({len(rows) for rows in SPLIT}) == USERS


@pytest.mark.parametrize("full", [True, False], ids=["full", "mini"])
@pytest.mark.parametrize("case", CASES, ids=" | ".join)
def test_versions_equal_the_paper(case, full):
    versions = versions_of_all_cases(full)[0][case]
    name, objective, steps = case
    expected_versions = expected(versions[0], RULES[name][1], objective, steps, amount=FULL if full else MINI)
    assert np.abs(np.diff(versions, axis=0)).max() > 1e-3
    assert versions == pytest.approx(expected_versions, rel=1e-10, abs=1e-13)
    moves = "cvar" in objective
    assert np.abs(versions[:, -1]).max() > 0.01 if moves else (versions[:, -1] == 0).all()


AGAINST_ABSENCE = (
    "known_participation",
    "fedau",
    "fedau cut",
    "mifa",
    "fedvarp",
    "fedstale",
    "fedstale known",
    "f3ast",
)
"""Rules that make up for absent users, which `cvar` is combined with."""


@cache
def long_versions():
    """Return the versions of `cvar` with each rule against absence on the long trace."""
    objectives = {name: OBJECTIVES[name][0] for name in ("cvar", "cvar sample")}
    specs = {
        (rule, name): spec(objective, RULES[rule][0], lr=0.1, **MINI)
        for rule, (name, objective) in product(AGAINST_ABSENCE, objectives.items())
    }
    return run_trace(specs, LONG)[0]


def test_the_long_trace_covers_the_special_cases():
    assert sum(not deliveries for deliveries in LONG) >= 5
    assert any(len({user for user, _ in deliveries}) < len(deliveries) for deliveries in LONG)
    assert max(index - base for index, deliveries in enumerate(LONG) for _, base in deliveries) == 5
    first = {user: next(i for i, row in enumerate(LONG) if user in [each for each, _ in row]) for user in range(USERS)}
    assert first[2] >= 30


@pytest.mark.parametrize("objective", ["cvar", "cvar sample"])
@pytest.mark.parametrize("rule", AGAINST_ABSENCE)
def test_cvar_with_rules_against_absence_equals_the_papers(rule, objective):
    versions = long_versions()[rule, objective]
    local = papers.Local(**({"lr": 0.1} | OBJECTIVES[objective][1]))
    make = RULES[rule][1]
    reference = make(local.rates) if rule in USES_SCHEDULE else make()
    expected_versions = papers.play(reference, local, versions[0], LONG, data=EXAMPLES, batches=partial(batches, MINI))
    assert versions == pytest.approx(expected_versions, rel=1e-10, abs=1e-10)
    assert np.abs(versions[:, -1]).max() > 0.01  # t takes part


@pytest.mark.parametrize("case", [*product(["relay"], OBJECTIVES, STEPS)], ids=" | ".join)
def test_relayed_versions_equal_the_paper(case):
    versions = versions_of_all_cases(True, "SINGLE", ("relay",))[0][case]
    assert versions == pytest.approx(
        expected(versions[0], papers.Relay, *case[1:], trace=SINGLE, amount=FULL), rel=1e-10, abs=1e-13
    )


@pytest.mark.parametrize("q", [0, 1, 3])
def test_qfedsgd_equals_the_paper(q):
    amount = {"batch_size": "full", "local_steps": 1}
    versions = run_trace({"one": spec(aggregation=Qfedsgd(q=q), lr=LR, **amount)}, TRACE)[0]["one"]
    expected_versions = expected(versions[0], partial(papers.Qfedsgd, q, EXAMPLES), "erm", "plain", amount=amount)
    assert versions == pytest.approx(expected_versions, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_afl_reports_the_mean_of_its_versions(objective):
    versions, losses = (results["afl", objective, "plain"] for results in versions_of_all_cases(True))
    for index, loss in enumerate(losses):
        mean = versions[1 : index + 1].mean(0) if index else versions[0]
        assert loss == pytest.approx(papers.backward(mean[:-1], *TEST)[0].mean(), rel=1e-10)


@pytest.mark.parametrize("rule", ["average", "scaffold", "fedadam"])
def test_other_rules_report_their_versions(rule):
    versions, losses = (results[rule, "erm", "plain"] for results in versions_of_all_cases(True))
    assert losses == pytest.approx([papers.backward(version[:-1], *TEST)[0].mean() for version in versions], rel=1e-10)


@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": 0.9}, {"weight_decay": 0.2}, {"momentum": 0.9, "weight_decay": 0.2}],
    ids=str,
)
@pytest.mark.parametrize("objective", ["erm", "tilted", "proximal", "cvar sample"])
@pytest.mark.slow
def test_local_steps_equal_pytorch(objective, options):
    """Use SGD of `torch.optim` on the objective of the losses. t is a parameter in a separate group."""
    local = OBJECTIVES[objective][0]
    versions = run_trace({"one": spec(local, Relay(), lr=LR, batch_size="full", local_steps=6, **options)}, [[(0, 0)]])[
        0
    ]["one"]
    module, t = torch_model(versions[0, :-1]), torch.zeros((), dtype=torch.float64, requires_grad=True)
    base = [parameter.detach().clone() for parameter in module.parameters()]
    theta = torch.optim.SGD(module.parameters(), lr=LR, **options)
    threshold = torch.optim.SGD([t], lr=LR_T)
    x, y = (torch.tensor(array) for array in EXAMPLES[0])
    for _ in range(6):
        losses = nn.functional.cross_entropy(module(x), y, reduction="none")
        penalty = sum(
            (parameter - start).square().sum() for parameter, start in zip(module.parameters(), base, strict=True)
        )
        value = {
            "erm": lambda losses, penalty: losses.mean(),
            "tilted": lambda losses, penalty: torch.log(torch.exp(2 * losses).mean()) / 2,
            "proximal": lambda losses, penalty: losses.mean() + 0.7 / 2 * penalty,
            "cvar sample": lambda losses, penalty: (
                (1 - 0.2) * (t + torch.relu(losses - t) / 0.4) + 0.2 * losses
            ).mean(),
        }[objective](losses, penalty)
        for optimiser in (theta, threshold):
            optimiser.zero_grad()
        value.backward()
        for optimiser in (theta, threshold):
            optimiser.step()
    expected_parameters = [*nn.utils.parameters_to_vector(module.parameters()).tolist(), t.item()]
    assert versions[1] == pytest.approx(expected_parameters, rel=1e-10, abs=1e-13)


def test_the_reference_network_has_the_size_of_the_learner():
    assert TANH.parameters((2,), papers.CLASSES) + 1 == SIZE
