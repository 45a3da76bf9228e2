"""Scenario files: all errors at once, with line and remedy, and a lossless round trip."""

# ruff: noqa: E501 - an expected message is written on one line

import copy
import resource
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.error_messages import assert_messages

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.errors import ModelError, ScenarioError
from netfl.network.topology.file import File
from netfl.scenario.scenario import EventKind, Scenario, load, validate
from netfl.scenario.validation import unusual_values
from netfl.scenario.yaml_document import ScenarioDocument, dump, parse
from netfl.types import KINDS, OUTCOMES
from netfl.units import find_unit

DIRECT = """\
name: direct
users: 3
rounds: 20
access:
  kind: stationary
  rho: [0.5, 0.4, 0.1]
  deliveries: 1
"""
LEARNING = """\
data: digits
partition: iid
model: logistic
learners:
  FedAvg:
    objective: erm
    aggregation: relay
    lr: 0.1
    batch_size: 16
    local_steps: 2
  CVaR:
    objective: {kind: cvar, alpha: 0.3, gamma: 0.3, lr_t: 1e-3}
    aggregation: relay
    lr: 0.1
    batch_size: full
    local_epochs: 2
evaluate: {every: 5, rare_classes: [9]}
"""
NETWORK = """\
name: radio
users: 6
rounds: 4
access:
  kind: network
  round: {kind: first, m: 1, deadline: 10 min}
  topology: {kind: star, radius: 200 m}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel:
    - {kind: log_distance, exponent: 2.5, frequency: 868 MHz}
    - {kind: rayleigh, coherence: 1 s}
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.2}
  compute: {speed: 100}
  broadcast_rate: 50 kbps
"""
EMERGENT = NETWORK + LEARNING.replace("full", "16").replace("local_epochs", "local_steps")


@pytest.fixture
def messages_of(tmp_path, monkeypatch):
    """A function that returns the errors of a scenario text, one per line; none if it is valid."""
    monkeypatch.chdir(tmp_path)

    def messages(text, overrides=None, named=()):
        (tmp_path / "s.yaml").write_text(textwrap.dedent(text))
        try:
            load("s.yaml", overrides, named)
        except ScenarioError as error:
            return str(error).splitlines()
        return []

    return messages


def replace_text(text, *pairs):
    """Return *text* with replacements; each old text must occur."""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


LEVELS = [
    ("power: 14 dBm", "power: 0.025", "radio.power: has no unit (0.025); write '0.025 W' or '0.025 dBm'"),
    ("power: 14 dBm", "power: 14 dB", "radio.power: a value in dB instead of a value in dBm ('14 dB'); write a quantity such as '14 dBm'"),
    ("threshold: 0 dB", "threshold: 0", "reception.threshold: has no unit (0); write '0 dB'"),
    ("threshold: 0 dB", "threshold: 3", "reception.threshold: has no unit (3); write '3 dB' or, for a ratio of 3, '4.771 dB'"),
    ("frequency: 868 MHz", "frequency: 868", "channel.0.frequency: not the frequency of a radio wave in Hz (868); write a frequency between 3 kHz and 3 THz, such as '868 MHz'"),
    ("coherence: 1 s", "speed: 3, frequency: 868", "channel.1.frequency: not the frequency of a radio wave in Hz (868); write a frequency between 3 kHz and 3 THz, such as '868 MHz'"),
    ("power: 14 dBm", "power:14 dBm", "radio.power:14 dBm: unknown key; write a space after the colon: 'power: 14 dBm'"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), LEVELS, ids=[wrong for _, wrong, _ in LEVELS])
def test_number_without_unit_gets_a_suggestion(messages_of, right, wrong, message):
    found = [fault.partition(" access.") for fault in messages_of(replace_text(NETWORK, (right, wrong)))]
    assert message in [fault for _, _, fault in found]


@pytest.mark.parametrize("power", [14, "14 dB"])
def test_level_set_by_an_option_needs_a_unit(messages_of, power):
    (fault,) = messages_of(NETWORK, {"access.radio.power": power})
    assert fault.startswith(f"overrides={{'access.radio.power': {power!r}}}: access.radio.power: ")


def test_levels_are_written_with_units(messages_of):
    assert messages_of(EMERGENT) == []
    scenario = load("s.yaml", {"access.radio.power": "25 mW"})
    written = parse(scenario.to_yaml(), "n")
    assert written["access"]["radio"]["power"].endswith(" dBm")
    assert written["access"]["reception"]["threshold"] == "0.0 dB"
    assert validate(ScenarioDocument(written)) == scenario


def test_scenarios_of_these_tests_are_valid(messages_of):
    assert messages_of(DIRECT) == []
    assert messages_of(DIRECT + LEARNING) == []
    assert messages_of(EMERGENT) == []


MISTAKES = [
    ("usrs: 3", "users: 3", ["s.yaml:2: usrs: … unknown key … did you mean 'users'"]),
    ("users: many", "users: 3", ["s.yaml:2: users: not a whole number ('many'); write a whole number"]),
    ("users: 0", "users: 3", ["s.yaml:2: users: … greater than or equal to 1 … (0)"]),
    ("users: 3.5", "users: 3", ["s.yaml:2: users: … whole number … (3.5)"]),
    ("users:", "users: 3", ["s.yaml:2: users: … whole number"]),
    ("rounds: -1", "rounds: 20", ["s.yaml:3: rounds: … greater than or equal to 1 … (-1)"]),
    ("name: a/b", "name: direct", ["s.yaml:1: name: … as a name … ('a/b')"]),
    ("name: 5", "name: direct", ["s.yaml:1: name: … (5) … in quotes"]),
    ("seed: -1\nname: x", "name: direct", ["s.yaml:1: seed: … greater than or equal to 0 … (-1)"]),
    ("kind: stationry", "kind: stationary", ["s.yaml:5: access.kind: … no such access … did you mean 'stationary'"]),
    ("deliveris: 1", "deliveries: 1", ["s.yaml:7: access.deliveris: … unknown key … did you mean 'deliveries'"]),
    ("deliveries: 9", "deliveries: 1", ["s.yaml:7: access.deliveries: … more than the 3 users … (9)"]),
    ("rho: [0.5, 0.5]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: … 2 rates for 3 users"]),
    ("rho: [0.5, 0.4, 0.2]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: … sum to 1.1 … ([0.5, 0.4, 0.2])"]),
    ("rho: []", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: … too few entries … ([])"]),
    ("rho: [0.5, 0.6, -0.1]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho.2: … greater than or equal to 0 … (-0.1)"]),
    ("round_length: 5 kg", "deliveries: 1", ["s.yaml:7: access.round_length: unknown unit: kg … ('5 kg')"]),
    ("round_length: -5 s", "deliveries: 1", ["s.yaml:7: access.round_length: … greater than 0 … ('-5 s')"]),
    ("mac: {kind: tdma}", "deliveries: 1", ["s.yaml:7: access.mac: … unknown key … mac is a key of kind: network"]),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "right", "faults"), MISTAKES, ids=[wrong for wrong, _, _ in MISTAKES])
def test_mistake_is_located_with_its_remedy(messages_of, wrong, right, faults):
    assert_messages(messages_of(replace_text(DIRECT, (right, wrong))), faults)


LEARNING_MISTAKES = [
    ("lr: 0.1\n    batch_size: 16", "lr: -1\n    batch_size: 0",
     ["s.yaml:15: learners.FedAvg.lr: … greater than 0 … (-1)",
      "s.yaml:16: learners.FedAvg.batch_size: … greater than or equal to 1 … (0)"]),
    ("batch_size: full", "batch_size: 10%", ["s.yaml:22: learners.CVaR.batch_size: … not a whole number … ('10%') … write a whole number"]),
    ("batch_size: full", "batch_size: fulll", ["s.yaml:22: learners.CVaR.batch_size: … unknown value … ('fulll') … did you mean 'full'"]),
    ("local_steps: 2", "local_steps: 2\n    local_epochs: 1", ["s.yaml:12: learners.FedAvg: … exactly one of"]),
    ("objective: erm", "objective: emr", ["s.yaml:13: learners.FedAvg.objective: … no such objective … did you mean 'erm'"]),
    ("objective: erm", "objectiv: erm",
     ["s.yaml:13: learners.FedAvg.objectiv: … unknown key … did you mean 'objective'"]),
    ("rare_classes: [9]", "rare_classes: [10]", ["s.yaml:24: evaluate.rare_classes: … labels 0 to 9 … (10)"]),
    ("  FedAvg:", "  Fed/Avg:", ["s.yaml:12: learners.Fed/Avg: … as a name … ('Fed/Avg')"]),
    ("model: logistic\n", "model: {kind: mlp, hidden: [-1]}\n", ["s.yaml:10: model.hidden.0: … greater than or equal to 1 … (-1)"]),
    ("model: logistic\n", "model: {kind: mlp, hidden: []}\n", ["s.yaml:10: model.hidden: … too few entries … ([])"]),
    ("rare_classes: [9]", "choose: {best: {learners: [CVaR], per: user}}", ["s.yaml:24: evaluate.choose.best.learners: … too few entries … (['CVaR'])"]),
    ("rare_classes: [9]", "rare_classes: [9, 9]", ["s.yaml:24: evaluate.rare_classes: … an entry twice … ([9, 9])"]),
    ("model: logistic\n", "", ["s.yaml: model: … missing … section 'model'"]),
    ("data: digits\n", "data: digts\n", ["s.yaml:8: data: … no such data … did you mean 'digits'"]),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "faults"), LEARNING_MISTAKES, ids=range(len(LEARNING_MISTAKES)))
def test_mistake_in_learning_sections_is_located_with_its_remedy(messages_of, right, wrong, faults):
    assert_messages(messages_of(replace_text(DIRECT + LEARNING, (right, wrong))), faults)


@pytest.mark.parametrize(
    ("record", "faults"),
    [
        ("[sent, deliverd]", ["s.yaml:8: record.1: … unknown value … ('deliverd') … did you mean 'delivered'"]),
        ("sometimes", ["s.yaml:8: record: … unknown value … ('sometimes') … known: all, none"]),
        ("5", ["s.yaml:8: record: … not a list … (5)"]),
        ("[]", []),
        ("all", []),
    ],
)
def test_record_accepts_event_kinds(messages_of, record, faults):
    assert_messages(messages_of(f"{DIRECT}record: {record}\n"), faults)


def test_all_errors_are_reported_in_file_order(messages_of):
    text = """\
    name: many
    users: 4
    rounds: none
    access:
      kind: bernoulli
      probability: [0.5, 2, x]
      round_length: 5 kg
      mac: tdma
    learners:
      A: {objective: erm, aggregation: rely, lr: 0, batch_size: 1, local_steps: 1}
    record: [snt]
    evalute: {}
    """
    keys = [line.split(": ")[:2] for line in messages_of(text)]
    assert sorted(map(tuple, keys[:3])) == [("s.yaml", "data"), ("s.yaml", "model"), ("s.yaml", "partition")]
    assert [tuple(key) for key in keys[3:]] == [
        ("s.yaml:3", "rounds"),
        ("s.yaml:6", "access.probability.1"),
        ("s.yaml:6", "access.probability.2"),
        ("s.yaml:7", "access.round_length"),
        ("s.yaml:8", "access.mac"),
        ("s.yaml:10", "learners.A.aggregation"),
        ("s.yaml:10", "learners.A.lr"),
        ("s.yaml:11", "record.0"),
        ("s.yaml:12", "evalute"),
    ]


class TestErrorsBetweenSections:
    def test_are_found_with_an_invalid_section(self, messages_of):
        text = replace_text(
            DIRECT + LEARNING, ("lr: 0.1\n    batch_size: 16", "lr: 0\n    batch_size: 16"), ("users: 3", "users: 4")
        )
        faults = messages_of(text)
        assert [line.split(": ")[1] for line in faults] == ["access.rho", "learners.FedAvg.lr"]

    def test_are_found_with_an_invalid_access(self, messages_of):
        text = replace_text(
            DIRECT + LEARNING, ("kind: stationary", "kind: x"), ("partition: iid\n", ""), ("[9]", "[10]")
        )
        assert [line.split(": ")[1] for line in messages_of(text)] == [
            "partition",
            "access.kind",
            "evaluate.rare_classes",
        ]

    def test_invalid_section_causes_no_further_errors(self, messages_of):
        text = """\
        name: x
        users: 3
        rounds: 2
        access: {kind: bernoulli, probability: {label_correlated: {}}}
        data: digts
        partition: iid
        """
        assert messages_of(text) == ["s.yaml:5: data: no such data: 'digts'; did you mean 'digits'?"]

    def test_access_by_labels_needs_an_independent_partition(self, messages_of):
        text = "name: x\nusers: 3\nrounds: 2\naccess: {kind: bernoulli, probability: {label_correlated: {}}}\n"
        assert messages_of(text) == [
            "s.yaml: partition: missing; this access depends on the users' labels; add data and partition",
            "s.yaml:4: access.probability: depends on the users' labels, but there are no data; add data",
        ]
        assert messages_of(text + "data: digits\npartition: iid\n") == []
        rare = "data: digits\npartition: {kind: rare_classes, classes: [9], users: 1, by: rho}\n"
        assert any(
            "depends on the participation, which depends on the labels in the access 'bernoulli'" in line
            for line in messages_of(text + rare)
        )


@pytest.fixture
def limited_memory():
    """Limit the address space of this process to 10 GB, so that an allocation of all memory fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (10 * 10**9, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.slow
def test_unreadable_data_take_no_memory(messages_of, limited_memory):
    """The number of labels is then unknown."""
    text = """\
        name: x
        users: 2
        rounds: 3
        access: {kind: stationary, deliveries: 1, rho: {zipf: 1.0}}
        data: {kind: blobs, centers: [[0, 0], [3, 3]], sampels: 300}
        partition: {kind: by_class, classes: [[0], [1]]}
        model: logistic
        learners: {A: {objective: erm, aggregation: average, lr: 0.1, local_epochs: 1, batch_size: 16}}
    """
    assert messages_of(text) == ["s.yaml:5: data.sampels: unknown key; did you mean 'samples'?"]


class TestKeysWithoutEffect:
    @pytest.mark.parametrize(
        ("section", "key"),
        [
            ("data: digits", "data"),
            ("partition: iid", "partition"),
            ("model: logistic", "model"),
            ("evaluate: {every: 3}", "evaluate"),
        ],
    )
    def test_learning_section_without_learners(self, messages_of, section, key):
        assert messages_of(f"{DIRECT}{section}\n") == [
            f"s.yaml:8: {key}: has no effect without learners; add 'learners', or leave it out"
        ]

    def test_learners_without_learning_sections(self, messages_of):
        text = DIRECT + LEARNING[LEARNING.index("learners") :]
        assert sorted(messages_of(text)) == [
            f"s.yaml: {key}: missing; learners need it; add a section '{key}'" for key in ("data", "model", "partition")
        ]

    def test_network_key_in_a_direct_access(self, messages_of):
        assert messages_of(DIRECT + "  topology: star\n") == [
            "s.yaml:8: access.topology: unknown key; topology is a key of kind: network"
        ]


class TestOptions:
    def test_options_replace_values_of_the_file(self, messages_of, tmp_path):
        messages_of(DIRECT)
        scenario = load("s.yaml", {"users": 2, "access.rho": [0.3, 0.7], "seed": 5})
        assert (scenario.users, scenario.access.rho, scenario.seed) == (2, (0.3, 0.7), 5)

    def test_kind_and_its_keys_can_be_set(self, messages_of):
        messages_of(DIRECT)
        scenario = load("s.yaml", {"access": "bernoulli", "access.probability": 0.3})
        assert scenario.access.probability == 0.3

    def test_errors_name_the_option(self, messages_of):
        assert messages_of(DIRECT, {"access.rho.1": 0.5}) == [
            "s.yaml:6: access.rho: the rates sum to 1.1, not to 1 ([0.5, 0.5, 0.1]); divide each by their sum"
        ]
        assert messages_of(DIRECT, {"rounds": "x"}) == [
            "overrides={'rounds': 'x'}: rounds: not a whole number ('x'); write a whole number"
        ]
        assert messages_of(DIRECT, {"acess.deliveries": 1})[0].startswith(
            "overrides={'acess.deliveries': 1}: acess: unknown key; did you mean 'access'?"
        )
        assert messages_of(DIRECT, {"users.x": 1}) == [
            "overrides={'users.x': 1}: users: has no keys below it (3); set it as a whole"
        ]

    def test_unknown_learner_is_one_error(self, messages_of):
        text = DIRECT + LEARNING
        (fault,) = messages_of(text, {"learners.Z.lr": 1})
        assert fault == "overrides={'learners.Z.lr': 1}: learners: no such learner ('Z'); known: FedAvg, CVaR"
        assert messages_of(text, {"learners.cvar.objective.alpha": 1})[0].startswith(
            "overrides={'learners.cvar.objective.alpha': 1}"
        )
        learner = {"objective": "erm", "aggregation": "relay", "lr": 1, "batch_size": 4, "local_steps": 1}
        assert messages_of(text, {f"learners.Z.{key}": value for key, value in learner.items()}) == []
        assert messages_of(text, {"learners.Z": learner, "learners.Z.lr": 2}) == []
        assert load("s.yaml", {"learners.FedAvg.lr": 2}).learners["FedAvg"].lr == 2


class TestOverrides:
    BLOCKS = (
        DIRECT
        + "overrides:\n  short: {rounds: 2}\n  fair:\n    access.rho: {zipf: 0}\n    access.deliveries: 2\n  bad: {access.deliveries: 7}\n"
    )

    def test_blocks_apply_in_the_given_order_before_options(self, messages_of):
        messages_of(self.BLOCKS)
        scenario = load("s.yaml", {"rounds": 3}, ["short", "fair"])
        assert (scenario.rounds, scenario.access.deliveries, scenario.access.rho.zipf) == (3, 2, 0)
        assert load("s.yaml").rounds == 20

    def test_error_in_a_block_names_its_line(self, messages_of):
        assert messages_of(self.BLOCKS, named=["bad"]) == [
            "s.yaml:13: access.deliveries: more than the 3 users (7); use at most the number of users"
        ]

    def test_unknown_block_gets_a_suggestion(self, messages_of):
        assert messages_of(self.BLOCKS, named=["shrt"]) == [
            "s.yaml:8: overrides: no such block ('shrt'); did you mean 'short'?"
        ]
        assert messages_of(DIRECT, named=["x"]) == ["s.yaml: overrides: no such block ('x'); known: none"]

    @pytest.mark.parametrize("section", ["overrides: [1]", "overrides: 5", "overrides: {x: 5}", "overrides:"])
    def test_invalid_blocks_are_errors(self, messages_of, section):
        (line,) = messages_of(f"{DIRECT}{section}\n", named=["x"])
        assert line.startswith("s.yaml:8: overrides: no such block ('x')")


BOOLEANS = """\
name: b
users: 4
rounds: true
access: {kind: bernoulli, probability: true, deliveries: true}
data: digits
partition: by_class
model: {kind: mlp, hidden: [true]}
learners:
  F: {objective: erm, aggregation: average, lr: true, batch_size: true, local_epochs: true, momentum: false}
"""


class TestNumbers:
    def test_true_and_false_are_no_numbers(self, messages_of):
        keys = ["rounds", "access.deliveries", "access.probability", "model.hidden.0"]
        keys += [f"learners.F.{key}" for key in ("lr", "momentum", "batch_size", "local_epochs")]
        lines = [3, 4, 4, 7, 9, 9, 9, 9]
        patterns = [f"s.yaml:{line}: {key}: not a … number" for line, key in zip(lines, keys, strict=True)]
        assert_messages(sorted(messages_of(BOOLEANS)), sorted(patterns))

    def test_false_is_no_staleness(self, messages_of):
        (line,) = messages_of(NETWORK + "  staleness: false\n" + LEARNING)
        assert "access.staleness: not a whole number (False); write a whole number" in line

    def test_rate_in_thousandths_of_a_bit_is_refused(self, messages_of):
        (line,) = messages_of(EMERGENT.replace("broadcast_rate: 50 kbps", "broadcast_rate: 11 mbps"))
        assert "access.broadcast_rate: unknown unit: mbps ('11 mbps'); did you mean 'Mbps' or 'MBps'?" in line

    @pytest.mark.parametrize(
        "seed", ["9" * 5000, "0x" + "f" * 100_000, "1" + "0" * 60], ids=["decimal", "hex", "large"]
    )
    def test_long_seed_is_located(self, messages_of, seed):
        (line,) = messages_of(EMERGENT.replace("name: radio", f"name: radio\nseed: {seed}"))
        assert line.startswith("s.yaml:2: seed: ")
        assert len(line) < 250

    def test_seed_of_128_bits_is_accepted(self, messages_of):
        assert messages_of(EMERGENT.replace("name: radio", f"name: radio\nseed: {2**128 - 1}")) == []
        assert messages_of(EMERGENT, {"seed": 10**5000})[0].startswith("overrides={'seed': …}: seed: ")

    def test_integral_numbers_are_whole_numbers(self):
        assert load("name: x\nusers: 1e3\nrounds: 2000.0\naccess: {kind: bernoulli, probability: 0.5}\n").rounds == 2000

    def test_times_that_lose_resolution_are_refused(self, messages_of):
        """2^33 s = 272 years: from there on the next float is more than 1 µs later."""
        text = "name: x\nusers: 2\nrounds: 2\naccess: {kind: bernoulli, probability: 0.5, round_length: 200 d}\n"
        assert messages_of(text) == []
        (line,) = messages_of(text.replace("200 d", "8e9 s"))
        assert line.startswith("s.yaml:4: access.round_length: one step of the clock is 1.9 µs at 1.6e+10 s")

    def test_run_ends_where_its_clock_loses_resolution(self, tmp_path):
        scenario = load(EMERGENT, {"access.compute.speed": 1e-9, "access.round.deadline": 9e9})
        with pytest.raises(ModelError, match=r"network, at .*: one step of the clock is [\d.]+ µs at"):
            netfl.trace(scenario, tmp_path / "run")

    def test_defaults_are_usual(self):
        """No key of any model has a default that would be doubted if a user wrote it."""
        checked = 0
        for base in map(base_of, FAMILIES):
            for kind in list_kinds(base):
                for name, field in find_model(base, kind).model_fields.items():
                    unit = find_unit((field.annotation, *field.metadata))
                    if unit is not None and isinstance(field.default, float):
                        assert not unit.doubtful([field.default]), f"{kind}: {name}"
                        checked += 1
        assert checked > 50

    @pytest.mark.parametrize(
        ("speed", "is_doubted"),
        [(None, False), (2e8, False), ("200000 km/s", False), (299_792_458, False), (2e5, True), (2.0, True)],
    )
    def test_speed_of_light_in_a_medium_is_usual(self, tmp_path, speed, is_doubted):
        path = tmp_path / "net.edges"
        path.write_text("a b {'rate_bps': 1e6}\n")
        topology = {
            "file": str(path), "server": "a", "towers": "all", "ring": 10,
            "placement": {"kind": "disk", "radius": 50},
        }  # fmt: skip
        if speed is not None:
            topology["speed"] = speed
        doubts = [*unusual_values(File.model_validate(topology), ScenarioDocument(topology, "s"))]
        assert [fault.key for fault in doubts] == ["speed"] * is_doubted

    def test_unusual_quantities_are_named(self):
        text = replace_text(
            EMERGENT, ("14 dBm", "5 MW"), ("868 MHz", "868 GHz"), ("broadcast_rate: 50 kbps", "broadcast_rate: 0.05")
        )
        faults = load(text).doubts()
        assert_messages(
            sorted(str(fault).partition(": ")[2] for fault in faults),
            [
                "access.broadcast_rate: not between 100 bit/s and 10 Tbps (0.05 bit/s) … check its unit",
                "access.channel.0.frequency: not between 30 MHz and 300 GHz (8.68e+11 Hz) … check its unit",
                "access.radio.power: not between 1 nW and 1 kW (96.9897 dBm) … check its unit",
            ],
        )
        assert load(EMERGENT).doubts() == []


class TestRoundTrip:
    @pytest.mark.parametrize("text", [DIRECT, DIRECT + LEARNING, EMERGENT])
    def test_resolved_scenario_loads_as_an_equal_scenario(self, tmp_path, text):
        (tmp_path / "a.yaml").write_text(text)
        scenario = load(tmp_path / "a.yaml")
        (tmp_path / "b.yaml").write_text(scenario.to_yaml())
        again = load(tmp_path / "b.yaml")
        assert again == scenario
        assert again.to_yaml() == scenario.to_yaml()

    def test_resolved_scenario_has_no_overrides(self, tmp_path):
        (tmp_path / "a.yaml").write_text(TestOverrides.BLOCKS)
        assert "overrides" not in parse(load(tmp_path / "a.yaml", named=["short"]).to_yaml(), "n")

    @given(
        name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        description=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
        seed=st.integers(0, 10**20),
        weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=4),
    )
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @pytest.mark.slow
    def test_every_valid_scenario_round_trips(self, name, description, seed, weights):
        rho = [weight / sum(weights) for weight in weights]
        access = {"kind": "stationary", "rho": rho}
        try:
            scenario = Scenario(name=name, description=description, seed=seed, users=len(rho), rounds=1, access=access)
        except ScenarioError:
            return
        assert validate(ScenarioDocument(parse(scenario.to_yaml(), "n"), "n")) == scenario

    def test_scenario_created_in_python_is_validated(self):
        with pytest.raises(ScenarioError, match="2 rates for 3 users"):
            Scenario(name="x", users=3, rounds=5, access={"kind": "stationary", "rho": [0.5, 0.5]})


def test_record_accepts_all_event_kinds():
    assert set(EventKind.__args__) == set(KINDS)
    scenario = Scenario(name="x", users=1, rounds=1, access={"kind": "stationary", "rho": [1.0]})
    assert set(OUTCOMES) <= scenario.keeping.kinds
    assert scenario.model_copy(update={"record": "all"}).keeping.kinds == set(KINDS)
    assert scenario.model_copy(update={"record": "none"}).keeping.kinds == set()


def test_update_size_counts_parameters_and_t(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(DIRECT + LEARNING)
    parameters = 64 * 10 + 10
    assert load(path).update_bits == 32 * (parameters + 1)
    plain_learner = {"objective": "erm", "aggregation": "relay", "lr": 1, "batch_size": 1, "local_steps": 1}
    assert load(path, {"learners": {"A": plain_learner}}).update_bits == 32 * parameters
    path.write_text(DIRECT)
    assert load(path).update_bits == 0


def test_load_accepts_a_path_as_text(tmp_path):
    (tmp_path / "s.yaml").write_text(DIRECT)
    assert netfl.load(str(tmp_path / "s.yaml"), {"rounds": 7}).rounds == 7


def paths(value, above=()):
    """Yield all paths in nested data."""
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*above, key)
        yield from paths(entry, (*above, key))


RANDOM_VALUES = st.sampled_from(
    [None, True, 0, -1, 1, 2.5, float("nan"), float("inf"), 10**30, "", "x", "5 kg", "3 dB", "tdma", [], [1], [None], {}, {"kind": "x"}, {"a": 1}, [[]], {"kind": None}]
)  # fmt: skip
VALID = [parse(text, "n") for text in (DIRECT + LEARNING, EMERGENT)]


@given(data=st.sampled_from(VALID), values=st.lists(RANDOM_VALUES, min_size=1, max_size=3), at=st.data())
@settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@pytest.mark.slow
def test_random_values_give_errors_with_keys_or_a_valid_scenario(data, values, at):
    data = copy.deepcopy(data)
    for value in values:
        *parents, last = at.draw(st.sampled_from(list(paths(data))))
        inner = data
        for part in parents:
            inner = inner[part]
        inner[last] = copy.deepcopy(value)
    faults, scenario = (), None
    try:
        scenario = validate(ScenarioDocument(data, "n"))
    except ScenarioError as error:
        faults = error.faults
    assert (scenario is None) == bool(faults)
    for fault in faults:
        assert fault.problem
        assert not set("[](){}") & set(fault.key), fault
        assert fault.key.split(".")[0], fault
    if scenario is not None:
        assert validate(ScenarioDocument(parse(dump(scenario.model_dump(mode="json")), "n"), "n")) == scenario


def test_examples_without_features_are_an_error():
    base_scenario = {"name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    data = {"kind": "support.plugin_data:Letters", "length": 0}
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    with pytest.raises(ScenarioError) as error:
        validate(
            ScenarioDocument(
                base_scenario | {"data": data, "partition": "iid", "model": "lstm", "learners": {"a": learner}},
                "x",
            )
        )
    assert [(fault.key, fault.problem) for fault in error.value.faults] == [("data", "the examples have no features")]


def test_rates_of_users_are_not_computed_without_learning(monkeypatch):
    def refuse(*_):
        raise AssertionError("an array of all users")

    for method in ("rates", "participation_rates"):
        monkeypatch.setattr(Bernoulli, method, refuse)
    access = {"kind": "bernoulli", "probability": 0.3}
    assert load({"name": "a", "users": 2 * 10**7, "rounds": 1, "access": access}).users == 2 * 10**7
    with pytest.raises(ScenarioError, match="users: should be less than or equal to"):
        load({"name": "a", "users": 10**8, "rounds": 1, "access": access})
