"""Remedies of errors in scenarios: words of other programs, keys in the wrong section, and forms of values."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.error_messages import assert_messages

from netfl import load
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.synonyms import SYNONYMS, normalised
from netfl.errors import ScenarioError
from netfl.scenario import yaml_nodes
from netfl.scenario.key_search import KeySearch, place_remedy
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.yaml_document import ScenarioDocument, read_text

CHANNEL = base_of("network/channel")
WITH_COHERENCE = [kind for kind in list_kinds(CHANNEL) if "coherence" in find_model(CHANNEL, kind).model_fields]
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
NETWORK_DATA = {"access": {"kind": "network"}}


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
            "a.aggregation: … 'proximal' is a model of objective",
        ),
        ("partition: iid", "partition: non-iid", "partition: … did you mean 'dirichlet'?"),
        ("partition: iid", "partition: {kind: Non IID}", "partition.kind: … did you mean 'dirichlet'?"),
        ("kind: bernoulli, probability: 1", "kind: wifi", "access.kind: … 'csma_ca' is a model of mac"),
        ("kind: bernoulli, probability: 1", "kind: slotted_aloha", "access.kind: … is a model of mac"),
        ("name: x", "name: x\nfraction_fit: 1", "fraction_fit: unknown key; … access.selection"),
        ("name: x", "name: x\nclients: 4", "clients: unknown key; did you mean 'users'?"),
        ("name: x", "name: x\nnum_rounds: 4", "num_rounds: unknown key; did you mean 'rounds'?"),
        ("name: x", "name: x\ndataset: mnist", "dataset: unknown key; did you mean 'data'?"),
        ("local_steps", "epochs", "learners.a.epochs: unknown key; did you mean 'local_epochs'?"),
        (
            "lr: 0.1",
            "lr: 0.1, optimizer: sgd",
            "learners.a.optimizer: unknown key; users train by SGD … did you mean 'aggregation: average'?",
        ),
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
        ("slotted_aloha, probability: 0.1", "5g", "access.mac.kind: … 'mcs' is a model of reception"),
        ("slotted_aloha, probability: 0.1", "lte", "access.mac.kind: … 'mcs' is a model of reception"),
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
    ],
)
@pytest.mark.parametrize("section", ["", "data."])
def test_misplaced_key_is_found_in_the_models(key, section, place):
    assert place_remedy(section + key, Scenario, data=NETWORK_DATA) == f"write it as {place}"


BAND = YAML(typ="safe").load(NETWORK) | {"learners": {"a": {"aggregation": "average"}}, "partition": "iid"}
BAND["access"] |= {
    "mac": {"kind": "fdma"},
    "reception": {"kind": "shannon"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "devices": {"weak": {"power": "10 dBm"}}},
    "compute": {"devices": {"weak": {"speed": 10}}},
    "energy": {"idle": "1 mW", "transmit": "1 W"},
    "round": {"kind": "first", "m": 1},
    "selection": {"kind": "uniform", "m": 2},
}
"""A network whose users share a band, with radios and energy by class."""


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        # below the section of the key
        ("access.loss", "erase", "write it as access.transport.loss"),
        ("access.fec", {"data": 2, "total": 3}, "write it as access.transport.fec"),
        ("access.retries", 1, "write it as access.transport.arq.retries"),
        ("access.power", "14 dBm", "write it as access.radio.power"),
        ("access.bandwidth", "1 MHz", "write it as access.radio.bandwidth, which has another value"),
        ("access.shares", [1], "write it as access.mac.shares"),
        ("access.gap", 2, "write it as access.reception.gap"),
        ("access.radius", "1 km", "write it as access.topology.radius"),
        ("access.m", 2, "write it as access.selection.m or access.round.m"),
        ("access.deadline", "3 s", "write it as access.round.deadline"),
        ("access.speed", 10, "write it as access.compute.speed"),
        (
            "access.devices",
            {"weak": {"power": 1}},
            "write it as access.radio.devices or access.compute.devices or access.energy.devices",
        ),
        ("access.selection.observe.airtime", "1 ms", "write it as access.selection.observe.check_in.airtime"),
        ("access.selection.check_in", {"airtime": 1}, "write it as access.selection.observe.check_in"),
        ("access.selection.battery_j", True, "write it as access.selection.observe.battery_j"),
        # beside the section, and above it
        ("access.transport.fec.loss", "erase", "write it as access.transport.loss"),
        ("access.mac.bandwidth", "1 MHz", "write it as access.radio.bandwidth, which has another value"),
        ("access.mac.power", "14 dBm", "write it as access.radio.power"),
        ("access.mac.gap", 2, "write it as access.reception.gap"),
        ("access.topology.power", "14 dBm", "write it as access.radio.power"),
        ("access.reception.power", "14 dBm", "write it as access.radio.power"),
        ("access.reception.noise_figure", "3 dB", "write it as access.radio.noise_figure"),
        ("access.radio.gap", 2, "write it as access.reception.gap"),
        ("access.radio.frequency", "1 GHz", "write it as access.channel.0.frequency or access.compute.frequency"),
        ("access.channel.0.power", "14 dBm", "write it as access.radio.power"),
        ("access.compute.transmit", "1 W", "write it as access.energy.transmit"),
        ("access.allocation.shares", [1], "write it as access.mac.shares"),
        ("access.round.staleness", 2, "write it as access.staleness"),
        ("access.round.selection", "all", "write it as access.selection, which has another value"),
        ("access.selection.deadline", "3 s", "write it as access.round.deadline"),
        ("learners.a.selection", "all", "write it as access.selection, which has another value"),
        ("learners.a.weights", [1], "write it as learners.a.aggregation.weights"),
        ("access.codec", "sign", "codec is a key of the scenario itself, beside access"),
        ("access.radio.users", 3, "users is a key of the scenario itself, beside access, which has another value"),
        ("lr", 0.1, "write it as learners.a.lr"),
        ("observe", {"age": True}, "write it as access.selection.observe"),
        # in another kind
        ("access.spreading_factor", 7, "write it as access.mac.spreading_factor (access.mac.kind: lorawan)"),
        ("access.channel.0.coherence", 1, f"coherence is a key of kind: {' or '.join(WITH_COHERENCE)}"),
        ("data.concentration", 1, "write it as partition.concentration (partition.kind: dirichlet)"),
        # another name of a key of the section
        (
            "access.radio.users",
            {"weak": {"power": 1}},
            "did you mean 'devices'? (Other radios for a class of compute.devices, by its name)",
        ),
        ("access.topology.users", {"kind": "disk"}, "did you mean 'placement'? (Positions of users, in any other way)"),
        ("access.transport.fec.parity", 2, "did you mean 'total'? (n, all packets of a block)"),
        # a word that is a value
        ("access.transport.erase", True, "erase is a value of access.transport.loss"),
        ("access.battery", {"capacity": 1}, "battery is a value of access.outages"),
        ("access.mac.round_robin", {}, "round_robin is a value of access.mac"),
    ],
)
def test_the_place_nearest_to_a_wrong_key_is_meant(key, value, remedy):
    assert place_remedy(key, Scenario, value, BAND) == remedy


SMALL = YAML(typ="safe").load(NETWORK)
"""A network with the sections that it needs, and no others."""
DIRECT = YAML(typ="safe").load(LEARNING)
"""Learners on an access that is no network."""


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        # sections that are not written
        ("access.radio.efficiency", 0.3, "write it as access.energy.efficiency"),
        ("access.reception.efficiency", 0.3, "write it as access.energy.efficiency"),
        ("access.compute.per_training", "1 J", "write it as access.energy.per_training"),
        ("access.compute.energy", 1, "write it as access.energy"),
        ("access.mac.mtu", "1 kB", "write it as access.transport.mtu"),
        ("access.topology.queue", "drop_tail", "write it as access.queue"),
        ("access.interference.margin", 3, "margin is a key of kind: capture"),
        # sections that are written
        (
            "access.radio.threshold",
            "3 dB",
            "write it as access.power_control.threshold (access.power_control.kind: truncated_inversion); "
            "access.reception.threshold has another value already",
        ),
        ("access.energy.cycles", 1e7, "write it as access.compute.cycles"),
        ("access.channel.0.noise_figure", "3 dB", "write it as access.radio.noise_figure"),
        ("access.max_attempts", 3, "write it as access.mac.max_attempts"),
        ("access.mac.deadline", "3 s", "write it as access.round.deadline"),
        ("access.downlink.broadcast_rate", 1e6, "write it as access.broadcast_rate, which has another value"),
        ("learners.a.staleness", 2, "write it as access.staleness"),
        ("learners.a.m", 3, "write it as access.selection.m; access.round.m has another value already"),
        ("learners.a.codec", "sign", "codec is a key of the scenario itself, beside learners"),
        ("access.seed", 3, "seed is a key of the scenario itself, beside access"),
        ("access.record", "all", "record is a key of the scenario itself, beside access"),
        # another kind of the same section, whose key holds such a value
        ("access.round.quorum", 0.5, "quorum is a key of kind: quorum"),
        ("access.mac.interference", ["1 nW"], "interference is a key of kind: fdma"),
        ("access.mac.interference", "sinr", "write it as access.interference"),
        # no key takes such a word, though one has this name
        ("evaluate.metric", "accuracy", ""),
        ("evaluate.metric", "hops", "write it as access.routing.metric (access.routing.kind: shortest_path)"),
    ],
)
def test_a_place_may_be_a_section_that_is_not_written(key, value, remedy):
    assert place_remedy(key, Scenario, value, SMALL) == remedy


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("mac", "tdma", "write it as access.mac (access.kind: network)"),
        ("radio", {"power": 1}, "write it as access.radio (access.kind: network)"),
        ("topology", {}, "write it as access.topology (access.kind: network)"),
        ("update_size", 1e4, "write it as access.update_size (access.kind: network)"),
        ("bandwidth", "1 MHz", "write it as access.radio.bandwidth (access.kind: network)"),
        ("access.selection.radio", {}, "write it as access.radio (access.kind: network)"),
        ("rows", 2, "write it as access.topology.rows (access.kind: network, access.topology.kind: grid)"),
        ("access.mac", "tdma", "mac is a key of kind: network"),
        ("access.energy", {}, "energy is a key of kind: network"),
        ("access.observe", {}, "write it as access.selection.observe"),
        ("access.m", 3, "write it as access.selection.m"),
        (
            "access.up",
            0.9,
            "write it as access.outages.0.up (access.kind: network, access.outages.0.kind: regional or renewal)",
        ),
    ],
)
def test_a_place_in_a_network_needs_the_network(key, value, remedy):
    assert place_remedy(key, Scenario, value, DIRECT) == remedy


@pytest.mark.parametrize("key", ["round_length", "access.round.round_length"])
def test_a_key_of_many_other_kinds_names_some_of_them(key):
    """A network has no `round_length`: the place alone would be another unknown key."""
    access = {"kind": "network", "round": {"kind": "first"}}
    remedy = "write it as access.round_length (access.kind: availability or bernoulli or bursty …)"
    assert place_remedy(key, Scenario, "1 s", {"access": access}) == remedy


@pytest.mark.parametrize(("rate", "is_meant"), [("1 Mbps", False), ("2 Mbps", True)])
def test_a_key_with_another_value_is_not_the_place_of_this_one(rate, is_meant):
    """The rate of a MAC without a radio is not that of the links behind the tower."""
    access = {
        "kind": "network",
        "topology": {"kind": "tree", "fanout": [1, 1], "rate": "2 Mbps"},
        "mac": {"kind": "slotted_aloha", "rate": rate},
    }
    remedy = place_remedy("access.mac.rate", Scenario, rate, {"access": access})
    if is_meant:
        assert remedy == "write it as access.topology.rate"
    else:
        assert remedy.startswith("write it as access.reception.rate (access.reception.kind: ")
        assert remedy.endswith("; access.topology.rate has another value already")


@pytest.mark.slow
def test_of_a_hundred_thousand_unknown_keys_few_are_searched(monkeypatch):
    """The first are explained, and the others counted; a search took 12 ms for each."""
    searched = []
    remedy = KeySearch.remedy
    monkeypatch.setattr(KeySearch, "remedy", lambda *inputs, **more: searched.append(1) or remedy(*inputs, **more))
    data = {"name": "x", "users": 4, "rounds": 3, "access": {"kind": "bernoulli", "probability": 1}}
    unknown = {f"k{number}": 1 for number in range(100_000)}
    for document in (data | unknown, data | {"access": data["access"] | unknown}):
        searched.clear()
        with pytest.raises(ScenarioError) as caught:
            validate(ScenarioDocument(document, "s.yaml"))
        assert 0 < len(searched) <= 20
        assert len(caught.value.faults) == 21
        assert "unknown key, and 99,979 more; fix the unknown keys above first" in str(caught.value)


def test_text_with_too_many_keys_is_refused_before_it_is_parsed():
    text = "name: x\n" + "".join(f"k{number}: 1\n" for number in range(2_000)) + "]"  # invalid where nobody comes
    with pytest.raises(ScenarioError, match="many:1001: more than 1,000 keys outside of all sections"):
        read_text(text, "many")


@pytest.mark.parametrize(
    ("begin", "entry", "end", "place"),
    [
        ("access:\n  mac:\n", "    k{}: 1\n", "", "many:103: access.mac"),
        ("access: {mac: {", "k{}: 1, ", "}}", "many:1: access.mac"),
        ("sweep:\n- 1\n- a:\n", "    k{}: 1\n", "", "many:104: sweep.a"),
    ],
    ids=["block", "flow", "list"],
)
def test_sections_with_too_many_keys_are_refused_before_they_are_parsed(begin, entry, end, place, monkeypatch):
    monkeypatch.setattr(yaml_nodes, "MAX_KEYS", 100)
    text = begin + "".join(map(entry.format, range(200))) + "]"  # invalid where nobody comes
    with pytest.raises(ScenarioError, match=f"{place}: more than 100 keys; check that it is a section, or write"):
        read_text(text, "many")
    read_text(begin + "".join(map(entry.format, range(100))) + end, "many")


WALK = {"kind": "random_waypoint", "speed": [1, 2]}


@pytest.mark.parametrize(
    ("base", "key", "written", "remedy"),
    [
        (
            NETWORK,
            "access.motion",
            {**WALK, "area": "1 km"},
            "area: … did you mean 'radius'? (R, the radius of the area, a disk), or did you mean 'width'?",
        ),
        (
            NETWORK,
            "access.motion",
            {"kind": "random_waypoint", "radius": 1, "leg_speed": 2},
            "leg_speed: … did you mean 'speed'? ([min, max] of a leg's speed)",
        ),
        (
            LEARNING,
            "access.selection",
            {"kind": "power_of_choice", "m": 2, "candidates": 3},
            "candidates: … did you mean 'd'? (Number of candidates in a round)",
        ),
        (
            LEARNING,
            "access.selection",
            {"kind": "power_of_choice", "m": 2, "num_candidates": 3},
            "num_candidates: … did you mean 'd'? (Number of candidates in a round)",
        ),
    ],
)
def test_a_description_tells_which_missing_key_is_meant(base, key, written, remedy):
    with pytest.raises(ScenarioError) as error:
        load(base, {key: written})
    assert_messages([str(fault) for fault in error.value.faults], [f"overrides={{'{key}': …}}: {key}.{remedy}"])


def test_a_section_that_lacks_nothing_has_no_other_key_for_a_word_of_its_descriptions():
    data = SMALL | {"access": SMALL["access"] | {"motion": {**WALK, "radius": "1 km"}}}
    assert "radius" not in place_remedy("access.motion.area", Scenario, "1 km", data)


OUTAGE = {"kind": "renewal", "nodes": "users", "down": {"distribution": "exponential", "mean": 1}}
DISTRIBUTIONS = "exponential, weibull, lognormal, gamma, pareto, uniform, hyperexponential, fixed"


@pytest.mark.parametrize(
    ("base", "key", "written", "message"),
    [
        (
            NETWORK,
            "access.outages",
            [{**OUTAGE, "up": {"mean": "1 s"}}],
            f"0.up.distribution: missing; give one of {DISTRIBUTIONS}",
        ),
        (
            NETWORK,
            "access.outages",
            [{**OUTAGE, "up": {"distribution": "normal", "mean": "1 s"}}],
            f"0.up.distribution: unknown value ('normal'); did you mean 'lognormal'? (known: {DISTRIBUTIONS})",
        ),
        (
            NETWORK,
            "access.channel",
            [{"kind": "okumura_hata", "frequency": "868 MHz", "tower_height": 30, "user_height": 2}],
            "0.area: missing; give one of large_city, small_city, suburban, open",
        ),
        (LEARNING, "access.selection", {"kind": "ranked", "m": 2}, "by: missing; give one of battery_j, snr_db, "),
        (LEARNING, "learners.a", {"objective": "erm"}, "aggregation: missing; give one of … average, "),
        (NETWORK, "access.motion", {**WALK, "radius": 1, "speed": "1 km/h"}, "speed: … write [1 km/h, 1 km/h]"),
        (NETWORK, "access.motion", {**WALK, "radius": 1, "speed": 1}, "speed: … write [1, 1]"),
    ],
)
def test_missing_and_wrong_words_come_with_those_that_exist(base, key, written, message):
    with pytest.raises(ScenarioError) as error:
        load(base, {key: written})
    assert_messages([str(error.value.faults[0])], [f"overrides={{'{key}': …}}: {key}.{message}"])


@pytest.mark.parametrize(
    ("by", "remedy"),
    [
        ("snr_db", "use access.kind: network, with access.radio and access.channel, or use another selection"),
        ("distance_m", "use access.kind: network, or use another selection"),
    ],
)
def test_a_remedy_names_parts_that_the_access_can_have(by, remedy):
    with pytest.raises(ScenarioError) as error:
        load(LEARNING, {"access.selection": {"kind": "ranked", "by": by, "m": 2}})
    [message] = [str(fault) for fault in error.value.faults]
    place = "overrides={'access.selection': …}: access.selection: "
    assert_messages([message], [f"{place}needs {by} … ('ranked'); {remedy}"])


@pytest.mark.parametrize(
    ("key", "written", "remedy"),
    [
        ("access.channel", [{"kind": "trace", "path": "gains.csv"}], "access.channel.0.path: … did you mean 'file'?"),
        (
            "access.outages",
            [{"kind": "battery", "capacity": "1 J", "per_training": 1}],
            "access.outages.0.per_training: … write it as access.energy.per_training",
        ),
        ("access.interference", {"kind": "capture", "threshold": 3}, "threshold: … did you mean 'margin'?"),
        ("codec", {"kind": "qsgd", "levels": 4}, "codec.levels: … did you mean 'bits_per_parameter'?"),
    ],
)
def test_another_name_of_a_key_that_is_missing_is_one_error(key, written, remedy):
    with pytest.raises(ScenarioError) as error:
        load(LEARNING if key == "codec" else NETWORK, {key: written})
    assert_messages([str(fault) for fault in error.value.faults], [f"overrides={{'{key}': …}}: … {remedy}"])


def test_decimal_comma_in_braces_is_named():
    with pytest.raises(ScenarioError, match=r"learners\.a\.5: unknown key; write a decimal point, as in 0\.5"):
        load(changed(LEARNING, "lr: 0.1", "lr: 0,5"))


def test_synonyms_are_normalised_and_lead_to_words_of_scenarios():
    assert all(word == normalised(word) for word in SYNONYMS)
    known = {kind for family in FAMILIES for kind in list_kinds(base_of(family))}
    known |= set(
        re.findall(
            r'"(\w+)": \{', (Path(__file__).parents[2] / "scenarios" / "schema.json").read_text(encoding="utf-8")
        )
    )
    for words in SYNONYMS.values():
        assert [word for word in words if word not in known] == []


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


@pytest.mark.parametrize(
    ("channel", "remedy"),
    [
        ("{kind: dual slope}", "access.channel.0.kind: no such channel: 'dual slope'; did you mean 'log_distance'?"),
        ("{kind: two-slopes}", "access.channel.0.kind: no such channel: 'two-slopes'; did you mean 'log_distance'?"),
        ("{kind: breakpoint}", "access.channel.0.kind: no such channel: 'breakpoint'; did you mean 'log_distance'?"),
        (
            "{kind: log_distance, exponent: 2, frequency: 2 GHz, two_slopes: [2, 4]}",
            "access.channel.0.two_slopes: unknown key; did you mean 'breakpoints'?",
        ),
    ],
)
def test_path_losses_with_several_slopes_are_those_with_breakpoints(channel, remedy):
    with pytest.raises(ScenarioError) as error:
        load(changed(NETWORK, "{kind: free_space, frequency: 868 MHz}", channel))
    assert remedy in str(error.value)
