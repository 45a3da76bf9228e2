"""Payloads: what each aggregation and objective sends, by hand count and by what its rule exchanges."""

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML
from support.payload_scenarios import BITS, LEARNER, PARAMETERS, learners_of, learning
from support.plugin_payloads import Forgetful

import netfl
from netfl.core.descriptions import example
from netfl.core.family_members import find_model
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.objective import Objective
from netfl.learning.rule_draws import RuleDraws
from netfl.streams import Streams
from netfl.types import SERVER, Payload

USERS, SIZE = 6, 7
DIRECT = {"kind": "bernoulli", "probability": 0.5}
CVAR = {"kind": "cvar", "alpha": 0.5, "lr_t": 0.01}


def made(base, kind):
    """Return the model of the example in its docstring."""
    model = find_model(base, kind)
    return model.model_validate({k: v for k, v in YAML(typ="safe").load(example(model)).items() if k != "kind"})


RULES = {kind: made(Aggregation, kind) for kind in list_kinds(Aggregation)} | {
    "fedavgm of scaffold": Fedavgm(inner=Scaffold()),
    "fedadam of fedavgm of scaffold": Fedadam(server_lr=0.1, inner=Fedavgm(inner=Scaffold())),
}


def exchange(rule):
    """Return the numbers that users of *rule* return and receive beside the model, from what its methods do.

    The server sends its message.  A user keeps a vector if its drift depends on it: users with the same message then
    have other drifts.  It returns the change of that vector if the message is made of those of all users.
    """
    current = torch.linspace(-1.0, 1.0, SIZE)
    first = state = rule.open(USERS, current)
    first_message = rule.message(first)
    first_message = None if first_message is None else first_message.clone()
    message = first_message
    for index, user in ((1, 0), (2, 1), (3, 0)):
        updates = Updates(
            round=index,
            users=torch.tensor([user]),
            base_rounds=torch.tensor([index - 1]),
            bases=current[None].clone(),
            models=current[None] + 0.1 * (index + user) * torch.arange(1.0, SIZE + 1),
            samples=torch.ones(1),
            steps=torch.ones(1),
            rates=torch.ones(1, 2),
            newest_rates=torch.ones(2),
            losses=torch.ones(1) if rule.needs_losses else None,
            messages=None if message is None else message[None].clone(),
            links={name: torch.ones(1) for name in rule.reads_links},
            draws=RuleDraws(Streams(0), SERVER, index, current),
            not_summed=torch.zeros(0, SIZE) if rule.reads_not_summed else None,
        )
        current, state = rule.step(state, current, updates)
        message = rule.message(state)
    downlink = 0 if message is None or message.numel() <= 1 else message.numel()
    sent = None if message is None else message.expand(USERS, *message.shape)
    drift = rule.drift(state, torch.arange(USERS), sent)
    keeps_vector = drift is not None and bool((drift != drift[-1]).any())
    is_shared = message is not None and bool((message != first_message).any())
    return (drift.shape[1] if keeps_vector and is_shared else 0), downlink


@pytest.mark.parametrize("name", RULES)
def test_aggregations_state_what_they_exchange(name):
    rule = RULES[name].with_examples(np.ones(USERS, np.int64))
    assert (rule.uplink_extra(SIZE), rule.downlink_extra(SIZE)) == exchange(rule)


def test_the_exchange_of_a_rule_is_found_without_its_statement():
    assert exchange(Scaffold()) == (SIZE, SIZE)
    assert exchange(Fedadam(server_lr=0.1, inner=Scaffold())) == (SIZE, SIZE)
    assert exchange(Forgetful()) == (0, SIZE)
    assert exchange(Average()) == (0, 0)


@pytest.mark.parametrize("kind", list_kinds(Objective))
def test_objectives_send_t_or_nothing(kind):
    objective = made(Objective, kind)
    h = {
        name: value if isinstance(value, bool) else torch.full((2,), value) for name, value in objective.hyper().items()
    }
    losses, share = torch.tensor([[0.5, 1.0], [3.0, 1.5]]), torch.full((2, 2), 0.5)
    changes_t = objective.gradient_weights(losses, share, torch.ones(2), h)[1].any()
    assert bool(changes_t) == (objective.t_rate > 0)


def payloads(learners, **keys):
    return {name: (each.uplink_bits, each.downlink_bits) for name, each in netfl.load(
        learning(DIRECT, learners) | keys
    ).payloads.items()}  # fmt: skip


def test_scaffold_sends_twice_the_model_by_hand():
    found = payloads(learners_of(A="average", B="scaffold", C={"kind": "fedavgm", "inner": "scaffold"}))
    assert (PARAMETERS, BITS) == (2 * 2 + 2, 192)
    assert found == {"A": (192.0, 192.0), "B": (384.0, 384.0), "C": (384.0, 384.0)}
    scenario = netfl.load(learning(DIRECT, learners_of(A="average", B="scaffold")))
    assert scenario.largest_payload == Payload(384.0, 384.0)
    assert scenario.update_bits == 384.0


def test_t_counts_for_all_learners_and_twice_with_control_variates():
    learners = learners_of(A="average", B="scaffold") | {"C": LEARNER | {"objective": CVAR}}
    assert payloads(learners) == {"A": (224.0, 224.0), "B": (448.0, 448.0), "C": (224.0, 224.0)}
    equal = {"A": LEARNER, "C": LEARNER | {"objective": CVAR}}
    assert payloads(equal) == {"A": (224.0, 224.0), "C": (224.0, 224.0)}


def test_buffers_have_no_control_variates():
    rows = {"examples": (np.zeros((40, 4), np.float32), np.arange(40) % 3)}
    model = {"kind": "module", "module": "support.training_modules:Normed"}
    parameters, buffers = (4 * 6 + 6) + 2 * 6 + (6 * 3 + 3), 2 * 6
    found = payloads(learners_of(A="average", B="scaffold"), data=rows, model=model)
    assert found["A"] == (32.0 * (parameters + buffers),) * 2
    assert found["B"] == (32.0 * (2 * parameters + buffers),) * 2


def test_the_rules_of_a_trace_have_the_sizes_of_their_access_contexts():
    from netfl.simulation.setup import access_context

    scenario = netfl.load(learning(DIRECT, learners_of(A="average", B="support.plugin_payloads:Stated")))
    context = access_context(scenario, 0)
    assert (context.uplink_bits, context.downlink_bits) == (BITS, 2 * BITS)


def check(aggregation):
    from netfl.simulation.dry_run import run_dry

    run_dry(netfl.load(learning(DIRECT, learners_of(A=aggregation))))


def test_a_message_that_is_not_counted_is_an_error():
    check("support.plugin_payloads:Stated")
    with pytest.raises(ScenarioError, match=r"learners.A.aggregation: its method 'message' sends 7 numbers, but 'dow"):
        check("support.plugin_payloads:Forgetful")
    with pytest.raises(ScenarioError, match=r"learners.A.aggregation.inner: its method 'message' sends 7 numbers"):
        check({"kind": "fedavgm", "inner": "support.plugin_payloads:Forgetful"})


@pytest.mark.parametrize(
    ("extra", "problem"),
    [("", "fails for 1000 parameters: LookupError"), (-1, "gives -1"), (0.5, "gives 0.5")],
)
def test_a_wrong_statement_of_a_rule_is_a_located_error(extra, problem):
    rule = {"kind": "support.plugin_payloads:Vague", "extra": extra}
    with pytest.raises(ScenarioError, match=f"learners.A.aggregation: its method 'uplink_extra' {problem}"):
        netfl.load(learning(DIRECT, learners_of(A=rule)))


def test_a_model_whose_buffers_cannot_be_counted_is_a_located_error():
    digits = {"data": {"kind": "digits"}, "model": {"kind": "support.plugin_models:Linear", "fault": "module"}}
    netfl.load(learning(DIRECT, learners_of(A="average")) | digits)  # only a run opens it
    with pytest.raises(ScenarioError, match="model: its buffers cannot be counted: TypeError"):
        netfl.load(learning(DIRECT, learners_of(A="scaffold")) | digits)
