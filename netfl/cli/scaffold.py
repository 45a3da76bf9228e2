"""Starter files: a small working model of any family, and its test."""

from __future__ import annotations

import sys
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from netfl.errors import Fault, ScenarioError, cannot_write

_NETWORK = {
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
    paths = folder / f"{name}.py", folder / f"test_{name}.py"
    _check(name, model, paths)
    kind, part = f"{name}:{model}", family.rpartition("/")[2]
    run, device = ("run", ', device="cpu"') if family.startswith(("learning/", "tracker")) else ("trace", "")
    start = f'netfl.{run}(netfl.load(tmp_path / "small.yaml"), tmp_path / "run"{device})'
    fields = {"name": name, "model": model, "start": start, "scenario": _scenario(family, kind)}
    fields["rounds"] = "100" if part == "theory" else "4"
    starters = (
        Template(files("netfl.cli").joinpath("templates", f"{template}.txt").read_text("utf-8"))
        for template in (part, "test")
    )
    texts = [starter.substitute(fields) for starter in starters]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, "utf-8")
    except OSError as error:
        raise cannot_write(error, folder) from error
    environment = "" if folder == Path() else f"PYTHONPATH={folder} "
    return (
        f"{paths[0]}: a small working model to change; its kind in a scenario is {kind}\n"
        f"{paths[1]}: tests the distributions that it states, and runs it\n"
        f"next: {environment}netfl list {part} {kind}, or pytest {paths[1]}"
    )


def _check(name: str, model: str, paths: tuple[Path, Path]) -> None:
    if not (name.isidentifier() and model.isidentifier()) or iskeyword(name):
        remedy = "write letters, digits and underscores, such as my_fading"
        raise ScenarioError([Fault("", "not a valid name of a Python module", name, remedy)])
    remedy = "use another name, or move the file away"
    if existing := [path for path in paths if path.exists()]:
        raise ScenarioError([Fault("", f"{path} already exists", remedy=remedy) for path in existing])
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ScenarioError([Fault("", "a Python module of this name already exists", name, "use another name")])


def _scenario(family: str, kind: str) -> str:
    part = family.rpartition("/")[2]
    lines = ["name: small", "users: 6", "rounds: 4"]
    if family == "access":
        return "\n".join([*lines, f"access: {kind}"])
    if part == "theory":
        lines[-1] = "duration: 20 s"
        return "\n".join(
            [*lines, "access:", *(f"  {key}: {value}" for key, value in _TRAFFIC.items()), f"  theory: {kind}"]
        )
    if part == "selection":
        return "\n".join([*lines, f"access: {{kind: bernoulli, probability: 0.5, selection: {kind}}}"])
    if family.startswith("network/"):
        special = {
            "channel": {"channel": f"{_NETWORK['channel'][:-1]}, {kind}]"},
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
        keys = _NETWORK | special.get(part, {part: kind})
        return "\n".join([*lines, "access:", "  kind: network", *(f"  {key}: {value}" for key, value in keys.items())])
    is_of_learner = part in {"objective", "schedule", "aggregation", "device"}
    keys = _LEARNING if is_of_learner else _LEARNING | {"track" if part == "tracker" else part: kind}
    learner = _LEARNER | {part: kind} if is_of_learner else _LEARNER
    lines += ["access: {kind: stationary, rho: {zipf: 1}}", *(f"{key}: {value}" for key, value in keys.items())]
    learner_keys = ", ".join(f"{key}: {value}" for key, value in learner.items())
    return "\n".join([*lines, "learners:", f"  mine: {{{learner_keys}}}"])
