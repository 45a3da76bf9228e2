"""Every rule of devices, and users that start from models of their own, beside simulations in NumPy."""

from functools import partial

import numpy as np
import pytest
from learning.test_exact_updates import TRACE, batches
from support.learner_factory import SPLIT, USERS, a_round, learner, network, spec
from support.paper_algorithms import backward

from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedawe import Fedawe
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.device.ditto import Ditto
from netfl.learning.device.fedper import Fedper
from netfl.learning.device.fedrep import Fedrep
from netfl.learning.device.local_momentum import LocalMomentum
from netfl.learning.device.mixture import Mixture
from netfl.learning.schedule import Schedule
from netfl.learning.schedule.halving import Halving

LR = 0.3
BODY = slice(0, 15)  # of the network 2-5-3: w1 and b1
HEAD = slice(15, 33)  # w2 and b2
EPOCHS = {"batch_size": 8, "local_epochs": 2, "lr": LR}
STEPS = {"batch_size": "full", "local_steps": 3, "lr": LR}
TRACES = {
    "repeats": [a_round(index, *deliveries) for index, deliveries in enumerate(TRACE, start=1)],
    "random": [*network(0, 8)],
}


class Sgd:
    """Local SGD of a user in NumPy."""

    def __init__(self, amount, momentum=0.0, decay=0.0, factor=lambda version: 1.0):
        self.amount = amount
        self.momentum = momentum
        self.decay = decay
        self.factor = factor

    def batches(self, user, since, repeat):
        return batches(self.amount, user, since, repeat)

    def train(
        self, start, user, since, repeat, *, velocity=0.0, pull=0.0, anchor=0.0, trained=lambda step: slice(None)
    ):
        """Return θ and the momentum buffer after an update; only the part *trained* in a step moves."""
        theta = start.copy()
        velocity = velocity + np.zeros(len(theta))
        lr = LR * self.factor(since)
        for step, (x, y) in enumerate(self.batches(user, since, repeat)):
            gradient = backward(theta, x, y)[1].mean(0) + self.decay * theta + pull * (theta - anchor)
            part = trained(step)
            velocity[part] = self.momentum * velocity[part] + gradient[part]
            theta[part] -= lr * velocity[part]
        return theta, velocity


class Plain:
    """FedAvg: a user starts from the version."""

    def update(self, sgd, base, user, since, repeat, kept):
        """Return the base and the model of an update as the server reads them, and what the device keeps."""
        return base, sgd.train(base, user, since, repeat)[0], kept


class FedPer(Plain):
    def update(self, sgd, base, user, since, repeat, kept):
        start = base.copy()
        if kept is not None:
            start[HEAD] = kept
        model, _ = self.train(sgd, start, user, since, repeat)
        head = model[HEAD].copy()
        model[HEAD] = base[HEAD]
        return base, model, head

    def train(self, sgd, start, user, since, repeat):
        return sgd.train(start, user, since, repeat)


class FedRep(FedPer):
    def __init__(self, epochs=None, steps=None):
        self.epochs = epochs
        self.steps = steps

    def train(self, sgd, start, user, since, repeat):
        first = self.steps
        if first is None:
            first = self.epochs * -(-len(SPLIT[user]) // 8)
        return sgd.train(start, user, since, repeat, trained=lambda step: HEAD if step < first else BODY)


class DittoOf(Plain):
    def __init__(self, pull, origin):
        self.pull = pull
        self.origin = origin

    def update(self, sgd, base, user, since, repeat, kept):
        own = self.origin if kept is None else kept
        own, _ = sgd.train(own, user, since, repeat, pull=self.pull, anchor=base)
        return base, sgd.train(base, user, since, repeat)[0], own


class Momentum(Plain):
    def update(self, sgd, base, user, since, repeat, kept):
        model, velocity = sgd.train(base, user, since, repeat, velocity=0.0 if kept is None else kept)
        return base, model, velocity


class Mixed(Plain):
    def __init__(self, share):
        self.share = share

    def update(self, sgd, base, user, since, repeat, kept):
        start = base if kept is None else (1 - self.share) * base + self.share * kept
        model, _ = sgd.train(start, user, since, repeat)
        return base, model, model


class Own(Plain):
    def __init__(self, origin):
        self.origin = origin

    def update(self, sgd, base, user, since, repeat, kept):
        own = self.origin if kept is None else kept
        model, _ = sgd.train(own, user, since, repeat)
        return own, model, model


def average(version, updates):
    weights = np.array([len(SPLIT[user]) for user, _, _ in updates], float)
    return weights / weights.sum() @ np.array([model for _, _, model in updates])


def average_all(version, updates):
    return version + sum(model - base for _, base, model in updates) / USERS


def play(start, trace, device, sgd, server=average):
    """Return the versions of all rounds, and what each device keeps in the end."""
    versions = [start]
    repeats = {}
    kept = dict.fromkeys(range(USERS))
    for result in trace:
        updates = []
        before = dict(kept)
        for delivery in result.deliveries:
            user, since = delivery.user, delivery.base
            repeats[user, since] = repeats.get((user, since), -1) + 1
            update = device.update(sgd, versions[since], user, since, repeats[user, since], before[user])
            base, model, kept[user] = update
            updates.append((user, base, model))
        versions.append(server(versions[-1], updates) if updates else versions[-1])
    return versions, kept


CASES = {
    "fedper": (spec(**EPOCHS, device=Fedper()), lambda _: FedPer(), Sgd(EPOCHS)),
    "fedper by name": (
        spec(**EPOCHS, device=Fedper(personal_layers=("layers.1.weight", "layers.1.bias")), momentum=0.6),
        lambda _: FedPer(),
        Sgd(EPOCHS, momentum=0.6),
    ),
    "fedrep epochs": (spec(**EPOCHS, device=Fedrep(head_epochs=1)), lambda _: FedRep(epochs=1), Sgd(EPOCHS)),
    "fedrep steps": (
        spec(**STEPS, device=Fedrep(head_steps=2), momentum=0.5, weight_decay=0.2),
        lambda _: FedRep(steps=2),
        Sgd(STEPS, momentum=0.5, decay=0.2),
    ),
    "ditto": (spec(**EPOCHS, device=Ditto(pull=0.7)), partial(DittoOf, 0.7), Sgd(EPOCHS)),
    "ditto alone": (
        spec(**STEPS, device=Ditto(pull=0), momentum=0.5, weight_decay=0.1),
        partial(DittoOf, 0.0),
        Sgd(STEPS, momentum=0.5, decay=0.1),
    ),
    "local_momentum": (
        spec(**EPOCHS, device=LocalMomentum(), momentum=0.8, schedule=Halving(every=3)),
        lambda _: Momentum(),
        Sgd(EPOCHS, momentum=0.8, factor=lambda version: 0.5 ** (version // 3)),
    ),
    "local_momentum of steps": (
        spec(batch_size="full", local_steps=1, lr=LR, device=LocalMomentum(), momentum=0.8),
        lambda _: Momentum(),
        Sgd({"batch_size": "full", "local_steps": 1}, momentum=0.8),
    ),
    "mixture": (spec(**EPOCHS, device=Mixture(share=0.4)), lambda _: Mixed(0.4), Sgd(EPOCHS)),
    "own": (spec(**EPOCHS, base="own"), Own, Sgd(EPOCHS)),
}
PLAIN = {"FedAvg": spec(**EPOCHS), "steps": spec(**STEPS), "SCAFFOLD": spec(**EPOCHS, aggregation=Scaffold())}
"""Learners without rules, beside the others in the same groups."""
SERVERS = {"average": (Average(), average), "average_all": (AverageAll(), average_all)}


def all_specs(aggregation):
    rules = {name: case[0].model_copy(update={"aggregation": aggregation}) for name, case in CASES.items()}
    return {"FedAvg": PLAIN["FedAvg"], **rules, "steps": PLAIN["steps"], "SCAFFOLD": PLAIN["SCAFFOLD"]}


def run(specs, trace):
    """Return all versions of each learner, and the learner."""
    batched = learner(specs, rounds=len(trace))
    versions = {name: [batched.version(lane)] for lane, name in enumerate(specs)}
    for result in trace:
        batched.step([result])
        for lane, name in enumerate(specs):
            versions[name].append(batched.version(lane))
    return versions, batched


def own_models(batched, specs, name):
    lane = [*specs].index(name)
    return batched._devices.own_models(batched._versions.newest[lane], lane)[:, :-1].numpy()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("trace", TRACES)
def test_versions_and_own_models_are_those_of_the_papers(trace, server):
    aggregation, of_server = SERVERS[server]
    specs = all_specs(aggregation)
    found, batched = run(specs, TRACES[trace])
    without = {
        name: each.model_copy(update={"device": None, "base": "newest_received"}) for name, each in specs.items()
    }
    plain, _ = run(without, TRACES[trace])
    start = plain["FedAvg"][0][:-1]
    for name, (_, device, sgd) in CASES.items():
        versions, kept = play(start, TRACES[trace], device(start), sgd, of_server)
        for round_, (version, expected) in enumerate(zip(found[name], versions, strict=True)):
            np.testing.assert_allclose(version[:-1], expected, rtol=1e-10, atol=1e-12, err_msg=f"{name}, {round_}")
        assert np.abs(versions[-1] - plain[name][-1][:-1]).max() > 1e-3 or name.startswith("ditto")
        models = own_models(batched, specs, name)
        for user, of_user in kept.items():
            model = expected_model(name, versions[-1], of_user)
            np.testing.assert_allclose(models[user], model, rtol=1e-10, atol=1e-12)
    for name in (*PLAIN, "ditto", "ditto alone"):  # as they are beside learners without rules, in all bits
        np.testing.assert_array_equal(found[name], plain[name])


def expected_model(name, version, kept):
    """Return the own model of a user that has *kept* something; the version if it has not."""
    if kept is None or name.startswith("local_momentum"):
        return version
    if name.startswith("fed"):
        return np.concatenate([version[BODY], kept])
    if name == "mixture":
        return 0.6 * version + 0.4 * kept
    return kept


class Pausing(Schedule):
    """Users that start from version 2 or 3 do not move."""

    def factors(self, versions):
        return np.where((versions == 2) | (versions == 3), 0.0, 1.0)


class PausingMomentum(Plain):
    def update(self, sgd, base, user, since, repeat, kept):
        if sgd.factor(since) == 0:
            return base, base, kept
        return Momentum().update(sgd, base, user, since, repeat, kept)


def test_a_step_size_of_0_leaves_the_momentum_as_it_is():
    """Beside a learner without a schedule, whose devices keep their momentum as without this one."""
    pausing = CASES["local_momentum"][0].model_copy(update={"schedule": Pausing()})
    steady = CASES["local_momentum of steps"][0].model_copy(update=EPOCHS | {"local_steps": None})
    found, batched = run({"pausing": pausing, "steady": steady}, TRACES["random"])
    sgd = Sgd(EPOCHS, momentum=0.8, factor=lambda version: float(version not in {2, 3}))
    start = found["pausing"][0][:-1]
    versions, kept = play(start, TRACES["random"], PausingMomentum(), sgd)
    for version, expected in zip(found["pausing"], versions, strict=True):
        np.testing.assert_allclose(version[:-1], expected, rtol=1e-10, atol=1e-12)
    rows = batched.state()["devices"][0]["kept.momentum"]
    for user, row in zip(rows["users"].tolist(), rows["rows"].numpy(), strict=True):
        np.testing.assert_allclose(row[:-1], 0.0 if kept[user] is None else kept[user], rtol=1e-8, atol=1e-10)
    alone, _ = run({"steady": steady}, TRACES["random"])
    np.testing.assert_allclose(found["steady"], alone["steady"], rtol=1e-10, atol=1e-12)


def test_the_order_of_learners_changes_nothing():
    specs = all_specs(Average())
    found, _ = run(specs, TRACES["repeats"])
    turned, _ = run(dict(reversed(specs.items())), TRACES["repeats"])
    for name, versions in found.items():
        np.testing.assert_allclose(turned[name], versions, rtol=0, atol=1e-13)


def test_learners_with_other_work_need_no_momentum():
    """Learners with another number of steps train apart from the learner whose devices keep a momentum."""
    specs = {"momentum": CASES["local_momentum"][0], "steps": PLAIN["steps"]}
    found, _ = run(specs, TRACES["random"])
    alone, _ = run({"steps": PLAIN["steps"]}, TRACES["random"])
    np.testing.assert_array_equal(found["steps"], alone["steps"])


AT_THE_SERVER = {
    "average": {},
    "fedadam": {"aggregation": Fedadam(server_lr=0.3, tau=1e-12)},  # makes a step of each rounding error
    "fedasync": {"aggregation": Fedasync(alpha=0.4)},
    "fedawe": {"aggregation": Fedawe(), "base": "last_participation"},
    "own": {"base": "own"},
    "mifa": {"aggregation": Mifa()},
}


@pytest.mark.parametrize("name", AT_THE_SERVER)
@pytest.mark.parametrize("trace", ["random", "single"])
def test_personal_layers_stay_those_of_version_0_at_the_server(name, trace):
    """Also those of the model that is evaluated, and in steps of several lanes together."""
    traces = TRACES | {"single": [a_round(index, (index % USERS, index - 1)) for index in range(1, 9)]}
    specs = {
        f"{name}, {copy}": spec(**EPOCHS, device=Fedper()).model_copy(update=AT_THE_SERVER[name]) for copy in (0, 1)
    }
    found, batched = run(specs, traces[trace])
    for versions in found.values():
        for version in versions:
            np.testing.assert_array_equal(version[HEAD], versions[0][HEAD])
        assert np.abs(versions[-1][BODY] - versions[0][BODY]).max() > 1e-2
    for reported in batched._servers.reported(batched._versions.newest).numpy():
        np.testing.assert_array_equal(reported[HEAD], versions[0][HEAD])
