"""Remedies of errors in scenarios: words of other programs, keys in the wrong section, and forms of values."""

import pytest
from support.error_messages import assert_messages

from netfl import load
from netfl.errors import ScenarioError
from netfl.registry import FAMILIES, base_of, list_kinds
from netfl.scenario.key_search import find_paths, place_remedy
from netfl.scenario.scenario import Scenario
from netfl.synonyms import SYNONYMS, normalised

LEARNING = """
name: x
users: 4
rounds: 3
access: {kind: bernoulli, probability: 1}
data: digits
partition: iid
model: logistic
learners:
  a: {objective: erm, aggregation: average, lr: 0.1, batch_size: full, local_steps: 1}
"""
NETWORK = """
name: x
users: 4
rounds: 3
access:
  kind: network
  topology: {kind: star, radius: 1 km}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: free_space, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.1}
  compute: {speed: 100}
  update_size: 1e4
  broadcast_rate: 1e5
  round: {kind: first, m: 1}
"""


def check(text, pattern):
    """Check that the only error of a scenario matches *pattern*."""
    with pytest.raises(ScenarioError) as error:
        load(text)
    assert_messages([str(fault) for fault in error.value.faults], [f"the text: … {pattern}"])


def changed(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("aggregation: average", "aggregation: fedavg", "a.aggregation: … 'fedavg'; did you mean 'average'?"),
        ("aggregation: average", "aggregation: Adam", "a.aggregation: … did you mean 'fedadam'?"),
        (
            "aggregation: average",
            "aggregation: fedprox",
            "a.aggregation: … 'proximal' is a model of learning/objective",
        ),
        ("partition: iid", "partition: non-iid", "partition: … did you mean 'dirichlet'?"),
        ("partition: iid", "partition: {kind: Non IID}", "partition.kind: … did you mean 'dirichlet'?"),
        ("kind: bernoulli, probability: 1", "kind: wifi", "access.kind: … 'csma_ca' is a model of network/mac"),
        ("kind: bernoulli, probability: 1", "kind: slotted_aloha", "access.kind: … is a model of network/mac"),
        ("name: x", "name: x\nfraction_fit: 1", "fraction_fit: unknown key; … access.selection"),
        ("name: x", "name: x\nclients: 4", "clients: unknown key; did you mean 'users'?"),
        ("name: x", "name: x\nnum_rounds: 4", "num_rounds: unknown key; did you mean 'rounds'?"),
        ("name: x", "name: x\ndataset: mnist", "dataset: unknown key; did you mean 'data'?"),
        ("local_steps", "epochs", "learners.a.epochs: unknown key; did you mean 'local_epochs'?"),
        ("lr: 0.1", "lr: 0.1, optimizer: sgd", "learners.a.optimizer: unknown key; did you mean 'aggregation'?"),
        ("lr: 0.1", "lr: 10%", "learners.a.lr: not a number ('10%'); write 0.1"),
        ("probability: 1", "probability: '0,1'", "access.probability: … write 0.1"),
        ("users: 4", "users: 10%", "users: not a whole number ('10%'); write a whole number"),
        ("rounds: 3", "rounds: 0", "rounds: … write 1 or more"),
        ("lr: 0.1", "lr: 0", "learners.a.lr: … write more than 0"),
        ("local_steps: 1", "local_steps: 1, local_epochs: 1", "learners.a: … given together; give exactly one of"),
    ],
)
def test_learning(old, new, pattern):
    check(changed(LEARNING, old, new), pattern)


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("kind: slotted_aloha", "kind: aloha", "access.mac.kind: … did you mean 'slotted_aloha'?"),
        ("kind: slotted_aloha, probability: 0.1", "kind: wifi", "access.mac.kind: … did you mean 'csma_ca'?"),
        ("slotted_aloha, probability: 0.1", "5g", "access.mac.kind: … 'mcs' is a model of network/reception"),
        ("slotted_aloha, probability: 0.1", "lte", "access.mac.kind: … 'mcs' is a model of network/reception"),
        ("frequency: 868 MHz", "frequency: 868 MHz, coherence: 1",
         "channel.0.coherence: … coherence is a key of kind: … rayleigh"),
        ("update_size", "latency: 1 s\n  update_size", "access.latency: … write it as access.topology.delay"),
        ("[{kind: free_space, frequency: 868 MHz}]", "{kind: free_space, frequency: 868 MHz}",
         "access.channel: not a list; write [{kind: free_space, …}]"),
        ("[{kind: free_space, frequency: 868 MHz}]", "{a: {kind: free_space, frequency: 868 MHz}}",
         "access.channel: not a list; write [{kind: free_space, …}]"),
        ("radius: 1 km", "distances: '0,1'", "access.topology.distances: not a list ('0,1'); write [0, 1]"),
        ("radius: 1 km", "distances: {a: 1, b: 2}", "access.topology.distances: not a list; write [1, 2]"),
        ("radius: 1 km", "radius: '1,5 km'", "access.topology.radius: … write '1.5 km'"),
        (", radius: 1 km", "", "access.topology: none of radius, distance, … is given; give exactly one of"),
    ],
)  # fmt: skip
def test_network(old, new, pattern):
    check(changed(NETWORK, old, new), pattern)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("mac", "access.mac"),
        ("topology", "access.topology"),
        ("channel", "access.channel"),
        ("radio", "access.radio"),
        ("mobility", "access.motion"),
        ("lr", "learners.NAME.lr"),
        ("learning_rate", "learners.NAME.lr"),
        ("batch", "learners.NAME.batch_size"),
        ("local_epochs", "learners.NAME.local_epochs"),
        ("optimizer", "learners.NAME.aggregation"),
    ],
)
@pytest.mark.parametrize("section", ["", "data."])
def test_misplaced_key_is_found_in_the_models(key, section, place):
    assert place_remedy(section + key, Scenario) == f"write it as {place}"


def test_decimal_comma_in_braces_is_named():
    with pytest.raises(ScenarioError, match=r"learners\.a\.5: unknown key; write a decimal point, as in 0\.5"):
        load(changed(LEARNING, "lr: 0.1", "lr: 0,5"))


def test_synonyms_are_normalised_and_lead_to_words_of_scenarios():
    assert all(word == normalised(word) for word in SYNONYMS)
    known = set(Scenario.model_fields)
    for words in SYNONYMS.values():
        known_nowhere = [word for word in words if word not in known and not _is_known(word)]
        assert known_nowhere == []


def _is_known(word):
    return any(word in list_kinds(base_of(family)) for family in FAMILIES) or bool(find_paths(word, Scenario))


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        (
            "  transport: {grain: packet, fec: {k: 4, n: 6}}",
            "access.transport.fec.k: unknown key; did you mean 'data'?",
        ),
        (
            "  transport: {grain: packet, fec: {k: 4, n: 6}}",
            "access.transport.fec.n: unknown key; did you mean 'total'?",
        ),
        ("  topology: {kind: star, radius: 1 km, users: 4}", "users is a key of the scenario itself, beside access"),
    ],
)
def test_a_remedy_names_the_key_of_the_model_or_the_top_of_the_scenario(written, remedy):
    text = NETWORK.replace("  topology: {kind: star, radius: 1 km}\n", "") if "topology" in written else NETWORK
    with pytest.raises(ScenarioError) as error:
        load(text + written + "\n")
    assert remedy in str(error.value)
