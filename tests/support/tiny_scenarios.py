"""Tiny scenarios, one around each model that there is: its example, in a world in which it can run."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd

import netfl
from netfl.registry import FAMILIES, Spec, base_of, example, find_model, list_kinds
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


_SHOWN = Path(__file__).parents[2] / "scenarios" / "validation"
_FILES = Path(__file__).parents[1] / "network" / "data"
OF_FILES = {
    ("network/topology", "file"): {"file": str(_FILES / "valley.graphml"), "server": "town", "towers": ["mast"]},
    ("network/placement", "table"): {"file": str(_FILES / "places.csv")},
    ("network/motion", "trajectory"): {"file": str(_FILES / "walks.csv")},
    ("learning/model", "module"): {"module": "support.plugin_modules:Small", "args": {"width": 4}},
}
"""What takes the place of the files and modules that examples name."""
_OF_LETTERS = {"kind": "support.plugin_data:Letters"}
"""Data that are rows of tokens."""
_NATURAL = {"kind": "table", "file": "own.csv", "features": ["a", "b"], "label": "l", "labels": 3, "user": "who"}
"""Data with users of their own, for the partition that goes by them."""
_OF_LEARNERS = {"qfedsgd": {"batch_size": "full", "local_steps": 1}}
"""Local work that an aggregation asks for."""
_OF_ROUNDS = {"halving": {"every": 2}, "step": {"milestones": [1, 3]}}
"""What takes the place of the thousands of rounds that schedules are for."""
_ROUND_BESIDE = {"traffic": {"deadline": "10 s"}}
"""Rounds that end soon, beside packets that keep coming until then."""
_OF_NETWORKS = {"score"}
"""Selections that go by airtimes."""


def world(family: str, said: dict, folder: Path) -> dict:
    """A tiny scenario with the model *said* in it."""
    data = copy.deepcopy(TINY)
    part = family.rpartition("/")[2]
    several = family in {"access", "access/selection", "network/round"}
    data["learners"]["one"]["aggregation"] = "average" if several else "relay"
    if family == "access":
        data |= {"access": said, "users": 3}
        if said["kind"] == "replay":
            recorded = {key: data[key] for key in ("name", "users", "rounds")}
            recorded["access"] = {"kind": "stationary", "rho": {"zipf": 1}}
            netfl.trace(validate(ScenarioDocument(recorded, "tiny")), folder / "recorded")
            data["access"] = said | {"run": str(folder / "recorded")}
    elif family == "access/selection":
        direct = {"kind": "bernoulli", "probability": 0.5}
        data["access"] = (copy.deepcopy(SECTION) if said["kind"] in _OF_NETWORKS else direct) | {"selection": said}
    elif family == "network/theory":
        shown = _SHOWN / f"{said['kind']}.yaml"
        data = parse(shown.read_text(), shown.name) | {"duration": "1 s", "warmup": 0}
        data["access"]["theory"] = said
    elif family.startswith("network/"):
        data["access"] = copy.deepcopy(SECTION)
        said = said | OF_FILES.get((family, said["kind"]), {})
        listed = {"channel": [said], "outage": [said]}
        data["access"]["round"] |= _ROUND_BESIDE.get(part, {})
        if said["kind"] == "underwater":
            data["access"]["radio"]["bandwidth"] = "4 kHz"
        if said["kind"] == "csma_ca":
            for name in ("radio", "channel", "reception"):
                del data["access"][name]
        if said["kind"] == "lorawan":
            data["access"]["update_size"] = "50 B"
            data["access"]["radio"]["bandwidth"] = "125 kHz"
        if part == "placement":
            part, said = "topology", {"kind": "star", "placement": said}
        data["access"] |= {{"outage": "outages"}.get(part, part): listed.get(part, said)}
    elif part in {"objective", "schedule", "aggregation"}:
        data["learners"]["one"] |= {part: said | _OF_ROUNDS.get(said["kind"], {})} | _OF_LEARNERS.get(said["kind"], {})
    else:
        said = said | OF_FILES.get((family, said["kind"]), {})
        data[part] = said | (own_file(said, folder) if "file" in said else {})
        data |= {"data": _OF_LETTERS} if said["kind"] == "lstm" else {}
        data |= {"data": _NATURAL | own_file(_NATURAL, folder)} if said["kind"] == "natural" else {}
    return data


def own_file(said: dict, folder: Path) -> dict:
    """Writes a small file of the user's own data as the example describes it."""
    rng = np.random.default_rng(0)
    label = np.arange(900) % said["labels"]
    path = folder / Path(said["file"]).name
    if path.suffix == ".npz":
        np.savez(path, x=rng.normal(size=(900, *said["features"])), label=label)
    else:
        columns = {name: rng.normal(size=900) for name in said["features"]}
        pd.DataFrame(columns | {said["label"]: label, said["user"]: np.arange(900) % 6}).to_csv(path, index=False)
    return {"file": str(path)}


def said_of(family: str, kind: str) -> dict:
    """The example of a model, as plain data."""
    model: type[Spec] = find_model(base_of(family), kind)
    return parse(example(model), kind)
