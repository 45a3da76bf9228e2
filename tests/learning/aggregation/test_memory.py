"""State of aggregations: memory, edge cases, and settings that they reject."""

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
from netfl.learning.aggregation.ca_fed import CaFed
from netfl.learning.aggregation.climb import Climb
from netfl.learning.aggregation.f3ast import F3ast
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.qfedsgd import Qfedsgd
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.aggregation.superquantile import Superquantile
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
    "fedstale": Fedstale(weights="equal"),
    "f3ast": F3ast(weights="equal"),
    "qfedavg": Qfedavg(q=1),
    "qfedsgd": Qfedsgd(q=1),
    "afl": Afl(lr_lambda=0.1),
    "superquantile": Superquantile(alpha=0.5),
    "climb": Climb(primal_rounds=2),
    "ca_fed": CaFed(b=0.1),
    "scaffold": Scaffold(),
    "fedavgm": Fedavgm(),
    "fedadam": Fedadam(server_lr=0.1),
    "fedadam of scaffold": Fedadam(server_lr=0.1, inner=Scaffold()),
    "fedavgm of fedadam of mifa": Fedavgm(inner=Fedadam(server_lr=0.1, inner=Mifa())),
}
TABLES = {
    "mifa": "last",
    "fedvarp": "last",
    "fedstale": "last",
    "scaffold": "last",
    "fedadam of scaffold": "inner.last",
    "fedavgm of fedadam of mifa": "inner.inner.last",
}


def all_rows(rows):
    """Return a copy of the rows of all users."""
    return rows[torch.arange(USERS)]


def random_updates(index, users, seed=0, losses=None):
    """Draw updates of *users* in round *index*."""
    rng, count = np.random.default_rng([seed, index]), len(users)
    bases, models, messages = torch.tensor(rng.normal(size=(3, count, SIZE)))
    rates, newest_rates = torch.tensor(rng.uniform(0.1, 1, (count, 2))), torch.tensor(rng.uniform(0.1, 1, 2))
    user_losses = torch.tensor(rng.uniform(0.5, 2, count)) if losses is None else torch.tensor(losses).double()
    steps, samples = torch.full((count,), 3.0).double(), torch.ones(count).double()
    base_rounds = torch.zeros(count).long()
    return Updates(
        index,
        torch.tensor(users),
        base_rounds,
        bases,
        models,
        samples,
        steps,
        rates,
        newest_rates,
        user_losses,
        messages,
    )


NOW = torch.tensor([0.3, 0.2], dtype=torch.float64)


def open_state(rule):
    current = torch.zeros(SIZE, dtype=torch.float64)
    return rule.open(USERS, current), current


@pytest.mark.parametrize("rule", TABLES)
def test_the_memory_of_users_is_updated_in_place(rule):
    state, current = open_state(RULES[rule])
    place = state[TABLES[rule]].table.data_ptr()
    for index, users in enumerate([[0, 3], [1], [3, 3]], start=1):
        current, state = RULES[rule].step(state, current, random_updates(index, users))
        current, state = RULES[rule].idle(state, current, index, NOW)
        assert state[TABLES[rule]].table.data_ptr() == place
    assert all_rows(state[TABLES[rule]]).count_nonzero(1).bool().tolist() == [True, True, False, True, False, False]


@pytest.mark.parametrize("rule", RULES)
def test_memory_counts_the_numbers_in_the_state(rule):
    """The count is for a large model with many users, except a few numbers per user."""
    users, parameters = 40, 500
    probability = {"probability": (0.5,) * users} if rule == "known_participation" else {}
    aggregation = RULES[rule].model_copy(update=probability)
    state = aggregation.open(users, torch.zeros(parameters + 1))
    stored = sum(getattr(part, "table", part).numel() for part in state.values())
    assert 0 <= stored - aggregation.memory(users, parameters) <= 4 * users + 1


@pytest.mark.parametrize("losses", [[1e8, 1e7, 2e-5], [3e-8, 2e-8, 1e-9]])
def test_qfedavg_powers_neither_overflow_nor_underflow(losses):
    """F^60 is 10^480 or 10^-480, so use fractions: h = q F^(q-1) |Δ|² L² + F^q L without t, with L = 1 / lr."""
    updates, current = random_updates(1, [0, 1, 2], losses=losses), torch.zeros(SIZE, dtype=torch.float64)
    following, _ = Qfedavg(q=60).step({}, current, updates)
    changes = [[Fraction(x) for x in row] for row in (updates.models - updates.bases).tolist()]
    scales = [1 / Fraction(rate) for rate in updates.rates[:, 0].tolist()]
    powers = [(Fraction(loss) + Fraction(1e-10)) for loss in losses]
    scaled_h = [
        60 * loss**59 * sum(x * x for x in change[:-1]) * scale**2 + loss**60 * scale
        for loss, change, scale in zip(powers, changes, scales, strict=True)
    ]
    for entry, value in enumerate(following.tolist()):
        moved = sum(
            loss**60 * scale * change[entry] for loss, change, scale in zip(powers, changes, scales, strict=True)
        )
        assert value == pytest.approx(float(moved / sum(scaled_h)), rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_steps_change_only_the_state(rule):
    """The current version, the updates and earlier messages keep their values."""
    state, current = open_state(RULES[rule])
    for index in range(1, 4):
        updates, before, sent = (
            random_updates(index, [index, 0][: 1 if rule == "relay" else 2]),
            current.clone(),
            RULES[rule].message(state),
        )
        kept = {name: getattr(updates, name).clone() for name in ("models", "bases", "messages", "losses", "rates")}
        message = None if sent is None else sent.clone()
        following, state = RULES[rule].step(state, current, updates)
        assert torch.equal(current, before)
        assert all(torch.equal(getattr(updates, name), values) for name, values in kept.items())
        assert message is None or torch.equal(sent, message)
        current = following


@pytest.mark.parametrize("rule", [Mifa(), Fedvarp(), Scaffold()], ids=repr)
def test_the_later_of_two_updates_is_kept(rule):
    """The stored mean is the mean of the stored rows."""
    state, current = open_state(rule)
    _, state = rule.step(state, current, random_updates(1, [2, 4]))
    before, updates = all_rows(state["last"]), random_updates(2, [4, 2, 2])
    _, state = rule.step(state, current, updates)
    last = all_rows(state["last"])
    rows = updates.models - updates.bases
    rates = torch.cat([updates.rates[:, :1].expand(-1, SIZE - 1), updates.rates[:, 1:]], 1)
    if isinstance(rule, Mifa):
        rows = -rows / rates
    if isinstance(rule, Scaffold):
        rows = before[updates.users] - updates.messages - rows / (3 * rates)
    assert last[2].numpy() == pytest.approx(rows[2].numpy(), abs=1e-14)
    assert last[4].numpy() == pytest.approx(rows[0].numpy(), abs=1e-14)
    assert state["mean"].numpy() == pytest.approx(last.mean(0).numpy(), abs=1e-14)


def test_mifa_applies_the_step_size_of_the_round():
    """One of six users delivers with steps of 0.5 on θ and 0.25 on t.

    The rounds then have other steps, one of them 0.
    """
    updates = random_updates(1, [2])
    updates.rates[:] = torch.tensor([0.5, 0.25])
    changes = (updates.models - updates.bases)[0].numpy()
    for rates, shares in (((0.5, 0.25), (1, 1)), ((0.1, 0.05), (0.2, 0.2)), ((0.1, 0.0), (0.2, 0.0))):
        expected = 3 / USERS * changes * np.repeat(shares, (SIZE - 1, 1))
        newest_rates, (state, current) = torch.tensor(rates, dtype=torch.float64), open_state(Mifa(server_lr=3))
        moved, after = Mifa(server_lr=3).step(state, current, replace(updates, newest_rates=newest_rates))
        idle_version, _ = Mifa(server_lr=3).idle(after, current, 2, newest_rates)
        assert moved.numpy() == pytest.approx(expected, abs=1e-14)
        assert idle_version.numpy() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("newest_rates", [(0.3, 0.2), (0.0, 0.0)])
def test_fedvarp_stores_changes_unscaled(newest_rates):
    state, current = open_state(Fedvarp())
    updates = replace(random_updates(1, [2]), newest_rates=torch.tensor(newest_rates))
    _, state = Fedvarp().step(state, current, updates)
    moved, _ = Fedvarp().idle(state, current, 2, torch.tensor(newest_rates))
    assert moved.numpy() == pytest.approx((updates.models - updates.bases)[0].numpy() / USERS, abs=1e-14)


@pytest.mark.parametrize("rule", [Mifa(), Scaffold()], ids=repr)
def test_a_fixed_t_has_no_entry(rule):
    state, current = open_state(rule)
    updates = random_updates(1, [0, 1])
    updates.rates[0, 1] = 0
    updates.messages[:, -1] = 0
    _, state = rule.step(state, current, updates)
    last = all_rows(state["last"])
    assert last[0, -1] == 0
    assert last[1, -1] != 0
    assert last.isfinite().all()


@pytest.mark.parametrize("rule", [Mifa(), Scaffold(), Qfedavg(q=1)], ids=repr)
def test_a_step_size_of_0_gives_finite_versions(rule):
    """User 0 has not moved.  SCAFFOLD knows its gradient as before, and MIFA none; q-FedAvg has no step."""
    state, current = open_state(rule)
    moving = random_updates(1, [0, 1])
    current, state = rule.step(state, current, moving)
    before = all_rows(state["last"]) if "last" in state else None
    updates = random_updates(2, [0, 1])
    updates.rates[0] = 0
    updates.models[0] = updates.bases[0]
    following, state = rule.step(state, current, updates)
    assert following.isfinite().all()
    if isinstance(rule, Qfedavg):
        assert torch.equal(following, current)
    else:
        last = all_rows(state["last"])
        expected = before[0] if isinstance(rule, Scaffold) else torch.zeros(SIZE)
        assert torch.equal(last[0], expected.double())
        assert last[1].isfinite().all()
        assert not torch.equal(last[1], before[1])


def test_the_weights_of_afl_stay_on_the_simplex():
    """Losses of any size give the nearest point of the simplex, sometimes with a single positive weight."""
    rng, rule = np.random.default_rng(0), Afl(lr_lambda=0.3)
    state, current = open_state(rule)
    support_sizes = set()
    for index in range(1, 200):
        users = rng.integers(USERS, size=rng.integers(1, 5)).tolist()
        losses = rng.exponential(10 ** rng.uniform(-3, 1.5), len(users))
        raised = state["weights"].numpy().copy()
        np.add.at(raised, users, 0.3 * losses)
        current, state = rule.step(state, current, random_updates(index, users, losses=losses))
        weights = state["weights"].numpy()
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert weights == pytest.approx(nearest_on_simplex(raised), abs=1e-12)
        support_sizes.add(int((weights > 0).sum()))
    assert {1, USERS} <= support_sizes


@pytest.mark.parametrize(("weights", "moved"), [("lambda", 0.0), ("share", 0.5), ("equal", 0.5)])
def test_afl_with_deliveries_of_weight_0(weights, moved):
    """Users 1 and 2 have λ = 0 and changes of 1 and 0: their share is 1/2 each."""
    rule = Afl(lr_lambda=0.1, weights=weights)
    state, current = open_state(rule)
    state = {**state, "weights": torch.eye(USERS, dtype=torch.float64)[0]}
    updates = random_updates(1, [1, 2], losses=[0.0, 0.0])
    changes = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    following, _ = rule.step(state, current, replace(updates, models=updates.bases + changes))
    assert following.numpy() == pytest.approx(np.full(SIZE, moved))


@pytest.mark.parametrize("weights", ["share", "equal"])
def test_normalised_weights_of_afl_depend_on_the_other_deliveries(weights):
    rule = Afl(lr_lambda=0.1, weights=weights)
    assert not rule.has_user_weights
    assert rule.user_weights(open_state(rule)[0]) is None


def test_fedvarp_keeps_its_version_in_an_empty_round():
    rule = Fedvarp(empty_round="keep")
    current, state = rule.step(*open_state(rule), random_updates(1, [0, 2]))
    following, after = rule.idle(state, current, 2, NOW)
    assert torch.equal(following, current)
    assert after is state
    moved, _ = Fedvarp().idle(state, current, 2, NOW)
    assert (moved - current).numpy() == pytest.approx(state["mean"].numpy())


def test_afl_counts_idle_rounds_in_its_mean():
    rule = Afl(lr_lambda=0.1)
    state, current = open_state(rule)
    assert torch.equal(rule.reported(state, current), current)
    versions = []
    for index, users in enumerate([[], [0], [], [], [1, 1]], start=1):
        following = (
            rule.step(state, current, random_updates(index, users)) if users else rule.idle(state, current, index, NOW)
        )
        current, state = following
        versions.append(current.numpy())
    assert rule.reported(state, current).numpy() == pytest.approx(np.mean(versions, axis=0), abs=1e-14)


def test_user_weights_scale_the_next_change():
    """A change of 1 by one user moves the version by η/N times the user's weight."""
    known_participation = KnownParticipation(probability=(0.9, 0.5, 0.3, 0.05, 0.4, 1.0))
    shares = (3, 1, 2, 5, 4, 2)
    f3ast = F3ast(beta=0.1, weights=shares, divisor=2)
    for rule in (known_participation, Fedau(cutoff=3), AverageAll(), Afl(lr_lambda=0.2), f3ast):
        state, current = open_state(rule)
        for index, users in enumerate([[0], [], [0, 3], [], [], [], [0, 1]], start=1):
            current, state = (
                rule.step(state, current, random_updates(index, users))
                if users
                else rule.idle(state, current, index, NOW)
            )
        weights = rule.user_weights(state)
        assert rule.has_user_weights
        assert weights.shape == (USERS,)
        for user in range(USERS):
            updates = random_updates(8, [user])
            moved = rule.step(state, current, updates)[0] - current
            expected = weights[user].item() / USERS * (updates.models - updates.bases)[0]
            assert moved.numpy() == pytest.approx(expected.numpy(), abs=1e-14)


def test_user_weights_of_fedau_by_hand():
    """User 0 delivers in rounds 1, 3 and 7, user 3 in round 3, user 1 never; the cutoff of 3 ends intervals."""
    state, current = open_state(Fedau(cutoff=3))
    for index, users in enumerate([[0], [], [0, 3], [], [], [], [0]], start=1):
        rule = Fedau(cutoff=3)
        current, state = (
            rule.step(state, current, random_updates(index, users)) if users else rule.idle(state, current, index, NOW)
        )
    weights = Fedau(cutoff=3).user_weights(state).tolist()
    assert weights[0] == (1 + 2 + 3 + 1) / 4
    assert weights[3] == 3.0
    assert weights[1] == 3.0


@pytest.mark.parametrize("rule", ["relay", "average", "mifa", "fedvarp", "qfedavg", "scaffold"])
def test_rules_that_depend_on_other_users_have_no_user_weights(rule):
    for aggregation in (RULES[rule], Fedavgm(inner=RULES[rule])):
        assert not aggregation.has_user_weights
        assert aggregation.user_weights(open_state(aggregation)[0]) is None


def test_optimisers_forward_to_the_inner_aggregation():
    outer, inner = Fedavgm(inner=Scaffold()), Scaffold()
    (outer_state, current), (inner_state, _) = open_state(outer), open_state(inner)
    updates = random_updates(1, [0, 1])
    _, outer_state = outer.step(outer_state, current, updates)
    _, inner_state = inner.step(inner_state, current, updates)
    assert torch.equal(outer.message(outer_state), inner.message(inner_state))
    drifts = [
        rule.drift(state, updates.users, updates.messages)
        for rule, state in ((outer, outer_state), (inner, inner_state))
    ]
    assert torch.equal(*drifts)
    assert not inner.needs_losses
    assert Fedavgm(inner=Qfedavg(q=1)).needs_losses
    state, _ = open_state(Fedavgm(inner=Fedau()))
    assert Fedavgm(inner=Fedau()).user_weights(state).tolist() == [1.0] * USERS
    assert Fedavgm(inner=Fedau()).has_user_weights
    assert Fedavgm().message(open_state(Fedavgm())[0]) is None


@pytest.mark.parametrize("optimiser", [Fedavgm(), Fedadam(server_lr=0.1)])
def test_an_idle_round_moves_an_optimiser_only_if_it_moves_the_inner_rule(optimiser):
    for inner, moves_when_idle in ((Average(), False), (Fedau(), False), (Mifa(), True), (Fedvarp(), True)):
        rule = optimiser.model_copy(update={"inner": inner})
        state, current = open_state(rule)
        current, state = rule.step(state, current, random_updates(1, [0, 1]))
        following, after = rule.idle(state, current, 2, NOW)
        assert torch.equal(following, current) is not moves_when_idle
        assert (
            all(torch.equal(after[name], values) for name, values in state.items() if "." not in name)
            is not moves_when_idle
        )
    assert (
        rule.model_copy(update={"inner": Fedau()})
        .idle(open_state(Fedavgm(inner=Fedau()))[0], current, 1, NOW)[1]["inner.lasting"]
        .tolist()
        == [1] * USERS
    )


@pytest.mark.parametrize("kind", ["fedavgm", "fedadam"])
def test_optimisers_reject_rules_that_report_another_model(kind):
    optimiser = {"fedavgm": Fedavgm, "fedadam": Fedadam}[kind]
    with pytest.raises(ValidationError, match="reports a model that differs from its versions"):
        optimiser.model_validate({"inner": {"kind": "afl", "lr_lambda": 0.1}, "server_lr": 0.1})


def problems_of(rule, **options):
    return [str(error) for error in spec(aggregation=rule, **options).faults(ScenarioFacts(users=6, rounds=2))]


ONE_STEP = {"batch_size": "full", "local_steps": 1}


def test_scaffold_rejects_momentum():
    (problem,) = problems_of(Scaffold(), local_steps=3, momentum=0.9)
    assert problem == (
        "aggregation.kind: scaffold computes a user's mean gradient from its change, which momentum distorts "
        "('scaffold'); leave momentum out, or use it at the server: 'fedavgm' with inner: scaffold"
    )
    (problem,) = problems_of(Fedavgm(inner=Fedadam(server_lr=0.1, inner=Scaffold())), momentum=0.9, local_steps=3)
    assert problem.startswith("aggregation.inner.inner.kind: scaffold computes")
    for objective in (Cvar(alpha=0.5, lr_t=0.1), Proximal(mu=1)):
        assert problems_of(Scaffold(), objective=objective, weight_decay=0.1, local_steps=3) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"batch_size": 8, "local_steps": 1}, "one step on all examples"),
        ({"batch_size": "full", "local_steps": 2}, "give batch_size: full and local_steps: 1"),
        ({"batch_size": "full", "local_epochs": 2}, "or use 'qfedavg'"),
        (ONE_STEP | {"objective": Cvar(alpha=0.5, lr_t=0.1)}, "needs the gradient of the mean loss"),
        (ONE_STEP | {"objective": Proximal(mu=1)}, "use the objective 'erm'"),
        (ONE_STEP | {"weight_decay": 0.1}, "without weight_decay"),
    ],
)
def test_qfedsgd_needs_gradients(options, expected):
    (problem,) = (problem for problem in problems_of(Qfedsgd(q=1), **options) if problem.startswith("aggregation"))
    assert expected in problem
    assert not any(problem.startswith("aggregation") for problem in problems_of(Qfedavg(q=1), **options))


@pytest.mark.parametrize(
    ("amount", "is_single"),
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
def test_options_without_effect_on_a_single_step(amount, is_single):
    """Momentum and the proximal term do not change the version, which is an error."""
    problems = {"momentum": problems_of(Average(), momentum=0.9, **amount)}
    problems["pull"] = problems_of(Average(), objective=Proximal(mu=1), **amount)
    specs = {"plain": spec(**amount), "momentum": spec(momentum=0.9, **amount), "pull": spec(Proximal(mu=1), **amount)}
    batched = learner(specs)
    batched.step([a_round(1, (0, 0), (3, 0))])
    for lane, name in enumerate(specs):
        close = np.allclose(batched.version(lane), batched.version(0), rtol=1e-12, atol=1e-13)
        assert close is (is_single or name == "plain"), name
    if not is_single:
        assert problems == {"momentum": [], "pull": []}
        return
    ((momentum,), (pull,)) = problems.values()
    assert momentum.startswith(
        "momentum: has no effect because an update has one step, which starts without momentum (0.9); "
    )
    assert pull.startswith("objective: its proximal term has no effect: an update has one step")
    assert "use the objective 'erm'" in pull


@pytest.mark.parametrize("amount", [ONE_STEP, {"batch_size": "full", "local_epochs": 1}])
def test_one_full_batch_step_or_epoch_is_a_gradient(amount):
    assert problems_of(Qfedsgd(q=1), **amount) == []


@pytest.mark.parametrize("rule", [name for name in RULES if name != "qfedsgd"])
@pytest.mark.parametrize("objective", [None, Cvar(alpha=0.5, lr_t=0.1), Proximal(mu=1)], ids=str)
def test_other_rules_accept_any_objective(rule, objective):
    assert problems_of(RULES[rule], objective=objective) == []


@pytest.mark.parametrize(
    ("model", "settings"),
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
def test_invalid_settings_are_errors(model, settings):
    with pytest.raises(ValidationError):
        model.model_validate(settings)


def test_average_has_no_state():
    state, current = open_state(Average())
    assert state == {}
    assert Average().idle(state, current, 1, NOW) == (current, state)
