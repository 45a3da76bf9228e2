"""Starter files: a small working model of any family, and its test."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from netfl.errors import Fault, ScenarioError, cannot_write

_NETWORK = {
    "kind": "network",
    "topology": "{kind: star, radius: 200 m}",
    "radio": "{power: 20 dBm, bandwidth: 1 MHz}",
    "channel": "[{kind: log_distance, exponent: 2.5, frequency: 868 MHz}]",
    "reception": "{kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}",
    "mac": "{kind: slotted_aloha, probability: 0.2}",
    "queue": "drop_tail",
    "compute": "{speed: 100, samples: 100}",
    "broadcast_rate": "50 kbps",
    "update_size": "1 kB",
    "round": "{kind: first, m: 1, deadline: 10 min}",
}
"""A small network; a new model replaces the part of its family."""
_TRAFFIC = {
    "kind": "network",
    "topology": "{kind: star, radius: 200 m, rate: 1 Mbps}",
    "traffic": "{kind: poisson, load: 0.5, source: towers}",
}
"""A small network with traffic, to which a new theory is added."""
_LEARNING = {
    "data": "{kind: blobs, centers: [[0, 0], [3, 3]], samples: 60}",
    "partition": "iid",
    "model": "logistic",
}
"""Small learning keys; a new model replaces the part of its family."""
_LEARNER = {"objective": "erm", "aggregation": "average", "lr": "0.1", "batch_size": "8", "local_steps": "2"}
"""A learner; a new objective, schedule, aggregation or rule of devices replaces its part."""


def write_starter(family: str, name: str, folder: Path) -> str:
    """Write ``NAME.py`` and ``test_NAME.py`` into *folder*, and return a message about them.

    Args:
        family: the path of a family, such as ``network/channel``.
        name: the module's name, such as ``my_fading``; its model is then ``MyFading``.
        folder: the output folder; created if it does not exist.

    Raises:
        ScenarioError: the name is invalid, or a file exists already.
        MachineError: the files cannot be written.
    """
    model = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    model_path = folder / f"{name}.py"
    test_path = folder / f"test_{name}.py"
    _check(name, model, [model_path, test_path])
    kind = f"{name}:{model}"
    part = family.rpartition("/")[2]
    if family.startswith(("learning/", "tracker")):  # they act only while learners train
        start = 'netfl.run(netfl.load(tmp_path / "small.yaml"), tmp_path / "run", device="cpu")'
    else:
        start = 'netfl.trace(netfl.load(tmp_path / "small.yaml"), tmp_path / "run")'
    fields = {
        "name": name,
        "model": model,
        "start": start,
        "scenario": _scenario(family, kind),
        "rounds": "100" if part == "theory" else "4",
    }
    model_text = _template(part).substitute(fields)
    test_text = _template("test").substitute(fields)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model_path.write_text(model_text, "utf-8")
        test_path.write_text(test_text, "utf-8")
    except OSError as error:
        raise cannot_write(error, folder) from error
    table = ""
    if part == "aggregation":
        table = f", or its row in the table of rules: netfl table {kind}"
    environment = ""
    if folder != Path():  # Python finds only modules of the current folder
        environment = f"PYTHONPATH={folder} "
    return (
        f"{model_path}: a small working model to change; its kind in a scenario is {kind}\n"
        f"{test_path}: tests the distributions that it states, and runs it\n"
        f"next: {environment}netfl list {part} {kind}, or pytest {test_path}{table}"
    )


def _check(name: str, model: str, paths: Sequence[Path]) -> None:
    """Raise an error for a name that is invalid or taken."""
    if not (name.isidentifier() and model.isidentifier()) or iskeyword(name):
        remedy = "write letters, digits and underscores, such as my_fading"
        raise ScenarioError([Fault("", "not a valid name of a Python module", name, remedy)])
    existing = [path for path in paths if path.exists()]
    if existing:
        remedy = "use another name, or move the file away"
        raise ScenarioError([Fault("", f"{path} already exists", remedy=remedy) for path in existing])
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ScenarioError([Fault("", "a Python module of this name already exists", name, "use another name")])


def _template(name: str) -> Template:
    return Template(files("netfl.cli").joinpath("templates", f"{name}.txt").read_text("utf-8"))


def _scenario(family: str, kind: str) -> str:
    """Return a small scenario with the new model."""
    part = family.rpartition("/")[2]
    if part == "theory":
        head = ["name: small", "users: 6", "duration: 20 s"]
    else:
        head = ["name: small", "users: 6", "rounds: 4"]
    return "\n".join([*head, *_sections(family, part, kind)])


def _sections(family: str, part: str, kind: str) -> list[str]:
    """Return the lines below the head of a scenario, with a model of this *kind* at its place."""
    if family == "access":
        return [f"access: {kind}"]
    if part == "selection":
        return [f"access: {{kind: bernoulli, probability: 0.5, selection: {kind}}}"]
    if part == "theory":
        return ["access:", *_lines(_TRAFFIC | {"theory": kind}, indent="  ")]
    if family.startswith("network/"):
        network = _NETWORK | _network_keys(part, kind)
        return ["access:", *_lines(network, indent="  ")]
    learning = _LEARNING
    learner = _LEARNER
    if part in {"objective", "schedule", "aggregation", "device"}:
        learner = _LEARNER | {part: kind}
    elif part == "tracker":
        learning = _LEARNING | {"track": kind}
    else:
        learning = _LEARNING | {part: kind}
    return [
        "access: {kind: stationary, rho: {zipf: 1}}",
        *_lines(learning),
        "learners:",
        f"  mine: {{{', '.join(_lines(learner))}}}",
    ]


def _network_keys(part: str, kind: str) -> dict[str, str]:
    """Return the keys of a network that name the new model, and those that it needs."""
    special = {
        "channel": {"channel": f"{_NETWORK['channel'][:-1]}, {kind}]"},  # behind the one in the list
        "outage": {"outages": f"[{kind}]"},
        "placement": {"topology": f"{{kind: star, placement: {kind}}}"},
        "association": {
            "topology": "{kind: tree, fanout: [3], ring: 200 m, radius: 200 m, rate: 1 Mbps, delay: 1 ms}",
            "motion": "{kind: random_waypoint, radius: 500 m, speed: [10, 20]}",
            "association": kind,
        },
        "rate_adaptation": {
            "radio": "{power: 15 dBm, bandwidth: 20 MHz}",
            "reception": "{kind: mcs, standard: 802.11a}",
            "mac": f"{{kind: csma_ca, rate_adaptation: {kind}}}",
        },
        "allocation": {
            "mac": "{kind: fdma, division: allocated}",
            "reception": "{kind: shannon}",
            "allocation": kind,
        },
    }
    return special.get(part, {part: kind})


def _lines(keys: Mapping[str, str], indent: str = "") -> list[str]:
    return [f"{indent}{key}: {value}" for key, value in keys.items()]
