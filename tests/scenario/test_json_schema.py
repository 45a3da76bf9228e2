"""The JSON Schema of scenarios: it accepts valid scenarios, rejects mistakes and is up to date."""

import itertools
import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from netfl import units
from netfl.cli import app
from netfl.core.descriptions import example
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.scenario import json_schema as schemas
from netfl.scenario.json_schema import scenario_schema, schema_text

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SCENARIO_FILES = sorted(SCENARIOS.rglob("*.yaml"))
SCENARIO = """
name: x
users: 4
rounds: 30
seed: 3
access:
  kind: network
  topology: {kind: star, radius: 1 km}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: log_distance, exponent: 3.5, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.1}
  compute: {speed: 100}
  broadcast_rate: 1e5
  round: {kind: first, m: 1}
data: digits
partition: iid
model: {kind: mlp, hidden: [8]}
learners:
  a: {objective: erm, aggregation: relay, lr: 0.1, batch_size: full, local_steps: 1}
evaluate: {every: 5}
record: all
"""


@pytest.fixture(scope="module")
def schema():
    return scenario_schema()


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def parse_yaml(text):
    return YAML(typ="safe", pure=True).load(text)


def is_valid(validator, content):
    return jsonschema.exceptions.best_match(validator.iter_errors(content)) is None


def test_schema_file_is_up_to_date(schema):
    stored = json.loads((SCENARIOS / "schema.json").read_text(encoding="utf-8"))
    assert stored == schema, "update it: make generated"


@pytest.mark.slow
def test_command_prints_the_schema():
    result = CliRunner().invoke(app, ["schema"])
    assert (result.exit_code, result.stdout) == (0, schema_text())


@pytest.mark.parametrize("path", SCENARIO_FILES, ids=lambda path: path.stem)
def test_shipped_scenarios_are_valid_and_name_the_schema(validator, path):
    text = path.read_text(encoding="utf-8")
    schema_path = os.path.relpath(SCENARIOS / "schema.json", path.parent)
    assert text.startswith(f"# yaml-language-server: $schema={schema_path}\n")
    assert is_valid(validator, parse_yaml(text))


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_of_all_models_are_valid(schema, family):
    key = family.replace("/", ".")
    validator = jsonschema.Draft7Validator({"$ref": f"#/definitions/{key}", "definitions": schema["definitions"]})
    base = base_of(family)
    for kind in list_kinds(base):
        content = parse_yaml(example(find_model(base, kind)))
        assert is_valid(validator, content), (kind, content)
        assert not is_valid(validator, {**content, "no_such_key": 1} if isinstance(content, dict) else "no_such_kind")


def test_base_scenario_is_valid(validator):
    assert is_valid(validator, parse_yaml(SCENARIO))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("users: 4", "usrs: 4"),
        ("users: 4", "users: 0"),
        ("users: 4", "users: four"),
        ("rounds: 30", "rounds: 1.5"),
        ("name: x", "name: [x]"),
        ("name: x", "name: a/b"),
        ("name: x\n", ""),
        ("kind: star", "kind: stra"),
        ("kind: network", "kind: netwrk"),
        ("kind: network", "kind: stationary"),
        ("radius: 1 km", "radus: 1 km"),
        ("radius: 1 km", "radius: one"),
        ("radius: 1 km", "radius: [1]"),
        ("radius: 1 km", "radius: 3 dB"),
        ("radius: 1 km", "radius: 5 km/h"),
        ("power: 14 dBm", "power: 14 dB"),
        ("rate: 50 kbps", "rate: 50 kB"),
        ("frequency: 868 MHz", "frequency: 868 MB"),
        ("power: 14 dBm", "power: dBm"),
        ("probability: 0.1", "probability: 1.1"),
        ("broadcast_rate: 1e5", "broadcast_rate: -1"),
        ("channel: [{", "channel: [{typo: 1, "),
        ("reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}", "reception: snr_threshold"),
        ("model: {kind: mlp, hidden: [8]}", "model: {hidden: [8]}"),
        ("objective: erm", "objective: emr"),
        ("objective: erm, ", ""),
        ("lr: 0.1", "lr: 0"),
        ("batch_size: full", "batch_size: all"),
        ("every: 5", "evry: 5"),
        ("record: all", "record: [deliverd]"),
        ("record: all", "track: {tensorboard: x}"),
    ],
)
def test_mistakes_are_invalid(validator, old, new):
    assert SCENARIO.count(old) == 1
    assert not is_valid(validator, parse_yaml(SCENARIO.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind: star", "kind: my.models:Star"),
        ("{kind: slotted_aloha, probability: 0.1}", "my_macs:Mine"),
        ("{kind: slotted_aloha, probability: 0.1}", "{kind: my_macs:Mine, whatever: 1}"),
        ("radius: 1 km", "radius: 1000"),
        ("power: 14 dBm", "power: 25 mW"),
        ("power: 14 dBm", "power: 14dBm"),
        ("radius: 1 km", "radius: 2 nmi"),
        ("radius: 1 km", "radius: 1000 m "),
        ("speed: 100", "speed: [1, 2, 3, 4]"),
        ("channel: [", "outages: [{kind: regional, affects: towers, center: [0, 0], radius: 1, up: {distribution: "
         "exponential, mean: 1 h}, down: {distribution: fixed, mean: 60}}]\n  channel: ["),
        ("record: all", "record: {events: none, versions: true}"),
        ("record: all", "track: [{kind: tensorboard, folder: runs/tb}, mlflow]"),
        ("record: all", "track: wandb"),
        ("record: all", "overrides: {quick: {access.mac.probability: 0.2}}"),
    ],
)  # fmt: skip
def test_alternative_forms_are_valid(validator, old, new):
    assert SCENARIO.count(old) == 1
    assert is_valid(validator, parse_yaml(SCENARIO.replace(old, new)))


def test_schema_accepts_the_units_that_a_run_accepts():
    symbols = ("s", "m", "Hz", "bit/s", "bit", "byte", "m/s", "J", "W", "dB", "dBm")
    written = {unit for symbol in symbols for unit in units.units_of(symbol)}
    for symbol, unit in itertools.product(symbols, [*sorted(written), "mbps", "mHz", "kg", "DB"]):
        is_accepted = True
        try:
            units.to_si(f"1 {unit}", symbol)
        except ValueError:
            is_accepted = False
        matches = [re.match(schemas._quantity(symbol), text) for text in (f"1 {unit}", f" -2.5e3{unit} ")]
        assert [match is not None for match in matches] == [is_accepted, is_accepted], (symbol, unit)


def test_schema_contains_descriptions_for_editors(schema):
    entries = schema["definitions"]["network.mac"]["anyOf"]
    bodies = [schema["definitions"][entry["$ref"].rpartition("/")[2]] for entry in entries if "$ref" in entry]
    assert {body["properties"]["kind"]["const"] for body in bodies} == {*list_kinds(base_of("network/mac"))}
    for body in bodies:
        assert all(entry.get("description") for entry in body["properties"].values()), body
        assert body["description"], body
    power = schema["definitions"]["Radio"]["properties"]["power"]
    (number,) = [form for form in power["anyOf"] if form.get("type") == "string"]  # beside lists and distributions
    assert number["description"].startswith("In dBm")
