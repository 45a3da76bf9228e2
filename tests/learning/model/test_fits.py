"""Where models start, on what examples they can be trained, and which modules of the user's own are refused."""

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from netfl.errors import ScenarioError
from netfl.learning.model import Model
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.module import Module
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.model.svm import Svm
from netfl.registry import find_model, list_kinds
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.streams import Streams

PICTURE, LETTERS = ((1, 8, 8), 10, None), ((6,), 3, 5)
SMALL = Module(module="support.plugin_modules:Small", args={"width": 4})


def started(model, examples, seed=0):
    """Where each named parameter starts."""
    network = model.open(*examples)
    sizes = [int(np.prod(shape)) for shape in network.layout.values()]
    return dict(zip(network.layout, np.split(network.start(Streams(seed)), np.cumsum(sizes)[:-1]), strict=True))


def fills(drawn, bound):
    """Whether it reaches from -bound to bound, and no farther."""
    return 0.8 * bound < np.abs(drawn).max() <= bound and 0.4 * bound < drawn.std() < 0.75 * bound


def test_a_cnn_starts_as_in_pytorch():
    parts = started(Cnn(channels=(6, 16), kernel=5, padding=2, hidden=(30,)), PICTURE)
    for name, fan_in in (("convolutions.0", 25), ("convolutions.1", 150), ("layers.0", 64), ("layers.1", 30)):
        assert fills(parts[f"{name}.weight"], fan_in**-0.5)
        assert np.abs(parts[f"{name}.bias"]).max() <= fan_in**-0.5
        assert parts[f"{name}.bias"].any()


def test_a_cnn_may_start_normal_save_for_its_last_layer():
    parts = started(Cnn(channels=(32, 32), hidden=(64,), weights="kaiming_normal"), PICTURE)
    for name, fan_in in (("convolutions.0", 9), ("convolutions.1", 288), ("layers.0", 128)):
        weights = parts[f"{name}.weight"]
        assert weights.std() == pytest.approx((2 / fan_in) ** 0.5, rel=0.2)
        assert np.abs(weights).max() > 2 * weights.std()
        assert not parts[f"{name}.bias"].any()
    assert fills(parts["layers.1.weight"], 64**-0.5)
    assert parts["layers.1.bias"].any()


def test_an_lstm_starts_as_in_pytorch():
    parts = started(Lstm(embedding=8, hidden=16, layers=2), ((6,), 3, 80))
    assert parts.pop("embedding.weight").std() == pytest.approx(1, rel=0.15)
    assert len(parts) == 10
    for drawn in parts.values():
        assert np.abs(drawn).max() <= 0.25
        assert drawn.any()
    assert fills(np.concatenate([*parts.values()]), 0.25)


def test_a_resnet_starts_with_groups_that_only_normalise():
    parts = started(Resnet8(width=8, groups=4), PICTURE)
    scales = {name: drawn for name, drawn in parts.items() if name.endswith(".1.weight")}
    assert len(scales) == 9
    assert all((drawn == 1).all() for drawn in scales.values())
    assert not any(parts[name.replace("weight", "bias")].any() for name in scales)
    assert fills(parts["blocks.1.first.0.weight"], 72**-0.5)
    assert parts["first.0.weight"][:8].tolist() != parts["last.bias"][:8].tolist()


@pytest.mark.parametrize(
    ("model", "examples"),
    [
        (Svm(), PICTURE),
        (Cnn(channels=(3,)), PICTURE),
        (Lstm(hidden=3), LETTERS),
        (Resnet8(width=4, groups=2), PICTURE),
        (SMALL, PICTURE),
    ],
)
def test_a_start_depends_on_its_streams_alone(model, examples):
    one, again, other = (model.open(*examples).start(Streams(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one, again)
    assert not np.isclose(one, other).all()


def test_no_global_generator_is_touched():
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - left as it was
    for model, examples in (
        (SMALL, PICTURE),
        (Lstm(hidden=3), LETTERS),
        (Resnet8(), PICTURE),
        (Cnn(channels=(2,)), PICTURE),
    ):
        assert not [*model.misfits(*examples)]
        model.parameters(*examples)
        network = model.open(*examples)
        network.start(Streams(0))
        network.open(torch.zeros((1, network.size))).scores(torch.zeros((1, 2, *examples[0])))
    assert torch.equal(before[0], torch.get_rng_state())
    assert all(np.array_equal(one, other) for one, other in zip(before[1], np.random.get_state(), strict=True))  # noqa: NPY002
    assert before[2] == random.getstate()


@pytest.mark.parametrize(
    ("model", "examples", "key", "said"),
    [
        (Cnn(channels=(6,)), ((64,), 10, None), "", "needs images"),
        (Cnn(channels=(6,)), ((1, 8, 8), 10, 5), "", "needs images"),
        (Resnet8(), ((64,), 10, None), "", "needs images"),
        (Cnn(channels=(6,) * 4), PICTURE, "channels", "8 x 8 pixels are too small for 4 convolutions"),
        (Cnn(channels=(6,), kernel=9, padding=0), PICTURE, "kernel", "too large for images of 8 x 8 pixels"),
        (Cnn(channels=(4,), kernel=20), PICTURE, "kernel", "(20); make it at most 9"),
        (Cnn(channels=(4,), kernel=8, padding=0), PICTURE, "kernel", "(8); make it at most 7"),
        (Lstm(), ((6,), 3, None), "", "needs rows of tokens"),
        (Lstm(), ((6, 2), 3, 5), "", "needs rows of tokens"),
        (Logistic(), LETTERS, "", "needs measurements"),
        (Mlp(hidden=(3,)), LETTERS, "", "needs measurements"),
        (Svm(), LETTERS, "", "needs measurements"),
        (Module(module="nowhere:Net"), PICTURE, "module", "cannot be imported: there is no module 'nowhere'"),
        (Module(module="support.plugin_modules:Net"), PICTURE, "module", "exists, but has no class 'Net'"),
        (Module(module="netfl.learning.model.svm:Svm"), PICTURE, "module", "is not a torch.nn.Module"),
        (
            Module(module="support.plugin_modules:Small"),
            PICTURE,
            "args",
            "missing 1 required positional argument: 'width'",
        ),
        (
            Module(module="support.plugin_modules:Small", args={"width": 3}),
            ((9,), 10, None),
            "module",
            "fails on examples",
        ),
        (Module(module="support.plugin_modules:Small", args={"width": 3}), ((64,), 4, None), "module", "gives [3, 10]"),
        (Module(module="support.plugin_modules:Pair"), PICTURE, "module", "'tuple' object has no"),
        (Module(module="support.plugin_modules:ByBatch"), PICTURE, "module", "normalises by batch"),
        (Module(module="support.plugin_modules:Dropping"), PICTURE, "module", "draws at random"),
        (Module(module="support.plugin_modules:Counting"), PICTURE, "module", "changes its buffers"),
        (Module(module="support.plugin_modules:Mixing"), PICTURE, "module", "different scores in another batch"),
        (Module(module="support.plugin_modules:Frozen"), PICTURE, "module", "not trained: 1.bias"),
        (Module(module="support.plugin_modules:Double"), PICTURE, "module", "parameters of type torch.float64"),
        (Module(module="support.plugin_modules:Half"), PICTURE, "module", "parameters of type torch.bfloat16"),
        (Module(module="support.plugin_modules:DoubleScores"), PICTURE, "module", "scores of type torch.float64"),
        (Module(module="support.plugin_modules:DoubleInside"), PICTURE, "module", "fails on examples"),
    ],
)
def test_examples_and_modules_that_do_not_fit_are_told(model, examples, key, said):
    (fault,) = model.misfits(*examples)
    assert fault.key == key
    assert said in str(fault)
    assert fault.remedy


@pytest.mark.parametrize(
    ("model", "examples"),
    [
        (Cnn(channels=(6, 6, 6)), PICTURE),
        (Cnn(channels=(6,), kernel=7, padding=0), PICTURE),
        (Svm(), PICTURE),
        (Lstm(), LETTERS),
        (Resnet8(), ((3, 1, 1), 10, None)),
        (SMALL, PICTURE),
        (Module(module="support.plugin_modules:Tied"), ((6,), 5, 5)),
    ],
)
def test_those_that_fit_are_not(model, examples):
    assert not [*model.misfits(*examples)]
    network = model.open(*examples)
    theta = torch.from_numpy(network.start(Streams(0)))[None]
    assert network.open(theta).scores(torch.zeros((1, 2, *examples[0])).double()).shape == (1, 2, examples[1])


def test_what_a_scenario_says_wrong_is_told():
    with pytest.raises(ScenarioError, match=r"package\.module:Class"):
        Module(module="Net")
    with pytest.raises(ScenarioError, match="groups must divide width, 12, which 8 does not"):
        Resnet8(width=12, groups=8)


def test_a_module_that_cannot_be_made_is_no_traceback():
    with pytest.raises(ScenarioError, match=r"args: .*'width'"):
        Module(module="support.plugin_modules:Small").parameters(*PICTURE)


def test_a_scenario_tells_the_fault_with_its_key():
    scenario = {
        "name": "x", "users": 3, "rounds": 2, "access": {"kind": "stationary", "rho": {"zipf": 1}}, "data": "digits",
        "partition": "iid", "model": {"kind": "module", "module": "support.plugin_modules:ByBatch"},
        "learners": {"a": {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 4, "local_steps": 1}},
    }  # fmt: skip
    with pytest.raises(ScenarioError) as error:
        validate(ScenarioDocument(scenario, "x"))
    (fault,) = error.value.faults
    assert fault.key == "model.module"
    assert "GroupNorm" in fault.remedy


def test_buffers_are_the_same_for_all_and_parameters_are_not():
    network = SMALL.open(*PICTURE)
    theta = torch.zeros((1, network.size)).double()
    theta[0, -10:] = 1
    scores = network.open(theta).scores(torch.zeros((1, 1, 1, 8, 8)).double())
    assert torch.allclose(scores[0, 0], torch.linspace(0.5, 1.5, 10).double())


@pytest.mark.slow
def test_the_papers_models_are_counted_without_torch():
    code = (
        "import sys\n"
        "from netfl.learning.model import cnn, lstm, resnet8, svm\n"
        "made = (cnn.Cnn(channels=(6, 16)), ((1, 28, 28), 10)), (lstm.Lstm(), ((80,), 80, 80)),"
        " (resnet8.Resnet8(), ((3, 32, 32), 10)), (svm.Svm(), ((100,), 2))\n"
        "print([model.parameters(*what) for model, what in made], [len(model.laws()) for model, _ in made],"
        " [[*model.misfits(*what, *[None] * (3 - len(what)))] for model, what in made])\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
SHOWN = re.findall(
    r"```yaml\n# ([\d,]+) parameters for examples (\[[\d, ]+\]) of (\d+) classes(?:, (\d+) tokens)?\n(.*?)```",
    PAGE,
    re.DOTALL,
)


@pytest.mark.parametrize(("parameters", "shape", "classes", "tokens", "said"), SHOWN)
def test_the_page_of_models_counts_rightly(parameters, shape, classes, tokens, said):
    told = parse(said, "page")["model"]
    told = {"kind": told} if isinstance(told, str) else told
    model = find_model(Model, told.pop("kind")).model_validate(told)
    examples = tuple(parse(shape, "page")), int(classes), int(tokens) if tokens else None
    assert not [*model.misfits(*examples)]
    assert model.parameters(*examples) == int(parameters.replace(",", ""))


def test_the_page_of_models_shows_every_kind():
    assert len(SHOWN) == 9
    assert [kind for kind in list_kinds(Model) if f"| `{kind}` |" not in PAGE] == []
