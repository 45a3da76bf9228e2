"""Tiny scenarios, one for the example of each model."""

import copy
import json
from pathlib import Path

import numpy as np
import pandas as pd

import netfl
from netfl.core.descriptions import example
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.core.spec import Spec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from support.small_network import SECTION

MODELS = [(family, kind) for family in FAMILIES for kind in list_kinds(base_of(family))]

TINY = {
    "name": "tiny",
    "users": 6,
    "rounds": 4,
    "access": {"kind": "stationary", "rho": "random_simplex", "deliveries": 1},
    "data": {"kind": "digits"},
    "partition": {"kind": "iid"},
    "model": {"kind": "logistic"},
    "learners": {
        "one": {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 16, "local_steps": 2},
    },
}


_VALIDATION = Path(__file__).parents[2] / "scenarios" / "validation"
_FILES = Path(__file__).parents[1] / "network" / "data"
OF_FILES = {
    ("network/topology", "file"): {"file": str(_FILES / "valley.graphml"), "server": "town", "towers": ["mast"]},
    ("network/placement", "table"): {"file": str(_FILES / "places.csv")},
    ("network/association", "windows"): {"file": str(_FILES / "passes.csv")},
    ("network/motion", "trajectory"): {"file": str(_FILES / "walks.csv")},
    ("network/motion", "sumo_fcd"): {"file": str(_FILES / "town.fcd.xml")},
    ("network/placement", "sumo_fcd"): {"file": str(_FILES / "town.fcd.xml")},
    ("network/channel", "trace"): {"file": str(_FILES / "drive.csv")},
    ("network/channel", "radio_map"): {"file": str(_FILES / "campus.csv")},
    ("learning/data", "torch_dataset"): {
        "dataset": "support.plugin_data:make_images",
        "test": "support.plugin_data:make_images",
    },
    ("learning/model", "module"): {"module": "support.plugin_modules:Small", "args": {"width": 4}},
}
"""Replacements for the files and modules named in examples."""
_OF_LETTERS = {"kind": "support.plugin_data:Letters"}
"""A data set of rows of tokens."""
_NATURAL = {"kind": "table", "file": "own.csv", "features": ["a", "b"], "label": "l", "labels": 3, "user": "who"}
"""A data set with users, for the partition `natural`."""
_OF_LEARNERS = {
    "qfedsgd": {"batch_size": "full", "local_steps": 1},
    "fedawe": {"base": "last_participation"},
    "local_momentum": {"momentum": 0.9},
}
"""Keys of a learner that an aggregation or a rule of devices requires."""
_OF_ROUNDS = {"halving": {"every": 2}, "step": {"milestones": [1, 3]}}
"""Schedules for four rounds in place of thousands."""
_ROUND_BESIDE = {"traffic": {"deadline": "10 s"}}
"""Short rounds for networks with background traffic, which never ends."""
_CHARGED = {
    "outages": [{"kind": "battery", "capacity": "10 J", "charger": {"power": "1 W"}}],
    "energy": {"per_training": "1 J"},
}
"""Batteries with a source of power."""
_SUMS = {
    "mac": "simultaneous",
    "reception": "analogue",
    "interference": "over_the_air",
    "power_control": {"kind": "inversion", "target": "10 dB"},
    "round": {"kind": "available"},
}
"""Parts of a network with sums in the air."""
_BESIDE_MODELS = {
    ("network/interference", "over_the_air"): _SUMS,
    ("network/reception", "analogue"): _SUMS,
    **{("network/mac", kind): {"interference": "sinr"} for kind in ("noma", "simultaneous")},
    ("network/motion", "sumo_fcd"): {
        "topology": {"kind": "star", "placement": {"kind": "sumo_fcd", "file": str(_FILES / "town.fcd.xml")}}
    },
    ("network/channel", "frequency_selective"): {
        "mac": {"kind": "multichannel_aloha", "channels": 3, "probability": 0.2}
    },
    ("network/outage", "battery"): {"energy": {"per_sample": "20 mJ", "transmit": "300 mW", "idle": "30 mW"}},
    ("network/trains_when", "battery_above"): _CHARGED,
    ("network/trains_when", "charging"): _CHARGED,
    ("network/allocation", "block_assignment"): {
        "mac": {"kind": "fdma", "division": "blocks", "interference": ["-60 dBm", "-50 dBm"]}
    },
}
"""Keys of the network that a model needs: users that start where the file has them, costs, and blocks of the band."""
_OF_SEVERAL = {("network/interference", "over_the_air"), ("network/reception", "analogue")}
"""Models whose rounds deliver several updates."""
_OF_NETWORKS = {"score", "fedcs"}
"""Selections that need airtimes."""
_BESIDE_LEARNERS = {
    "average_by_snr": {"access": SECTION},
    "over_the_air": {"access": SECTION | _SUMS},
    "superquantile": {"access": {"kind": "bernoulli", "probability": 0.5}},
    **{kind: {"model": {"kind": "mlp", "hidden": [4]}} for kind in ("fedper", "fedrep")},
}
"""Sections that parts of a learner need: a network with links of updates, and a model of several layers."""
_BESIDE_FAMILIES = {
    "network/association": {
        "topology": {"kind": "tree", "fanout": [3], "ring": "200 m", "radius": "200 m", "rate": "1 Mbps", "delay": 0},
        "motion": {"kind": "random_waypoint", "radius": "500 m", "speed": [10, 20]},
        "receivers": "all",
    },
    "network/rate_adaptation": {
        "radio": {"power": "15 dBm", "bandwidth": "20 MHz"},
        "reception": {"kind": "mcs", "standard": "802.11a"},
        "mac": {"kind": "csma_ca"},
    },
    "network/allocation": {
        "mac": {"kind": "fdma", "division": "allocated"},
        "reception": {"kind": "shannon"},
        "compute": {"frequency": "1 GHz", "cycles": 1e7},
        "energy": {"capacitance": 1e-28, "transmit": "500 mW"},
    },
}
"""Keys of the network that all models of a family need."""


def world(family: str, spec: dict, folder: Path) -> dict:
    """Return a tiny scenario that contains the model *spec*."""
    data = copy.deepcopy(TINY)
    name = family.rpartition("/")[2]
    several = family in {"access", "access/selection", "network/round"} or (family, spec["kind"]) in _OF_SEVERAL
    data["learners"]["one"]["aggregation"] = "average" if several else "relay"
    if family == "access":
        data |= {"access": spec, "users": 3}
        if spec["kind"] == "replay":
            recorded = {key: data[key] for key in ("name", "users", "rounds")}
            recorded["access"] = {"kind": "stationary", "rho": {"zipf": 1}}
            netfl.trace(validate(ScenarioDocument(recorded, "tiny")), folder / "recorded")
            data["access"] = spec | {"run": str(folder / "recorded")}
    elif family == "access/selection":
        direct = {"kind": "bernoulli", "probability": 0.5}
        data["access"] = (copy.deepcopy(SECTION) if spec["kind"] in _OF_NETWORKS else direct) | {"selection": spec}
    elif family == "network/theory":
        validation_scenario = _VALIDATION / f"{spec['kind']}.yaml"
        data = parse(validation_scenario.read_text(), validation_scenario.name) | {"duration": "1 s", "warmup": 0}
        data["access"]["theory"] = spec
    elif family.startswith("network/"):
        data["access"] = copy.deepcopy(SECTION)
        spec = spec | OF_FILES.get((family, spec["kind"]), {})
        as_list = {"channel": [spec], "outage": [spec]}
        data["access"] |= _BESIDE_FAMILIES.get(family, {})
        data["access"] |= _BESIDE_MODELS.get((family, spec["kind"]), {})
        data["access"]["round"] |= _ROUND_BESIDE.get(name, {})
        if spec["kind"] == "underwater":
            data["access"]["radio"]["bandwidth"] = "4 kHz"
        if spec["kind"] == "csma_ca":
            for section in ("radio", "channel", "reception"):
                del data["access"][section]
        if spec["kind"] == "lorawan":
            data["access"]["update_size"] = "50 B"
            data["access"]["radio"]["bandwidth"] = "125 kHz"
        inner = {
            "placement": ("topology", {"kind": "star", "placement": spec}),
            "rate_adaptation": ("mac", {"kind": "csma_ca", "rate_adaptation": spec}),
        }
        name, spec = inner.get(name, (name, spec))
        data["access"] |= {{"outage": "outages"}.get(name, name): as_list.get(name, spec)}
    elif name in {"objective", "schedule", "aggregation", "device"}:
        data |= copy.deepcopy(_BESIDE_LEARNERS.get(spec["kind"], {}))
        data["learners"]["one"] |= {name: spec | _OF_ROUNDS.get(spec["kind"], {})} | _OF_LEARNERS.get(spec["kind"], {})
    else:
        spec = spec | OF_FILES.get((family, spec["kind"]), {})
        section = "track" if name == "tracker" else name
        data[section] = spec | (own_file(spec, folder) if "file" in spec else {})
        data[section] |= own_examples(spec, folder) if name == "data" else {}
        data |= {"data": _OF_LETTERS} if spec["kind"] == "lstm" else {}
        data |= {"data": _NATURAL | own_file(_NATURAL, folder)} if spec["kind"] == "natural" else {}
    return data


def own_examples(spec: dict, folder: Path) -> dict:
    """Write the folder of LEAF, or the file of Hugging Face datasets, that the example *spec* names."""
    if "folder" in spec:
        users = {"users": 6} if "users" in spec else {}
        return {"folder": str(leaf_folder(folder / "leaf", spec))} | users
    if spec["kind"] == "huggingface":
        return {"path": str(letters_file(folder))}
    return {}


def leaf_folder(folder: Path, spec: dict) -> Path:
    """Write a folder of LEAF with six users that fits the example *spec*, and return it."""
    rng, (labels, inputs) = np.random.default_rng(0), {"leaf": (5, 60), "femnist": (62, 784)}[spec["kind"]]
    for part, count in (("train", 60), ("test", 20)):
        (folder / part).mkdir(parents=True)
        data = {
            f"f{user}": {"x": rng.random((count, inputs)).tolist(), "y": rng.integers(labels, size=count).tolist()}
            for user in range(6)
        }
        (folder / part / "all_data.json").write_text(json.dumps({"users": [*data], "user_data": data}))
    return folder


def letters_file(folder: Path) -> Path:
    """Write images with labels and users for Hugging Face datasets, and return the file."""
    rng = np.random.default_rng(0)
    images = rng.random((60, 1, 8, 8)).tolist()
    frame = pd.DataFrame({"image": images, "label": np.arange(60) % 10, "writer": np.arange(60) % 6})
    frame.to_json(folder / "letters.jsonl", orient="records", lines=True)
    return folder / "letters.jsonl"


def own_file(spec: dict, folder: Path) -> dict:
    """Write a small data file that fits the example *spec*; return its path as an override."""
    rng = np.random.default_rng(0)
    label = np.arange(900) % spec["labels"]
    path = folder / Path(spec["file"]).name
    if path.suffix == ".npz":
        np.savez(path, x=rng.normal(size=(900, *spec["features"])), label=label)
    else:
        columns = {name: rng.normal(size=900) for name in spec["features"]}
        pd.DataFrame(columns | {spec["label"]: label, spec["user"]: np.arange(900) % 6}).to_csv(path, index=False)
    return {"file": str(path)}


def example_settings(family: str, kind: str) -> dict:
    """Return the example of a model as plain data."""
    model: type[Spec] = find_model(base_of(family), kind)
    return parse(example(model), kind)
