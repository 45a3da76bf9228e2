"""Limit cases of aggregations and objectives in the whole learner."""

import numpy as np
import pytest
from support import paper_algorithms as papers
from support.learner_factory import DATA, SPLIT, USERS, a_round, learner, network, spec

from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedbuff import Fedbuff
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.proximal import Proximal
from netfl.learning.objective.tilted import Tilted

EQUAL = Average(weights="equal")
ALL_USERS = [[(user, index) for user in range(USERS)] for index in range(8)]
ALL_USERS_LONG = [[(user, index) for user in range(USERS)] for index in range(300)]
SOME_USERS = [
    [(user, index) for user in range(USERS) if (index + user) % 3] if index % 4 else [] for index in range(12)
]


def versions(specs, trace, **changes):
    """Return the versions of each learner, trained with mini-batches: ``[rounds, parameters + 1]``."""
    batched = learner(specs, rounds=len(trace), **changes)
    batched.start()
    results = []
    for index, deliveries in enumerate(trace, start=1):
        batched.step([a_round(index, *deliveries)])
        results.append([batched.version(lane) for lane in range(len(specs))])
    return dict(zip(specs, np.swapaxes(results, 0, 1), strict=True))


def stale(rounds=12):
    return [[(delivery.user, delivery.base) for delivery in current.deliveries] for current in network(3, rounds)]


@pytest.mark.parametrize(
    "rule",
    [
        Fedau(),
        Fedau(cutoff=5),
        AverageAll(),
        KnownParticipation(probability=(1.0,) * USERS),
        Fedbuff(exponent=2),
        Mifa(),
        Fedvarp(),
        Fedstale(weights="equal"),
        Qfedavg(q=0),
        Fedavgm(momentum=0, inner=EQUAL),
        Fedavgm(momentum=0, inner=Fedvarp()),
    ],
    ids=repr,
)
def test_full_participation_equals_fedavg(rule):
    found = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, ALL_USERS)
    assert found["rule"] == pytest.approx(found["fedavg"], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("rule", [Fedau(), AverageAll(), Mifa(), Fedvarp()], ids=repr)
def test_partial_participation_differs_from_fedavg(rule):
    found = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, SOME_USERS)
    assert np.abs(found["rule"] - found["fedavg"])[-1].max() > 1e-3


@pytest.mark.parametrize("rule", [Qfedavg(q=0), Fedbuff(exponent=1), Fedavgm(momentum=0, inner=EQUAL)], ids=repr)
def test_without_staleness_the_mean_of_deliveries_is_used(rule):
    found = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, SOME_USERS)
    assert found["rule"] == pytest.approx(found["fedavg"], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("inner", [Average(), Fedau(cutoff=3), Scaffold(), Mifa(), Qfedavg(q=2), Fedbuff()], ids=repr)
def test_fedavgm_without_momentum_equals_the_inner_rule(inner):
    trace = stale()
    found = versions(
        {"outer": spec(aggregation=Fedavgm(momentum=0, inner=inner)), "inner": spec(aggregation=inner)}, trace
    )
    assert found["outer"] == pytest.approx(found["inner"], rel=1e-10, abs=1e-12)


SINGLE_USER_RULES = {
    "average": Average(),
    "average_all": AverageAll(),
    "known_participation": KnownParticipation(probability=(1.0,)),
    "fedau": Fedau(),
    "fedbuff": Fedbuff(),
    "fedasync": Fedasync(alpha=1),
    "mifa": Mifa(),
    "fedvarp": Fedvarp(),
    "fedstale": Fedstale(),
    "qfedavg": Qfedavg(q=0),
    "afl": Afl(lr_lambda=0.5),
    "scaffold": Scaffold(),
    "fedavgm": Fedavgm(momentum=0),
}


@pytest.mark.parametrize("objective", [None, Cvar(alpha=0.5, lr_t=0.1), Tilted(tau=1)], ids=str)
def test_all_rules_equal_relay_for_a_single_user(objective):
    """``test_learner.py`` compares `relay` of one user with SGD of PyTorch."""
    rules = {"relay": Relay()} | SINGLE_USER_RULES
    specs = {name: spec(objective, rule) for name, rule in rules.items()}
    found = versions(specs, [[(0, index)] for index in range(6)], splits=[[SPLIT[0]]])
    assert np.abs(np.diff(found["relay"], axis=0)).max() > 1e-3
    for name in SINGLE_USER_RULES:
        assert found[name] == pytest.approx(found["relay"], rel=1e-11, abs=1e-12), name


@pytest.mark.parametrize("per", ["batch", "sample"])
@pytest.mark.parametrize("rule", [Average(), Fedau(), Scaffold(), Mifa(), Qfedavg(q=1)], ids=repr)
def test_cvar_with_alpha_1_or_gamma_1_equals_erm(rule, per):
    """t starts at 0, below every loss, and stays there. With γ = 1 it never changes."""
    specs = {
        "erm": spec(aggregation=rule),
        "alpha 1": spec(Cvar(alpha=1, gamma=0.3, lr_t=0.5, per=per), rule),
        "gamma 1": spec(Cvar(alpha=0.1, gamma=1, lr_t=0.5, per=per), rule),
        "neither": spec(Cvar(alpha=0.1, gamma=0.3, lr_t=0.5, per=per), rule),
    }
    found = versions(specs, stale())
    for name in ("alpha 1", "gamma 1"):
        assert found[name] == pytest.approx(found["erm"], rel=1e-10, abs=1e-12)
        assert (found[name][:, -1] == 0).all()
    assert np.abs(found["neither"] - found["erm"]).max() > 1e-2


def test_small_tau_and_mu_equal_erm():
    specs = {"erm": spec(), "tilted": spec(Tilted(tau=1e-9)), "proximal": spec(Proximal(mu=1e-9))}
    found = versions(specs, stale())
    for name in ("tilted", "proximal"):
        assert found[name] == pytest.approx(found["erm"], rel=0, abs=1e-7)


def test_batch_and_sample_agree_for_batches_of_one():
    specs = {per: spec(Cvar(alpha=0.3, gamma=0.1, lr_t=0.3, per=per), batch_size=1) for per in ("batch", "sample")}
    found = versions(specs, stale())
    assert found["sample"] == pytest.approx(found["batch"], rel=1e-11, abs=1e-13)
    large_batches = versions(
        {name: learner_spec.model_copy(update={"batch_size": 8}) for name, learner_spec in specs.items()}, stale()
    )
    assert np.abs(large_batches["sample"] - large_batches["batch"]).max() > 1e-3


def test_the_tilt_changes_the_largest_loss():
    """The largest loss of one user's data is lower with τ > 0 than with the mean, and higher with τ < 0."""
    x, y = DATA.train_x[SPLIT[0]], DATA.train_y[SPLIT[0]]
    worst = {}
    for tau in (-3.0, None, 3.0):
        objective = None if tau is None else Tilted(tau=tau)
        batched = learner({"a": spec(objective, Relay(), lr=0.2, batch_size="full", local_steps=300)})
        batched.step([a_round(1, (0, 0))])
        w1, b1, w2, b2 = np.split(batched.version(0)[:-1], [10, 15, 30])
        z = np.tanh(x @ w1.reshape(5, 2).T + b1) @ w2.reshape(3, 5).T + b2
        worst[tau] = (np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]).max()
    assert worst[3.0] < 0.9 * worst[None] < worst[-3.0]


def test_the_proximal_term_limits_the_change():
    distance = {}
    for mu in (0.1, 1.0, 10.0):
        batched = learner({"a": spec(Proximal(mu=mu), Relay(), batch_size="full", local_steps=100)})
        start = batched.version(0)
        batched.step([a_round(1, (0, 0))])
        distance[mu] = np.linalg.norm(batched.version(0) - start)
    assert distance[10.0] < distance[1.0] / 3 < distance[0.1] / 3


@pytest.mark.slow
def test_scaffold_converges_to_a_stationary_point():
    """Users have different data and take many local steps. The average converges to another point."""
    decay, gradient_norms = 0.01, {}
    for name, rule in (("average", EQUAL), ("scaffold", Scaffold())):
        work = {"batch_size": "full", "local_steps": 20, "weight_decay": decay}
        found = versions({"a": spec(None, rule, lr=0.1, **work)}, ALL_USERS_LONG)["a"]
        theta = found[-1, :-1]
        gradients = [papers.backward(theta, DATA.train_x[rows], DATA.train_y[rows])[1].mean(0) for rows in SPLIT]
        gradient_norms[name] = np.linalg.norm(np.mean(gradients, axis=0) + decay * theta)
    assert gradient_norms["scaffold"] < 0.01 * gradient_norms["average"]
