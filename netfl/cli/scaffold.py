"""Starter files: a small working model of any family, to be made one's own, and its test."""

from __future__ import annotations

import sys
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from netfl.errors import Fault, MachineError, ScenarioError

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
"""A small network, into which a model of one of its families is put."""
_WATCHED = {
    "kind": "network",
    "topology": "{kind: star, radius: 200 m, rate: 1 Mbps}",
    "traffic": "{kind: poisson, load: 0.5, enters: towers}",
}
"""The same for a theory, which is held beside traffic."""
_LEARNING = {
    "data": "{kind: blobs, centers: [[0, 0], [3, 3]], samples: 60}",
    "partition": "iid",
    "model": "logistic",
}
"""The same for learning."""
_LEARNER = {"objective": "erm", "aggregation": "average", "lr": "0.1", "batch_size": "8", "local_steps": "2"}
"""A learner, for what learners consist of."""


def write_starter(family: str, name: str, folder: Path) -> str:
    """Write ``NAME.py`` and ``test_NAME.py`` into *folder*, and say what they are and what to do with them.

    Args:
        family: the path of a family, such as ``network/channel``.
        name: the module's name, such as ``my_fading``, whose model is then ``MyFading``.
        folder: is made if it is not there.

    Raises:
        ScenarioError: no good name, or a file that is there already.
        MachineError: the files cannot be written.
    """
    model = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    paths = folder / f"{name}.py", folder / f"test_{name}.py"
    _check(name, model, paths)
    kind, part = f"{name}:{model}", family.rpartition("/")[2]
    told = {"name": name, "model": model, "start": _start(family), "scenario": _scenario(family, kind)}
    told["rounds"] = "100" if part == "theory" else "4"
    starters = (
        Template(files("netfl.cli").joinpath("templates", f"{one}.txt").read_text("utf-8")) for one in (part, "test")
    )
    texts = [starter.substitute(told) for starter in starters]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, "utf-8")
    except OSError as error:
        raise MachineError(f"cannot write into {folder}: {error.strerror or error}") from error
    there = "" if folder == Path() else f"PYTHONPATH={folder} "
    return (
        f"{paths[0]}: a small model that works, to be made your own; {kind} is its kind in a scenario\n"
        f"{paths[1]}: holds it to its laws, and runs it\n"
        f"next: {there}netfl list {part} {kind}, or pytest {paths[1]}"
    )


def _check(name: str, model: str, paths: tuple[Path, Path]) -> None:
    """Refuse names that cannot be imported, and to overwrite."""
    if not (name.isidentifier() and model.isidentifier()) or iskeyword(name):
        remedy = "write letters, digits and underscores, such as my_fading"
        raise ScenarioError([Fault("", "no name for a Python module", name, remedy)])
    there = [path for path in paths if path.exists()]
    if there:
        faults = [Fault("", f"{path} is there already", remedy="take another name, or move it away") for path in there]
        raise ScenarioError(faults)
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ScenarioError([Fault("", "there is a Python module of that name already", name, "take another name")])


def _start(family: str) -> str:
    """How a test starts a run of the small scenario."""
    run, device = ("run", ', device="cpu"') if family.startswith("learning/") else ("trace", "")
    return f'netfl.{run}(netfl.load(tmp_path / "small.yaml"), tmp_path / "run"{device})'


def _scenario(family: str, kind: str) -> str:
    """A small scenario in which the model of that *kind* takes part."""
    part = family.rpartition("/")[2]
    lines = ["name: small", "users: 6", "rounds: 4"]
    if family == "access":
        return "\n".join([*lines, f"access: {kind}"])
    if part == "theory":
        lines[-1] = "duration: 20 s"
        return "\n".join(
            [*lines, "access:", *(f"  {key}: {value}" for key, value in _WATCHED.items()), f"  theory: {kind}"]
        )
    if part == "selection":
        return "\n".join([*lines, f"access: {{kind: bernoulli, probability: 0.5, selection: {kind}}}"])
    if family.startswith("network/"):
        special = {
            "channel": {"channel": f"{_NETWORK['channel'][:-1]}, {kind}]"},
            "outage": {"outages": f"[{kind}]"},
            "placement": {"topology": f"{{kind: star, placement: {kind}}}"},
        }
        said = _NETWORK | special.get(part, {part: kind})
        return "\n".join([*lines, "access:", "  kind: network", *(f"  {key}: {value}" for key, value in said.items())])
    of_learner = part in {"objective", "schedule", "aggregation"}
    said = _LEARNING if of_learner else _LEARNING | {part: kind}
    learner = _LEARNER | {part: kind} if of_learner else _LEARNER
    lines += ["access: {kind: stationary, rho: {zipf: 1}}", *(f"{key}: {value}" for key, value in said.items())]
    return "\n".join([*lines, "learners:", f"  mine: {{{', '.join(f'{key}: {one}' for key, one in learner.items())}}}"])
