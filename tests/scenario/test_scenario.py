"""Scenario files: everything wrong at once, each where it stands and with what would do; and a faithful round trip."""

# ruff: noqa: E501 - a message that is pinned stands on one line

import copy
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import netfl
from netfl.errors import ScenarioError
from netfl.scenario.scenario import EventKind, Scenario, load, validate
from netfl.scenario.yaml_document import ScenarioDocument, dump, parse
from netfl.types import KINDS, OUTCOMES

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
def said(tmp_path, monkeypatch):
    """What is said of a scenario text: its faults line by line, none if it is good."""
    monkeypatch.chdir(tmp_path)

    def of(text, overrides=None, named=()):
        (tmp_path / "s.yaml").write_text(textwrap.dedent(text))
        try:
            load("s.yaml", overrides, named)
        except ScenarioError as error:
            return str(error).splitlines()
        return []

    return of


def replaced(text, *pairs):
    """*text* with words replaced, each of which must be there."""
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
def test_a_number_without_its_unit_is_told_what_it_may_mean(said, right, wrong, message):
    found = [fault.partition(" access.") for fault in said(replaced(NETWORK, (right, wrong)))]
    assert message in [fault for _, _, fault in found]


@pytest.mark.parametrize("power", [14, "14 dB"])
def test_a_level_that_is_set_needs_its_unit_too(said, power):
    (fault,) = said(NETWORK, {"access.radio.power": power})
    assert fault.startswith(f"--set access.radio.power={power}: access.radio.power: ")


def test_levels_are_written_with_their_units(said):
    assert said(EMERGENT) == []
    scenario = load("s.yaml", {"access.radio.power": "25 mW"})
    written = parse(scenario.to_yaml(), "n")
    assert written["access"]["radio"]["power"].endswith(" dBm")
    assert written["access"]["reception"]["threshold"] == "0.0 dB"
    assert validate(ScenarioDocument(written)) == scenario


def test_the_scenarios_of_these_tests_are_good(said):
    assert said(DIRECT) == []
    assert said(DIRECT + LEARNING) == []
    assert said(EMERGENT) == []


MISTAKES = [
    ("usrs: 3", "users: 3", ["s.yaml: users: missing; give it a value", "s.yaml:2: usrs: unknown key; did you mean 'users'?"]),
    ("users: many", "users: 3", ["s.yaml:2: users: not a whole number ('many'); write a whole number"]),
    ("users: 0", "users: 3", ["s.yaml:2: users: should be greater than or equal to 1 (0)"]),
    ("users: 3.5", "users: 3", ["s.yaml:2: users: not a whole number (3.5); write a whole number"]),
    ("users:", "users: 3", ["s.yaml:2: users: not a whole number; write a whole number"]),
    ("rounds: -1", "rounds: 20", ["s.yaml:3: rounds: should be greater than or equal to 1 (-1)"]),
    ("name: a/b", "name: direct", ["s.yaml:1: name: not usable as a name ('a/b'); begin it with a letter, and use no '/'"]),
    ("name: 5", "name: direct", ["s.yaml:1: name: not a string (5); put it in quotes"]),
    ("seed: -1\nname: x", "name: direct", ["s.yaml:1: seed: should be greater than or equal to 0 (-1)"]),
    ("kind: stationry", "kind: stationary", ["s.yaml:5: access.kind: no such access: 'stationry'; did you mean 'stationary'?"]),
    ("deliveris: 1", "deliveries: 1", ["s.yaml:7: access.deliveris: unknown key; did you mean 'deliveries'?"]),
    ("deliveries: 9", "deliveries: 1", ["s.yaml:7: access.deliveries: more than the 3 users (9); use at most the number of users"]),
    ("rho: [0.5, 0.5]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: 2 rates for 3 users; give one for each user, or {zipf: 1.0}, or random_simplex"]),
    ("rho: [0.5, 0.4, 0.2]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: the rates sum to 1.1, not to 1 ([0.5, 0.4, 0.2]); divide each by their sum"]),
    ("rho: []", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho: has too few entries ([]); give 1 or more"]),
    ("rho: [0.5, 0.6, -0.1]", "rho: [0.5, 0.4, 0.1]", ["s.yaml:6: access.rho.2: should be greater than or equal to 0 (-0.1)"]),
    ("round_length: 5 kg", "deliveries: 1", ["s.yaml:7: access.round_length: a value in gram instead of a time ('5 kg'); write a number in s, or a quantity such as '20 ms'"]),
    ("round_length: -5 s", "deliveries: 1", ["s.yaml:7: access.round_length: should be greater than 0 ('-5 s')"]),
    ("mac: {kind: tdma}", "deliveries: 1", ["s.yaml:7: access.mac: unknown key; known: selection, learner, deliveries, round_length, rho"]),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "right", "faults"), MISTAKES, ids=[wrong for wrong, _, _ in MISTAKES])
def test_a_mistake_is_told_in_exactly_these_words(said, wrong, right, faults):
    assert said(replaced(DIRECT, (right, wrong))) == faults


LEARNING_MISTAKES = [
    ("lr: 0.1\n    batch_size: 16", "lr: -1\n    batch_size: 0",
     ["s.yaml:15: learners.FedAvg.lr: should be greater than 0 (-1)",
      "s.yaml:16: learners.FedAvg.batch_size: should be greater than or equal to 1 (0)"]),
    ("batch_size: full", "batch_size: fulll", ["s.yaml:22: learners.CVaR.batch_size: unknown value ('fulll'); did you mean 'full'?"]),
    ("local_steps: 2", "local_steps: 2\n    local_epochs: 1", ["s.yaml:12: learners.FedAvg: give exactly one of local_epochs and local_steps"]),
    ("objective: erm", "objective: emr", ["s.yaml:13: learners.FedAvg.objective: no such learning/objective: 'emr'; did you mean 'erm'?"]),
    ("objective: erm", "objectiv: erm",
     ["s.yaml:12: learners.FedAvg.objective: missing; give it a value",
      "s.yaml:13: learners.FedAvg.objectiv: unknown key; did you mean 'objective'?"]),
    ("rare_classes: [9]", "rare_classes: [10]", ["s.yaml:24: evaluate.rare_classes: the data have labels 0 to 9 (10); use one of them"]),
    ("  FedAvg:", "  Fed/Avg:", ["s.yaml:12: learners.Fed/Avg: not usable as a name ('Fed/Avg'); begin it with a letter, and use no '/'"]),
    ("model: logistic\n", "model: {kind: mlp, hidden: [-1]}\n", ["s.yaml:10: model.hidden.0: should be greater than or equal to 1 (-1)"]),
    ("model: logistic\n", "model: {kind: mlp, hidden: []}\n", ["s.yaml:10: model.hidden: has too few entries ([]); give 1 or more"]),
    ("rare_classes: [9]", "choose: {best: {learners: [CVaR]}}", ["s.yaml:24: evaluate.choose.best.learners: has too few entries (['CVaR']); give 2 or more"]),
    ("rare_classes: [9]", "rare_classes: [9, 9]", ["s.yaml:24: evaluate.rare_classes: lists an entry twice ([9, 9]); name each once"]),
    ("model: logistic\n", "", ["s.yaml: model: missing; learners need it; add a section 'model'"]),
    ("data: digits\n", "data: digts\n", ["s.yaml:8: data: no such learning/data: 'digts'; did you mean 'digits'?"]),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "faults"), LEARNING_MISTAKES, ids=range(len(LEARNING_MISTAKES)))
def test_a_mistake_about_learning_is_told_in_exactly_these_words(said, right, wrong, faults):
    assert said(replaced(DIRECT + LEARNING, (right, wrong))) == faults


@pytest.mark.parametrize(
    ("record", "faults"),
    [
        ("[sent, deliverd]", ["s.yaml:8: record.1: unknown value ('deliverd'); did you mean 'delivered'?"]),
        ("sometimes", ["s.yaml:8: record: unknown value ('sometimes'); known: all, none"]),
        ("5", ["s.yaml:8: record: not a list (5); write a list"]),
        ("[]", []),
        ("all", []),
    ],
)
def test_what_can_be_recorded(said, record, faults):
    assert said(f"{DIRECT}record: {record}\n") == faults


def test_all_faults_are_told_at_once_in_the_order_of_the_file(said):
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
    keys = [line.split(": ")[:2] for line in said(text)]
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


class TestFaultsBetweenSections:
    def test_are_found_beside_a_broken_section(self, said):
        text = replaced(
            DIRECT + LEARNING, ("lr: 0.1\n    batch_size: 16", "lr: 0\n    batch_size: 16"), ("users: 3", "users: 4")
        )
        faults = said(text)
        assert [line.split(": ")[1] for line in faults] == ["access.rho", "learners.FedAvg.lr"]

    def test_are_found_beside_a_broken_access(self, said):
        text = replaced(DIRECT + LEARNING, ("kind: stationary", "kind: x"), ("partition: iid\n", ""), ("[9]", "[10]"))
        assert [line.split(": ")[1] for line in said(text)] == ["partition", "access.kind", "evaluate.rare_classes"]

    def test_are_not_made_up_because_a_section_is_broken(self, said):
        text = """\
        name: x
        users: 3
        rounds: 2
        access: {kind: bernoulli, probability: {label_correlated: {}}}
        data: digts
        partition: iid
        """
        assert said(text) == ["s.yaml:5: data: no such learning/data: 'digts'; did you mean 'digits'?"]

    def test_an_access_by_labels_needs_data_dealt_out_without_it(self, said):
        text = "name: x\nusers: 3\nrounds: 2\naccess: {kind: bernoulli, probability: {label_correlated: {}}}\n"
        assert said(text) == [
            "s.yaml: partition: missing; this access depends on the users' labels; add data and partition",
            "s.yaml:4: access.probability: depends on the users' labels, but there are no data; add data",
        ]
        assert said(text + "data: digits\npartition: iid\n") == []
        rare = "data: digits\npartition: {kind: rare_classes, classes: [9], users: 1, by: rho}\n"
        assert any("depends on the participation, which depends on the partition" in line for line in said(text + rare))


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
    def test_a_section_for_learners_without_learners(self, said, section, key):
        assert said(f"{DIRECT}{section}\n") == [
            f"s.yaml:8: {key}: has no effect without learners; add 'learners', or leave it out"
        ]

    def test_learners_without_their_sections(self, said):
        text = DIRECT + LEARNING[LEARNING.index("learners") :]
        assert sorted(said(text)) == [
            f"s.yaml: {key}: missing; learners need it; add a section '{key}'" for key in ("data", "model", "partition")
        ]

    def test_a_key_of_a_network_under_a_direct_access(self, said):
        assert said(DIRECT + "  topology: star\n") == [
            "s.yaml:8: access.topology: unknown key; known: selection, learner, deliveries, round_length, rho"
        ]


class TestOptions:
    def test_values_replace_those_of_the_file(self, said, tmp_path):
        said(DIRECT)
        scenario = load("s.yaml", {"users": 2, "access.rho": [0.3, 0.7], "seed": 5})
        assert (scenario.users, scenario.access.rho, scenario.seed) == (2, (0.3, 0.7), 5)

    def test_a_kind_and_its_keys_can_be_set_in_turn(self, said):
        said(DIRECT)
        scenario = load("s.yaml", {"access": "bernoulli", "access.probability": 0.3})
        assert scenario.access.probability == 0.3

    def test_faults_name_the_option(self, said):
        assert said(DIRECT, {"access.rho.1": 0.5}) == [
            "s.yaml:6: access.rho: the rates sum to 1.1, not to 1 ([0.5, 0.5, 0.1]); divide each by their sum"
        ]
        assert said(DIRECT, {"rounds": "x"}) == [
            "--set rounds=x: rounds: not a whole number ('x'); write a whole number"
        ]
        assert said(DIRECT, {"acess.deliveries": 1})[0].startswith(
            "--set acess.deliveries=1: acess: unknown key; did you mean 'access'?"
        )
        assert said(DIRECT, {"users.x": 1}) == ["--set users.x=1: users: has no keys below it (3); set it as a whole"]

    def test_a_learner_that_there_is_not_is_one_fault(self, said):
        text = DIRECT + LEARNING
        (fault,) = said(text, {"learners.Z.lr": 1})
        assert fault == "--set learners.Z.lr: learners: no such learner ('Z'); known: FedAvg, CVaR"
        assert said(text, {"learners.cvar.objective.alpha": 1})[0].startswith("--set learners.cvar.objective.alpha")
        whole = {"objective": "erm", "aggregation": "relay", "lr": 1, "batch_size": 4, "local_steps": 1}
        assert said(text, {f"learners.Z.{key}": value for key, value in whole.items()}) == []
        assert said(text, {"learners.Z": whole, "learners.Z.lr": 2}) == []
        assert load("s.yaml", {"learners.FedAvg.lr": 2}).learners["FedAvg"].lr == 2


class TestOverrides:
    BLOCKS = (
        DIRECT
        + "overrides:\n  short: {rounds: 2}\n  fair:\n    access.rho: {zipf: 0}\n    access.deliveries: 2\n  bad: {access.deliveries: 7}\n"
    )

    def test_blocks_apply_in_the_order_of_their_names_and_options_last(self, said):
        said(self.BLOCKS)
        scenario = load("s.yaml", {"rounds": 3}, ["short", "fair"])
        assert (scenario.rounds, scenario.access.deliveries, scenario.access.rho.zipf) == (3, 2, 0)
        assert load("s.yaml").rounds == 20

    def test_a_fault_in_a_block_stands_there(self, said):
        assert said(self.BLOCKS, named=["bad"]) == [
            "s.yaml:13: access.deliveries: more than the 3 users (7); use at most the number of users"
        ]

    def test_an_unknown_block_gets_its_hint(self, said):
        assert said(self.BLOCKS, named=["shrt"]) == [
            "s.yaml:8: overrides: no such block ('shrt'); did you mean 'short'?"
        ]
        assert said(DIRECT, named=["x"]) == ["s.yaml: overrides: no such block ('x'); known: none"]

    @pytest.mark.parametrize("section", ["overrides: [1]", "overrides: 5", "overrides: {x: 5}", "overrides:"])
    def test_blocks_that_are_none_are_told(self, said, section):
        (line,) = said(f"{DIRECT}{section}\n", named=["x"])
        assert line.startswith("s.yaml:8: overrides: no such block ('x')")


class TestRoundTrip:
    @pytest.mark.parametrize("text", [DIRECT, DIRECT + LEARNING, EMERGENT])
    def test_a_resolved_scenario_loads_as_the_same(self, tmp_path, text):
        (tmp_path / "a.yaml").write_text(text)
        scenario = load(tmp_path / "a.yaml")
        (tmp_path / "b.yaml").write_text(scenario.to_yaml())
        again = load(tmp_path / "b.yaml")
        assert again == scenario
        assert again.to_yaml() == scenario.to_yaml()

    def test_overrides_are_resolved_away(self, tmp_path):
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
    def test_whatever_is_accepted_comes_back(self, name, description, seed, weights):
        rho = [one / sum(weights) for one in weights]
        access = {"kind": "stationary", "rho": rho}
        try:
            scenario = Scenario(name=name, description=description, seed=seed, users=len(rho), rounds=1, access=access)
        except ValidationError:
            return
        assert validate(ScenarioDocument(parse(scenario.to_yaml(), "n"), "n")) == scenario

    def test_a_scenario_made_in_python_is_checked_as_well(self):
        with pytest.raises(ScenarioError, match="2 rates for 3 users"):
            Scenario(name="x", users=3, rounds=5, access={"kind": "stationary", "rho": [0.5, 0.5]})


def test_the_words_of_record_are_the_kinds_of_events():
    assert set(EventKind.__args__) == set(KINDS)
    scenario = Scenario(name="x", users=1, rounds=1, access={"kind": "stationary", "rho": [1.0]})
    assert set(OUTCOMES) <= scenario.keeping.kinds
    assert scenario.model_copy(update={"record": "all"}).keeping.kinds == set(KINDS)
    assert scenario.model_copy(update={"record": "none"}).keeping.kinds == set()


def test_an_update_carries_the_parameters_and_t_where_a_learner_has_one(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(DIRECT + LEARNING)
    parameters = 64 * 10 + 10
    assert load(path).update_bits == 32 * (parameters + 1)
    plain_learner = {"objective": "erm", "aggregation": "relay", "lr": 1, "batch_size": 1, "local_steps": 1}
    assert load(path, {"learners": {"A": plain_learner}}).update_bits == 32 * parameters
    path.write_text(DIRECT)
    assert load(path).update_bits == 0


def test_netfl_load_takes_a_path_as_text(tmp_path):
    (tmp_path / "s.yaml").write_text(DIRECT)
    assert netfl.load(str(tmp_path / "s.yaml"), {"rounds": 7}).rounds == 7


def paths(value, above=()):
    """Every path in nested data."""
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*above, key)
        yield from paths(entry, (*above, key))


NONSENSE = st.sampled_from(
    [None, True, 0, -1, 1, 2.5, float("nan"), float("inf"), 10**30, "", "x", "5 kg", "3 dB", "tdma", [], [1], [None], {}, {"kind": "x"}, {"a": 1}, [[]], {"kind": None}]
)  # fmt: skip
GOOD = [parse(text, "n") for text in (DIRECT + LEARNING, EMERGENT)]


@given(data=st.sampled_from(GOOD), nonsense=st.lists(NONSENSE, min_size=1, max_size=3), at=st.data())
@settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@pytest.mark.slow
def test_no_nonsense_anywhere_makes_anything_but_faults_with_keys(data, nonsense, at):
    data = copy.deepcopy(data)
    for value in nonsense:
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


def test_examples_without_numbers_are_a_fault():
    said = {"name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.5}}
    data = {"kind": "support.plugin_data:Letters", "length": 0}
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    with pytest.raises(ScenarioError) as told:
        validate(
            ScenarioDocument(
                said | {"data": data, "partition": "iid", "model": "lstm", "learners": {"a": learner}}, "x"
            )
        )
    assert [(fault.key, fault.problem) for fault in told.value.faults] == [("data", "the examples have no features")]
