"""Modules and losses of a notebook or script, and all parts of a module in the recorded versions."""

import numpy as np
import pytest
import torch
from support.backward_modules import TiedRows
from support.plain_loops import DATA
from support.training_modules import HalfFrozen, focal
from torch import nn

import netfl
from netfl.errors import ScenarioError


def scenario(model, **options):
    return {
        "name": "x", "users": 2, "rounds": 2, "access": {"kind": "bernoulli", "probability": 1.0},
        "data": (DATA.train_x, DATA.train_y), "partition": "iid", "model": model, "record": {"versions": True},
        "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}},
    } | options  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
def test_a_lambda_trains_and_extends_a_run_of_this_process(tmp_path):
    loss = lambda scores, y: 2 * focal(scores, y)  # noqa: E731 - as a user writes it
    run = netfl.run(scenario({"module": HalfFrozen, "loss": loss}), tmp_path / "run", progress=False)
    assert netfl.extend(run.folder, 2, progress=False).summary["replicas"] == 2
    text = (run.folder / "scenario.yaml").read_text()
    (run.folder / "scenario.yaml").write_text(text.replace("netfl_session:", "netfl_session:other_"))
    with pytest.raises(
        ScenarioError, match=r"model\.loss: .*only the notebook or script that made the scenario has it"
    ):
        netfl.extend(run.folder, 3, progress=False)


@pytest.mark.parametrize(
    "module",
    [
        type("Net", (HalfFrozen,), {"__module__": "__main__"}),
        type("Net", (HalfFrozen,), {"__qualname__": "make.<locals>.Net"}),
        type("HalfFrozen", (HalfFrozen,), {"__module__": HalfFrozen.__module__}),
    ],
)
def test_a_class_that_an_extension_could_not_find_is_refused(module):
    with pytest.raises(ScenarioError) as raised:
        netfl.load(scenario(module))
    (error,) = str(raised.value).splitlines()
    assert error.startswith("model.module: the class '")
    assert "cannot be imported by other processes, such as those of netfl.extend" in error
    assert "define it in a file, and import it from there; or give an instance" in error


@pytest.mark.slow
@pytest.mark.parametrize("module", [HalfFrozen, TiedRows])
def test_versions_fill_the_state_of_a_module(tmp_path, module):
    run = netfl.run(scenario(module), tmp_path / "run", progress=False)
    net, last = module(), run.versions("A")[2]
    net.load_state_dict({name: torch.from_numpy(values) for name, values in last.items()})
    scores = net.eval()(torch.from_numpy(netfl.load(scenario(module)).data.load(None).test_x))
    labels = torch.from_numpy(netfl.load(scenario(module)).data.load(None).test_y)
    recorded = run.metrics.query("metric == 'loss' and group == '' and round == 2")["value"]
    assert recorded.tolist() == pytest.approx([nn.functional.cross_entropy(scores, labels).item()], abs=1e-5)
    if module is HalfFrozen:
        start = run.versions("A")[0]
        for name in ("0.weight", "0.bias", "1.weight", "1.bias", "1.num_batches_tracked"):
            assert np.array_equal(start[name], last[name])
