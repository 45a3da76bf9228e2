"""What aggregations keep from round to round, what they make of the odd case, and what they do not go with."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support.learner_factory import a_round, learner, spec
from support.paper_algorithms import nearest_on_simplex

from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.qfedsgd import Qfedsgd
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.proximal import Proximal
from netfl.types import ScenarioFacts

USERS, SIZE = 6, 4
RULES = {
    "relay": Relay(),
    "average": Average(),
    "average_all": AverageAll(),
    "known_participation": KnownParticipation(probability=(0.5,) * USERS),
    "fedau": Fedau(),
    "mifa": Mifa(),
    "fedvarp": Fedvarp(),
    "qfedavg": Qfedavg(q=1),
    "qfedsgd": Qfedsgd(q=1),
    "afl": Afl(lr_lambda=0.1),
    "scaffold": Scaffold(),
    "fedavgm": Fedavgm(),
    "fedadam": Fedadam(server_lr=0.1),
    "fedadam of scaffold": Fedadam(server_lr=0.1, inner=Scaffold()),
    "fedavgm of fedadam of mifa": Fedavgm(inner=Fedadam(server_lr=0.1, inner=Mifa())),
}
TABLES = {
    "mifa": "last",
    "fedvarp": "last",
    "scaffold": "last",
    "fedadam of scaffold": "inner.last",
    "fedavgm of fedadam of mifa": "inner.inner.last",
}


def told(index, users, seed=0, losses=None):
    """Random work of *users* in round *index*."""
    rng, count = np.random.default_rng([seed, index]), len(users)
    bases, models, messages = torch.tensor(rng.normal(size=(3, count, SIZE)))
    rates, now = torch.tensor(rng.uniform(0.1, 1, (count, 2))), torch.tensor(rng.uniform(0.1, 1, 2))
    found = torch.tensor(rng.uniform(0.5, 2, count)) if losses is None else torch.tensor(losses).double()
    steps, samples = torch.full((count,), 3.0).double(), torch.ones(count).double()
    since = torch.zeros(count).long()
    return Updates(index, torch.tensor(users), since, bases, models, samples, steps, rates, now, found, messages)


NOW = torch.tensor([0.3, 0.2], dtype=torch.float64)


def parts(rule):
    current = torch.zeros(SIZE, dtype=torch.float64)
    return rule.open(USERS, current), current


@pytest.mark.parametrize("rule", TABLES)
def test_the_memory_of_users_is_changed_where_it_lies(rule):
    state, current = parts(RULES[rule])
    place = state[TABLES[rule]].data_ptr()
    for index, users in enumerate([[0, 3], [1], [3, 3]], start=1):
        current, state = RULES[rule].step(state, current, told(index, users))
        current, state = RULES[rule].idle(state, current, index, NOW)
        assert state[TABLES[rule]].data_ptr() == place
    assert state[TABLES[rule]].count_nonzero(1).bool().tolist() == [True, True, False, True, False, False]


@pytest.mark.parametrize("rule", RULES)
def test_memory_counts_what_is_kept(rule):
    """Of a large model with many users, but for a few numbers for each user."""
    users, parameters = 40, 500
    probability = {"probability": (0.5,) * users} if rule == "known_participation" else {}
    one = RULES[rule].model_copy(update=probability)
    kept = sum(part.numel() for part in one.open(users, torch.zeros(parameters + 1)).values())
    assert kept - one.memory(users, parameters) in {0, users, 2 * users, 3 * users}


@pytest.mark.parametrize("losses", [[1e8, 1e7, 2e-5], [3e-8, 2e-8, 1e-9]])
def test_fair_powers_of_losses_neither_overflow_nor_vanish(losses):
    """F^60 of 10^480, or of 10^-480: as exact fractions.  h = q F^(q-1) |Δ|² L² + F^q L, without t; L = 1 / lr."""
    updates, current = told(1, [0, 1, 2], losses=losses), torch.zeros(SIZE, dtype=torch.float64)
    following, _ = Qfedavg(q=60).step({}, current, updates)
    changes = [[Fraction(x) for x in one] for one in (updates.models - updates.bases).tolist()]
    scales = [1 / Fraction(rate) for rate in updates.rates[:, 0].tolist()]
    powers = [(Fraction(loss) + Fraction(1e-10)) for loss in losses]
    least = [
        60 * loss**59 * sum(x * x for x in one[:-1]) * scale**2 + loss**60 * scale
        for loss, one, scale in zip(powers, changes, scales, strict=True)
    ]
    for place, value in enumerate(following.tolist()):
        moved = sum(loss**60 * scale * one[place] for loss, one, scale in zip(powers, changes, scales, strict=True))
        assert value == pytest.approx(float(moved / sum(least)), rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_steps_write_into_nothing_but_the_state(rule):
    """Neither into the version and the updates, nor into what was sent with older versions."""
    state, current = parts(RULES[rule])
    for index in range(1, 4):
        updates, before, sent = (
            told(index, [index, 0][: 1 if rule == "relay" else 2]),
            current.clone(),
            RULES[rule].message(state),
        )
        kept = {name: getattr(updates, name).clone() for name in ("models", "bases", "messages", "losses", "rates")}
        message = None if sent is None else sent.clone()
        following, state = RULES[rule].step(state, current, updates)
        assert torch.equal(current, before)
        assert all(torch.equal(getattr(updates, name), one) for name, one in kept.items())
        assert message is None or torch.equal(sent, message)
        current = following


@pytest.mark.parametrize("rule", [Mifa(), Fedvarp(), Scaffold()], ids=repr)
def test_of_a_user_that_is_heard_twice_the_later_stays(rule):
    """And the mean that is kept beside the rows is theirs."""
    state, current = parts(rule)
    _, state = rule.step(state, current, told(1, [2, 4]))
    before, updates = state["last"].clone(), told(2, [4, 2, 2])
    _, state = rule.step(state, current, updates)
    rows = updates.models - updates.bases
    per = torch.cat([updates.rates[:, :1].expand(-1, SIZE - 1), updates.rates[:, 1:]], 1)
    if isinstance(rule, Mifa):
        rows = -rows / per
    if isinstance(rule, Scaffold):
        rows = before[updates.users] - updates.messages - rows / (3 * per)
    assert state["last"][2].numpy() == pytest.approx(rows[2].numpy(), abs=1e-14)
    assert state["last"][4].numpy() == pytest.approx(rows[0].numpy(), abs=1e-14)
    assert state["mean"].numpy() == pytest.approx(state["last"].mean(0).numpy(), abs=1e-14)


def test_mifa_takes_what_it_remembers_with_the_step_of_the_round():
    """One user of six, heard with a step size of 0.5 on θ and 0.25 on t; then steps of 0.1 and 0.05, and of nothing."""
    updates = told(1, [2])
    updates.rates[:] = torch.tensor([0.5, 0.25])
    changes = (updates.models - updates.bases)[0].numpy()
    for now, shares in (((0.5, 0.25), (1, 1)), ((0.1, 0.05), (0.2, 0.2)), ((0.1, 0.0), (0.2, 0.0))):
        expected = 3 / USERS * changes * np.repeat(shares, (SIZE - 1, 1))
        step, (state, current) = torch.tensor(now, dtype=torch.float64), parts(Mifa(server_lr=3))
        heard, after = Mifa(server_lr=3).step(state, current, replace(updates, newest_rates=step))
        silent, _ = Mifa(server_lr=3).idle(after, current, 2, step)
        assert heard.numpy() == pytest.approx(expected, abs=1e-14)
        assert silent.numpy() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("now", [(0.3, 0.2), (0.0, 0.0)])
def test_fedvarp_keeps_changes_as_they_were_sent(now):
    state, current = parts(Fedvarp())
    updates = replace(told(1, [2]), newest_rates=torch.tensor(now))
    _, state = Fedvarp().step(state, current, updates)
    moved, _ = Fedvarp().idle(state, current, 2, torch.tensor(now))
    assert moved.numpy() == pytest.approx((updates.models - updates.bases)[0].numpy() / USERS, abs=1e-14)


@pytest.mark.parametrize("rule", [Mifa(), Scaffold()], ids=repr)
def test_a_t_that_stays_has_no_row(rule):
    state, current = parts(rule)
    updates = told(1, [0, 1])
    updates.rates[0, 1] = 0
    updates.messages[:, -1] = 0
    _, state = rule.step(state, current, updates)
    assert state["last"][0, -1] == 0
    assert state["last"][1, -1] != 0
    assert state["last"].isfinite().all()


def test_the_weights_of_afl_stay_on_the_simplex():
    """Under losses of any size, also such as leave one user alone; and they are the nearest there."""
    rng, rule = np.random.default_rng(0), Afl(lr_lambda=0.3)
    state, current = parts(rule)
    seen = set()
    for index in range(1, 200):
        users = rng.integers(USERS, size=rng.integers(1, 5)).tolist()
        losses = rng.exponential(10 ** rng.uniform(-3, 1.5), len(users))
        risen = state["weights"].numpy().copy()
        np.add.at(risen, users, 0.3 * losses)
        current, state = rule.step(state, current, told(index, users, losses=losses))
        weights = state["weights"].numpy()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert weights == pytest.approx(nearest_on_simplex(risen), abs=1e-12)
        seen.add(int((weights > 0).sum()))
    assert {1, USERS} <= seen


def test_afl_counts_idle_rounds_in_its_mean():
    rule = Afl(lr_lambda=0.1)
    state, current = parts(rule)
    assert torch.equal(rule.reported(state, current), current)
    versions = []
    for index, users in enumerate([[], [0], [], [], [1, 1]], start=1):
        made = rule.step(state, current, told(index, users)) if users else rule.idle(state, current, index, NOW)
        current, state = made
        versions.append(current.numpy())
    assert rule.reported(state, current).numpy() == pytest.approx(np.mean(versions, axis=0), abs=1e-14)


def test_worth_says_how_much_a_change_counts_next():
    """A change of 1 of one user moves the version by η/N times its worth."""
    known = KnownParticipation(probability=(0.9, 0.5, 0.3, 0.05, 0.4, 1.0))
    for rule in (known, Fedau(cutoff=3), AverageAll(), Afl(lr_lambda=0.2)):
        state, current = parts(rule)
        for index, users in enumerate([[0], [], [0, 3], [], [], [], [0, 1]], start=1):
            current, state = (
                rule.step(state, current, told(index, users)) if users else rule.idle(state, current, index, NOW)
            )
        worth = rule.user_weights(state)
        assert rule.has_user_weights
        assert worth.shape == (USERS,)
        for user in range(USERS):
            updates = told(8, [user])
            moved = rule.step(state, current, updates)[0] - current
            expected = worth[user].item() / USERS * (updates.models - updates.bases)[0]
            assert moved.numpy() == pytest.approx(expected.numpy(), abs=1e-14)


def test_worth_of_fedau_by_hand():
    """Heard in rounds 1, 3 and 7; in round 3; never, cut at 3 after 3 and 6 rounds."""
    state, current = parts(Fedau(cutoff=3))
    for index, users in enumerate([[0], [], [0, 3], [], [], [], [0]], start=1):
        rule = Fedau(cutoff=3)
        current, state = (
            rule.step(state, current, told(index, users)) if users else rule.idle(state, current, index, NOW)
        )
    worth = Fedau(cutoff=3).user_weights(state).tolist()
    assert worth[0] == (1 + 2 + 3 + 1) / 4
    assert worth[3] == 3.0
    assert worth[1] == 3.0


@pytest.mark.parametrize("rule", ["relay", "average", "mifa", "fedvarp", "qfedavg", "scaffold"])
def test_where_it_depends_on_who_else_is_heard_there_is_no_worth(rule):
    for one in (RULES[rule], Fedavgm(inner=RULES[rule])):
        assert not one.has_user_weights
        assert one.user_weights(parts(one)[0]) is None


def test_optimisers_pass_on_what_the_other_aggregation_says():
    outer, inner = Fedavgm(inner=Scaffold()), Scaffold()
    (whole, current), (part, _) = parts(outer), parts(inner)
    updates = told(1, [0, 1])
    _, whole = outer.step(whole, current, updates)
    _, part = inner.step(part, current, updates)
    assert torch.equal(outer.message(whole), inner.message(part))
    drifts = [rule.drift(state, updates.users, updates.messages) for rule, state in ((outer, whole), (inner, part))]
    assert torch.equal(*drifts)
    assert not inner.needs_losses
    assert Fedavgm(inner=Qfedavg(q=1)).needs_losses
    state, _ = parts(Fedavgm(inner=Fedau()))
    assert Fedavgm(inner=Fedau()).user_weights(state).tolist() == [1.0] * USERS
    assert Fedavgm(inner=Fedau()).has_user_weights
    assert Fedavgm().message(parts(Fedavgm())[0]) is None


@pytest.mark.parametrize("optimiser", [Fedavgm(), Fedadam(server_lr=0.1)])
def test_an_idle_round_moves_an_optimiser_only_if_the_other_aggregation_goes_on(optimiser):
    for of, goes_on in ((Average(), False), (Fedau(), False), (Mifa(), True), (Fedvarp(), True)):
        rule = optimiser.model_copy(update={"inner": of})
        state, current = parts(rule)
        current, state = rule.step(state, current, told(1, [0, 1]))
        following, after = rule.idle(state, current, 2, NOW)
        assert torch.equal(following, current) is not goes_on
        assert all(torch.equal(after[name], one) for name, one in state.items() if "." not in name) is not goes_on
    assert (
        rule.model_copy(update={"inner": Fedau()})
        .idle(parts(Fedavgm(inner=Fedau()))[0], current, 1, NOW)[1]["inner.lasting"]
        .tolist()
        == [1] * USERS
    )


@pytest.mark.parametrize("kind", ["fedavgm", "fedadam"])
def test_optimisers_refuse_what_reports_another_model(kind):
    one = {"fedavgm": Fedavgm, "fedadam": Fedadam}[kind]
    with pytest.raises(ValidationError, match="reports a model that differs from its versions; use another one"):
        one.model_validate({"inner": {"kind": "afl", "lr_lambda": 0.1}, "server_lr": 0.1})


def misfits(rule, **how):
    return [str(fault) for fault in spec(aggregation=rule, **how).faults(ScenarioFacts(users=6, rounds=2))]


ONE_STEP = {"batch_size": "full", "local_steps": 1}


def test_scaffold_does_not_go_with_momentum():
    (said,) = misfits(Scaffold(), local_steps=3, momentum=0.9)
    assert said == (
        "aggregation.kind: scaffold computes a user's mean gradient from its change, which momentum distorts "
        "('scaffold'); leave momentum out, or use it at the server: 'fedavgm' with inner: scaffold"
    )
    (said,) = misfits(Fedavgm(inner=Fedadam(server_lr=0.1, inner=Scaffold())), momentum=0.9, local_steps=3)
    assert said.startswith("aggregation.inner.inner.kind: scaffold computes")
    for objective in (Cvar(alpha=0.5, lr_t=0.1), Proximal(mu=1)):
        assert misfits(Scaffold(), objective=objective, weight_decay=0.1, local_steps=3) == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"batch_size": 8, "local_steps": 1}, "one step on all examples"),
        ({"batch_size": "full", "local_steps": 2}, "give batch_size: full and local_steps: 1"),
        ({"batch_size": "full", "local_epochs": 2}, "or use 'qfedavg'"),
        (ONE_STEP | {"objective": Cvar(alpha=0.5, lr_t=0.1)}, "needs the gradient of the mean loss"),
        (ONE_STEP | {"objective": Proximal(mu=1)}, "use the objective 'erm'"),
        (ONE_STEP | {"weight_decay": 0.1}, "without weight_decay"),
    ],
)
def test_qfedsgd_wants_gradients(how, words):
    (said,) = (said for said in misfits(Qfedsgd(q=1), **how) if said.startswith("aggregation"))
    assert words in said
    assert not any(said.startswith("aggregation") for said in misfits(Qfedavg(q=1), **how))


@pytest.mark.parametrize(
    ("amount", "one"),
    [
        ({"batch_size": 8, "local_steps": 1}, True),
        (ONE_STEP, True),
        ({"batch_size": "full", "local_epochs": 1}, True),
        ({"batch_size": "full", "local_epochs": 2}, False),
        ({"batch_size": "full", "local_steps": 2}, False),
        ({"batch_size": 8, "local_epochs": 1}, False),
    ],
    ids=str,
)
def test_what_has_no_effect_on_a_single_step(amount, one):
    """Momentum and the pull to the base: with them the version is what it is without, and that is a fault."""
    faults = {"momentum": misfits(Average(), momentum=0.9, **amount)}
    faults["pull"] = misfits(Average(), objective=Proximal(mu=1), **amount)
    specs = {"plain": spec(**amount), "momentum": spec(momentum=0.9, **amount), "pull": spec(Proximal(mu=1), **amount)}
    made = learner(specs)
    made.step([a_round(1, (0, 0), (3, 0))])
    for lane, name in enumerate(specs):
        close = np.allclose(made.version(lane), made.version(0), rtol=1e-12, atol=1e-13)
        assert close is (one or name == "plain"), name
    if not one:
        assert faults == {"momentum": [], "pull": []}
        return
    ((momentum,), (pull,)) = faults.values()
    assert momentum.startswith(
        "momentum: has no effect because an update has one step, which starts without momentum (0.9); "
    )
    assert pull.startswith("objective: its proximal term has no effect: an update has one step")
    assert "use the objective 'erm'" in pull


@pytest.mark.parametrize("amount", [ONE_STEP, {"batch_size": "full", "local_epochs": 1}])
def test_one_step_or_one_pass_on_all_examples_is_a_gradient(amount):
    assert misfits(Qfedsgd(q=1), **amount) == []


@pytest.mark.parametrize("rule", [name for name in RULES if name != "qfedsgd"])
@pytest.mark.parametrize("objective", [None, Cvar(alpha=0.5, lr_t=0.1), Proximal(mu=1)], ids=str)
def test_all_others_go_with_any_objective(rule, objective):
    assert misfits(RULES[rule], objective=objective) == []


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (Mifa, {"server_lr": 0}),
        (Fedvarp, {"server_lr": 0}),
        (Scaffold, {"server_lr": 0}),
        (Qfedavg, {"q": -1}),
        (Qfedavg, {}),
        (Afl, {"lr_lambda": 0}),
        (Fedavgm, {"momentum": 1}),
        (Fedavgm, {"server_lr": 0}),
        (Fedadam, {}),
        (Fedadam, {"server_lr": 1, "beta1": 1}),
        (Fedadam, {"server_lr": 1, "beta2": 1}),
        (Fedadam, {"server_lr": 1, "tau": 0}),
    ],
)
def test_what_aggregations_refuse(model, wrong):
    with pytest.raises(ValidationError):
        model.model_validate(wrong)


def test_most_keep_nothing_and_say_nothing():
    state, current = parts(Average())
    assert state == {}
    assert Average().idle(state, current, 1, NOW) == (current, state)
