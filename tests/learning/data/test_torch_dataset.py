"""Data sets of PyTorch: by name in a file, and as objects in memory."""

import numpy as np
import pytest
from PIL import Image
from support.plugin_data import Images, make_images

import netfl
from netfl.errors import ScenarioError
from netfl.learning.data._in_memory import stack
from netfl.learning.data.torch_dataset import TorchDataset
from netfl.streams import Streams

NAME = "support.plugin_data:make_images"


def dataset(**options):
    return TorchDataset(**{"dataset": NAME, "features": (1, 8, 8), "labels": 10} | options)


def test_items_are_read_with_the_arguments_of_the_function():
    data = dataset(args={"train": True}, test=NAME, test_args={"train": False}).load(Streams(0))
    expected = make_images(train=True)
    assert (data.train_x.shape, data.test_x.shape) == ((120, 1, 8, 8), (40, 1, 8, 8))
    assert np.sort(data.train_x.ravel()).tolist() == np.sort(expected.x.numpy().ravel()).tolist()
    assert data.train_user is None
    assert np.bincount(data.train_y).tolist() == [12] * 10


@pytest.mark.parametrize("form", ["triple", "mapping"])
def test_items_may_have_a_user(form):
    data = dataset(args={"form": form}).load(Streams(0))
    assert np.bincount(data.train_user).tolist() == [32] * 3
    assert np.bincount(data.test_user).tolist() == [8] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "nowhere:make"}, "dataset: cannot be imported: there is no module 'nowhere'"),
        ({"dataset": "support.plugin_data:fail"}, "fails with the arguments {}: FileNotFoundError: no such images"),
        ({"args": {"rows": 3}}, "fails with the arguments {'rows': 3}: TypeError"),
        ({"args": {"labels": 11}}, "labels: .*has other labels than 0 to 9, such as 10"),
        ({"features": (1, 8, 9)}, "features: .*has examples of shape"),
        ({"test_args": {"train": False}}, "test_args: has no effect without test"),
        ({"labels": None}, "give the number of labels or, for a regression, of targets"),
        ({"targets": 1}, "give the number of labels or, for a regression, of targets"),
    ],
)
def test_errors_name_the_key(options, message):
    with pytest.raises(ScenarioError, match=message):
        dataset(**options).load(Streams(0))


@pytest.mark.parametrize("form", ["pair", "triple", "mapping"])
def test_objects_in_memory_have_the_same_forms(form):
    arrays = stack(Images(form, count=7))
    assert arrays["x"].shape == (7, 1, 8, 8)
    assert arrays["label"].tolist() == [*range(7)]
    assert ("user" in arrays) is (form != "pair")


def test_images_of_pillow_become_channels_with_pixels_up_to_1():
    colours = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
    arrays = stack([{"image": Image.fromarray(colours), "label": 1}, {"image": Image.fromarray(colours), "label": 0}])
    assert arrays["x"][0] == pytest.approx(colours.transpose(2, 0, 1) / 255)
    grey = stack([(Image.fromarray(colours[..., 0]), 1), (Image.fromarray(colours[..., 0]), 0)])
    assert grey["x"].shape == (2, 1, 2, 3)


def test_items_with_other_keys_are_refused():
    with pytest.raises(ScenarioError, match="it has the keys pixels, label, none of which is the x"):
        stack([{"pixels": [1.0], "label": 0}])


def test_a_run_repeats_from_its_file(tmp_path):
    scenario = {
        "name": "own", "users": 3, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.9},
        "data": {"kind": "torch_dataset", "dataset": NAME, "args": {"form": "triple"}, "features": [1, 8, 8]}
        | {"labels": 10},
        "partition": "natural", "model": "logistic",
        "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 3}},
    }  # fmt: skip
    first = netfl.run(scenario, tmp_path / "a", device="cpu")
    second = netfl.run(first.folder / "scenario.yaml", tmp_path / "b", device="cpu")
    assert first.metrics.equals(second.metrics)
