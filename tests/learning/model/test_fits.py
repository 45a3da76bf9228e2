"""Initial values of models, the examples that they accept, and rejected user-defined modules."""

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from netfl.core.family_members import find_model
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.learning.model import Model
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.module import Module
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.model.svm import Svm
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.streams import Streams

IMAGES, LETTERS = ((1, 8, 8), 10, None), ((6,), 3, 5)
SMALL = Module(module="support.plugin_modules:Small", args={"width": 4})


def start_of(model, examples, seed=0):
    """Return the initial values of each named parameter."""
    network = model.open(*examples)
    sizes = [int(np.prod(shape)) for shape in network.layout.values()]
    return dict(zip(network.layout, np.split(network.start(Streams(seed)), np.cumsum(sizes)[:-1]), strict=True))


def is_uniform(values, bound):
    """Check that the values have the range and the spread of a uniform distribution on [-bound, bound]."""
    return 0.8 * bound < np.abs(values).max() <= bound and 0.4 * bound < values.std() < 0.75 * bound


def test_a_cnn_has_the_initial_values_of_pytorch():
    parts = start_of(Cnn(channels=(6, 16), kernel=5, padding=2, hidden=(30,)), IMAGES)
    for name, fan_in in (("convolutions.0", 25), ("convolutions.1", 150), ("layers.0", 64), ("layers.1", 30)):
        assert is_uniform(parts[f"{name}.weight"], fan_in**-0.5)
        assert np.abs(parts[f"{name}.bias"]).max() <= fan_in**-0.5
        assert parts[f"{name}.bias"].any()


def test_a_cnn_with_kaiming_normal_weights():
    parts = start_of(Cnn(channels=(32, 32), hidden=(64,), weights="kaiming_normal"), IMAGES)
    for name, fan_in in (("convolutions.0", 9), ("convolutions.1", 288), ("layers.0", 128)):
        weights = parts[f"{name}.weight"]
        assert weights.std() == pytest.approx((2 / fan_in) ** 0.5, rel=0.2)
        assert np.abs(weights).max() > 2 * weights.std()
        assert not parts[f"{name}.bias"].any()
    assert is_uniform(parts["layers.1.weight"], 64**-0.5)
    assert parts["layers.1.bias"].any()


def test_an_lstm_has_the_initial_values_of_pytorch():
    parts = start_of(Lstm(embedding=8, hidden=16, layers=2), ((6,), 3, 80))
    assert parts.pop("embedding.weight").std() == pytest.approx(1, rel=0.15)
    assert len(parts) == 10
    for drawn in parts.values():
        assert np.abs(drawn).max() <= 0.25
        assert drawn.any()
    assert is_uniform(np.concatenate([*parts.values()]), 0.25)


def test_group_norms_of_a_resnet_start_as_identity():
    parts = start_of(Resnet8(width=8, groups=4), IMAGES)
    scales = {name: drawn for name, drawn in parts.items() if name.endswith(".1.weight")}
    assert len(scales) == 9
    assert all((drawn == 1).all() for drawn in scales.values())
    assert not any(parts[name.replace("weight", "bias")].any() for name in scales)
    assert is_uniform(parts["blocks.1.first.0.weight"], 72**-0.5)
    assert parts["first.0.weight"][:8].tolist() != parts["last.bias"][:8].tolist()


@pytest.mark.parametrize(
    ("model", "examples"),
    [
        (Svm(), IMAGES),
        (Cnn(channels=(3,)), IMAGES),
        (Lstm(hidden=3), LETTERS),
        (Resnet8(width=4, groups=2), IMAGES),
        (SMALL, IMAGES),
    ],
)
def test_initial_values_depend_only_on_their_streams(model, examples):
    start, same, other_seed = (model.open(*examples).start(Streams(seed)) for seed in (3, 3, 4))
    assert np.array_equal(start, same)
    assert not np.isclose(start, other_seed).all()


def test_global_generators_are_unchanged():
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - left as it was
    for model, examples in (
        (SMALL, IMAGES),
        (Lstm(hidden=3), LETTERS),
        (Resnet8(), IMAGES),
        (Cnn(channels=(2,)), IMAGES),
    ):
        assert not [*model.misfits(*examples)]
        model.parameters(*examples)
        network = model.open(*examples)
        network.start(Streams(0))
        network.open(torch.zeros((1, network.size))).scores(torch.zeros((1, 2, *examples[0])))
    assert torch.equal(before[0], torch.get_rng_state())
    assert all(np.array_equal(old, new) for old, new in zip(before[1], np.random.get_state(), strict=True))  # noqa: NPY002
    assert before[2] == random.getstate()


@pytest.mark.parametrize(
    ("model", "examples", "key", "problem"),
    [
        (Cnn(channels=(6,)), ((64,), 10, None), "", "needs images"),
        (Cnn(channels=(6,)), ((1, 8, 8), 10, 5), "", "needs images"),
        (Resnet8(), ((64,), 10, None), "", "needs images"),
        (Cnn(channels=(6,) * 4), IMAGES, "channels", "8 x 8 pixels are too small for 4 convolutions"),
        (Cnn(channels=(6,), kernel=9, padding=0), IMAGES, "kernel", "too large for images of 8 x 8 pixels"),
        (Cnn(channels=(4,), kernel=20), IMAGES, "kernel", "(20); make it at most 9"),
        (Cnn(channels=(4,), kernel=8, padding=0), IMAGES, "kernel", "(8); make it at most 7"),
        (Lstm(), ((6,), 3, None), "", "needs rows of tokens"),
        (Lstm(), ((6, 2), 3, 5), "", "needs rows of tokens"),
        (Logistic(), LETTERS, "", "needs measurements"),
        (Mlp(hidden=(3,)), LETTERS, "", "needs measurements"),
        (Svm(), LETTERS, "", "needs measurements"),
        (Module(module="nowhere:Net"), IMAGES, "module", "cannot be imported: there is no module 'nowhere'"),
        (Module(module="support.plugin_modules:Net"), IMAGES, "module", "exists, but has no 'Net'"),
        (Module(module="netfl.learning.model.svm:Svm"), IMAGES, "module", "is not a torch.nn.Module"),
        (
            Module(module="support.plugin_modules:Small"),
            IMAGES,
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
        (Module(module="support.plugin_modules:Pair"), IMAGES, "module", "its forward gives a tuple, not a tensor"),
        (
            Module(module="support.plugin_modules:ByBatchAlways"),
            IMAGES,
            "module",
            "normalises by batch also in evaluation",
        ),
        (Module(module="support.plugin_modules:AlwaysDrawing"), IMAGES, "module", "draws at random in evaluation mode"),
        (
            Module(module="support.plugin_modules:HiddenCounter"),
            IMAGES,
            "module",
            "it changes 'calls', which is frozen",
        ),
        (Module(module="support.plugin_modules:NumpyNoise"), IMAGES, "module", "outside PyTorch's generator"),
        (Module(module="support.plugin_modules:AllFrozen"), IMAGES, "module", "has no parameters to train"),
        (Module(module="support.plugin_modules:Lazy"), IMAGES, "module", "has a lazy layer"),
        (Module(module="support.plugin_modules:Mixing"), IMAGES, "module", "different scores in another batch"),
        (Module(module="support.plugin_modules:Double"), IMAGES, "module", "parameters have the type torch.float64"),
        (Module(module="support.plugin_modules:Half"), IMAGES, "module", "parameters have the type torch.bfloat16"),
        (Module(module="support.plugin_modules:DoubleScores"), IMAGES, "module", "scores of type torch.float64"),
        (Module(module="support.plugin_modules:DoubleInside"), IMAGES, "module", "fails on examples"),
    ],
)
def test_examples_and_modules_that_do_not_fit_are_errors(model, examples, key, problem):
    (error,) = model.misfits(*examples)
    assert error.key == key
    assert problem in str(error)
    assert error.remedy


@pytest.mark.parametrize(
    ("model", "examples"),
    [
        (Cnn(channels=(6, 6, 6)), IMAGES),
        (Cnn(channels=(6,), kernel=7, padding=0), IMAGES),
        (Svm(), IMAGES),
        (Lstm(), LETTERS),
        (Resnet8(), ((3, 1, 1), 10, None)),
        (SMALL, IMAGES),
        (Module(module="support.plugin_modules:Tied"), ((6,), 5, 5)),
        (Module(module="support.plugin_modules:ByBatch"), IMAGES),
        (Module(module="support.plugin_modules:Dropping"), IMAGES),
        (Module(module="support.plugin_modules:Counting"), IMAGES),
        (Module(module="support.plugin_modules:Frozen"), IMAGES),
    ],
)
def test_examples_and_modules_that_fit(model, examples):
    assert not [*model.misfits(*examples)]
    network = model.open(*examples)
    theta = torch.from_numpy(network.start(Streams(0)))[None]
    assert network.open(theta).scores(torch.zeros((1, 2, *examples[0])).double()).shape == (1, 2, examples[1])


def test_invalid_settings_are_errors():
    with pytest.raises(ScenarioError, match=r"package\.module:Class"):
        Module(module="Net")
    with pytest.raises(ScenarioError, match="8 groups do not divide the width of 12"):
        Resnet8(width=12, groups=8)


def test_a_module_that_cannot_be_created_is_an_error():
    with pytest.raises(ScenarioError, match=r"args: .*'width'"):
        Module(module="support.plugin_modules:Small").parameters(*IMAGES)


def test_errors_of_a_scenario_have_the_key():
    scenario = {
        "name": "x", "users": 3, "rounds": 2, "access": {"kind": "stationary", "rho": {"zipf": 1}}, "data": "digits",
        "partition": "iid", "model": {"kind": "module", "module": "support.plugin_modules:ByBatchAlways"},
        "learners": {"a": {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": 4, "local_steps": 1}},
    }  # fmt: skip
    with pytest.raises(ScenarioError) as error:
        validate(ScenarioDocument(scenario, "x"))
    (problem,) = error.value.faults
    assert problem.key == "model.module"
    assert "GroupNorm" in problem.remedy


def test_buffers_are_shared_and_parameters_are_not():
    network = SMALL.open(*IMAGES)
    theta = torch.zeros((1, network.size)).double()
    theta[0, -10:] = 1
    scores = network.open(theta).scores(torch.zeros((1, 1, 1, 8, 8)).double())
    assert torch.allclose(scores[0, 0], torch.linspace(0.5, 1.5, 10).double())


@pytest.mark.slow
def test_counting_parameters_does_not_import_torch():
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
DOCUMENTED = re.findall(
    r"```yaml\n# ([\d,]+) parameters for examples (\[[\d, ]+\]) of (\d+) classes(?:, (\d+) tokens)?\n(.*?)```",
    PAGE,
    re.DOTALL,
)


@pytest.mark.parametrize(("parameters", "shape", "classes", "tokens", "text"), DOCUMENTED)
def test_the_documented_numbers_of_parameters_are_correct(parameters, shape, classes, tokens, text):
    settings = parse(text, "page")["model"]
    settings = {"kind": settings} if isinstance(settings, str) else settings
    model = find_model(Model, settings.pop("kind")).model_validate(settings)
    examples = tuple(parse(shape, "page")), int(classes), int(tokens) if tokens else None
    assert not [*model.misfits(*examples)]
    assert model.parameters(*examples) == int(parameters.replace(",", ""))


def test_the_page_documents_every_kind():
    assert len(DOCUMENTED) == 9
    assert [kind for kind in list_kinds(Model) if f"| `{kind}` |" not in PAGE] == []
