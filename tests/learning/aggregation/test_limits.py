"""What aggregations and objectives come to in their limits, through the whole learner."""

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
EVERYBODY = [[(user, index) for user in range(USERS)] for index in range(8)]
EVERYBODY_LONG = [[(user, index) for user in range(USERS)] for index in range(300)]
SOME = [[(user, index) for user in range(USERS) if (index + user) % 3] if index % 4 else [] for index in range(12)]


def versions(specs, trace, **changes):
    """The versions of each learner, in mini-batches: ``[rounds, parameters + 1]``."""
    one = learner(specs, rounds=len(trace), **changes)
    one.start()
    made = []
    for index, lines in enumerate(trace, start=1):
        one.step([a_round(index, *lines)])
        made.append([one.version(lane) for lane in range(len(specs))])
    return dict(zip(specs, np.swapaxes(made, 0, 1), strict=True))


def stale(rounds=12):
    return [[(one.user, one.base) for one in now.deliveries] for now in network(3, rounds)]


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
        Qfedavg(q=0),
        Fedavgm(momentum=0, inner=EQUAL),
        Fedavgm(momentum=0, inner=Fedvarp()),
    ],
    ids=repr,
)
def test_where_everybody_is_always_heard_it_is_fedavg(rule):
    made = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, EVERYBODY)
    assert made["rule"] == pytest.approx(made["fedavg"], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("rule", [Fedau(), AverageAll(), Mifa(), Fedvarp()], ids=repr)
def test_where_some_are_silent_it_is_not(rule):
    made = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, SOME)
    assert np.abs(made["rule"] - made["fedavg"])[-1].max() > 1e-3


@pytest.mark.parametrize("rule", [Qfedavg(q=0), Fedbuff(exponent=1), Fedavgm(momentum=0, inner=EQUAL)], ids=repr)
def test_without_staleness_it_is_the_mean_of_those_heard(rule):
    made = versions({"rule": spec(aggregation=rule), "fedavg": spec(aggregation=EQUAL)}, SOME)
    assert made["rule"] == pytest.approx(made["fedavg"], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("of", [Average(), Fedau(cutoff=3), Scaffold(), Mifa(), Qfedavg(q=2), Fedbuff()], ids=repr)
def test_without_momentum_fedavgm_is_the_other_aggregation(of):
    trace = stale()
    made = versions({"outer": spec(aggregation=Fedavgm(momentum=0, inner=of)), "inner": spec(aggregation=of)}, trace)
    assert made["outer"] == pytest.approx(made["inner"], rel=1e-10, abs=1e-12)


ALONE = {
    "average": Average(),
    "average_all": AverageAll(),
    "known_participation": KnownParticipation(probability=(1.0,)),
    "fedau": Fedau(),
    "fedbuff": Fedbuff(),
    "fedasync": Fedasync(alpha=1),
    "mifa": Mifa(),
    "fedvarp": Fedvarp(),
    "qfedavg": Qfedavg(q=0),
    "afl": Afl(lr_lambda=0.5),
    "scaffold": Scaffold(),
    "fedavgm": Fedavgm(momentum=0),
}


@pytest.mark.parametrize("objective", [None, Cvar(alpha=0.5, lr_t=0.1), Tilted(tau=1)], ids=str)
def test_one_user_alone_makes_plain_sgd_of_all(objective):
    """That `relay` of one user is SGD is held to PyTorch in ``test_exact.py``."""
    rules = {"relay": Relay()} | ALONE
    specs = {name: spec(objective, rule) for name, rule in rules.items()}
    made = versions(specs, [[(0, index)] for index in range(6)], splits=[[SPLIT[0]]])
    assert np.abs(np.diff(made["relay"], axis=0)).max() > 1e-3
    for name in ALONE:
        assert made[name] == pytest.approx(made["relay"], rel=1e-11, abs=1e-12), name


@pytest.mark.parametrize("per", ["batch", "sample"])
@pytest.mark.parametrize("rule", [Average(), Fedau(), Scaffold(), Mifa(), Qfedavg(q=1)], ids=repr)
def test_alpha_1_is_fedavg_while_the_hinge_is_active_and_gamma_1_always(rule, per):
    """With t at 0, below every loss, it stays there; γ = 1 leaves t alone wherever it is."""
    specs = {
        "erm": spec(aggregation=rule),
        "alpha 1": spec(Cvar(alpha=1, gamma=0.3, lr_t=0.5, per=per), rule),
        "gamma 1": spec(Cvar(alpha=0.1, gamma=1, lr_t=0.5, per=per), rule),
        "neither": spec(Cvar(alpha=0.1, gamma=0.3, lr_t=0.5, per=per), rule),
    }
    made = versions(specs, stale())
    for name in ("alpha 1", "gamma 1"):
        assert made[name] == pytest.approx(made["erm"], rel=1e-10, abs=1e-12)
        assert (made[name][:, -1] == 0).all()
    assert np.abs(made["neither"] - made["erm"]).max() > 1e-2


def test_small_terms_leave_the_mean_loss():
    specs = {"erm": spec(), "tilted": spec(Tilted(tau=1e-9)), "proximal": spec(Proximal(mu=1e-9))}
    made = versions(specs, stale())
    for name in ("tilted", "proximal"):
        assert made[name] == pytest.approx(made["erm"], rel=0, abs=1e-7)


def test_one_example_a_batch_makes_no_difference_between_batch_and_sample():
    specs = {per: spec(Cvar(alpha=0.3, gamma=0.1, lr_t=0.3, per=per), batch_size=1) for per in ("batch", "sample")}
    made = versions(specs, stale())
    assert made["sample"] == pytest.approx(made["batch"], rel=1e-11, abs=1e-13)
    other = versions({name: one.model_copy(update={"batch_size": 8}) for name, one in specs.items()}, stale())
    assert np.abs(other["sample"] - other["batch"]).max() > 1e-3


def test_the_tilt_goes_after_the_hardest_or_the_easiest():
    """On one user's data: with τ > 0 the worst example ends better than with the mean, with τ < 0 worse."""
    x, y = DATA.train_x[SPLIT[0]], DATA.train_y[SPLIT[0]]
    worst = {}
    for tau in (-3.0, None, 3.0):
        objective = None if tau is None else Tilted(tau=tau)
        one = learner({"a": spec(objective, Relay(), lr=0.2, batch_size="full", local_steps=300)})
        one.step([a_round(1, (0, 0))])
        w1, b1, w2, b2 = np.split(one.version(0)[:-1], [10, 15, 30])
        z = np.tanh(x @ w1.reshape(5, 2).T + b1) @ w2.reshape(3, 5).T + b2
        worst[tau] = (np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]).max()
    assert worst[3.0] < 0.9 * worst[None] < worst[-3.0]


def test_a_pull_keeps_users_near_their_base():
    far = {}
    for mu in (0.1, 1.0, 10.0):
        one = learner({"a": spec(Proximal(mu=mu), Relay(), batch_size="full", local_steps=100)})
        start = one.version(0)
        one.step([a_round(1, (0, 0))])
        far[mu] = np.linalg.norm(one.version(0) - start)
    assert far[10.0] < far[1.0] / 3 < far[0.1] / 3


@pytest.mark.slow
def test_scaffold_comes_to_rest_where_the_mean_gradient_is_0():
    """After many rounds of many local steps on unlike data; an average comes to rest elsewhere."""
    decay, slopes = 0.01, {}
    for name, rule in (("average", EQUAL), ("scaffold", Scaffold())):
        how = {"batch_size": "full", "local_steps": 20, "weight_decay": decay}
        made = versions({"a": spec(None, rule, lr=0.1, **how)}, EVERYBODY_LONG)["a"]
        theta = made[-1, :-1]
        gradients = [papers.backward(theta, DATA.train_x[own], DATA.train_y[own])[1].mean(0) for own in SPLIT]
        slopes[name] = np.linalg.norm(np.mean(gradients, axis=0) + decay * theta)
    assert slopes["scaffold"] < 0.01 * slopes["average"]
