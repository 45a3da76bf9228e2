"""Sets of pictures: what becomes of pixels, and files in the forms in which sets are published."""

from __future__ import annotations

import io
import lzma
from functools import partial

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from support.file_reader_seeds import packed

from netfl.errors import ScenarioError
from netfl.learning.data._images import scale_pixels
from netfl.learning.data.cifar10 import Cifar10
from netfl.learning.data.cifar100 import Cifar100
from netfl.learning.data.cinic10 import Cinic10
from netfl.learning.data.fashion_mnist import FashionMnist
from netfl.learning.data.mnist import Mnist
from netfl.learning.data.svhn import Svhn
from netfl.streams import Streams

RNG = np.random.default_rng(5)
archived = partial(packed, mode="w:gz")


def pictures(count):
    return RNG.integers(0, 256, (count, 3, 32, 32), np.uint8)


def recorded(x, *labels):
    """Records of CIFAR's binary form."""
    return b"".join(bytes([one[row] for one in labels]) + x[row].tobytes() for row in range(len(x)))


def test_cifar10_is_read_from_its_archive(placed):
    x, y = pictures(12), np.arange(12) % 10
    parts = {
        f"cifar-10-batches-bin/data_batch_{i + 1}.bin": recorded(x[2 * i : 2 * i + 2], y[2 * i :]) for i in range(5)
    }
    parts["cifar-10-batches-bin/test_batch.bin"] = recorded(x[10:], y[10:])
    placed("cifar10", {"cifar-10-binary.tar.gz": archived(parts | {"cifar-10-batches-bin/readme.html": b"no"})})
    found = Cifar10(train_scale="raw", test_scale="raw").load(Streams(0))
    assert (found.train_x == x[:10]).all()
    assert (found.test_x == x[10:]).all()
    assert found.train_y.tolist() == list(range(10))
    assert found.test_y.tolist() == [0, 1]


def test_cifar100_has_two_labels_to_choose_from(placed):
    x, fine, coarse = pictures(6), RNG.integers(0, 100, 6), RNG.integers(0, 20, 6)
    files = {name: recorded(x[rows], coarse[rows], fine[rows]) for name, rows in
             (("c/train.bin", slice(0, 4)), ("c/test.bin", slice(4, 6)))}  # fmt: skip
    placed("cifar100", {"cifar-100-binary.tar.gz": archived(files)})
    found, of_kinds = (Cifar100(coarse=coarse).load(Streams(0)) for coarse in (False, True))
    assert (found.train_y.tolist(), found.test_y.tolist(), found.classes) == (fine[:4].tolist(), fine[4:].tolist(), 100)
    assert (of_kinds.train_y.tolist(), of_kinds.classes) == (coarse[:4].tolist(), 20)
    assert np.abs(found.train_x * 255 - x[:4]).max() < 1e-4


def test_svhn_counts_its_tens_as_zeros(placed):
    x, y = pictures(5), np.array([[10], [1], [9], [10], [3]], np.uint8)
    files = {}
    for name, rows in (("train_32x32.mat", slice(0, 3)), ("test_32x32.mat", slice(3, 5))):
        into = io.BytesIO()
        savemat(into, {"X": x[rows].transpose(2, 3, 1, 0), "y": y[rows]})
        files[name] = into.getvalue()
    placed("svhn", files)
    found = Svhn(train_scale="raw").load(Streams(0))
    assert (found.train_x == x[:3]).all()
    assert (found.train_y.tolist(), found.test_y.tolist()) == ([0, 1, 9], [0, 3])


def test_cinic10_is_read_from_its_archive(placed):
    x = pictures(6)
    names = ["train/cat/b", "train/airplane/z", "valid/dog/a", "test/truck/a", "test/airplane/c", "train/cat/a"]
    files = {}
    for name, one in zip(names, x, strict=True):
        into = io.BytesIO()
        Image.fromarray(one.transpose(1, 2, 0)).save(into, "PNG")
        files[f"./{name}.png"] = into.getvalue()
    grey = io.BytesIO()
    Image.fromarray(x[0, 0]).save(grey, "PNG")
    placed("cinic10", {"CINIC-10.tar.gz": archived(files | {"README.md": b"", "./test/frog/g.png": grey.getvalue()})})
    found = Cinic10(train_scale="raw", test_scale="raw").load(Streams(0))
    assert found.train_y.tolist() == [0, 3, 3]
    assert (found.train_x == x[[1, 5, 0]]).all()
    assert found.test_y.tolist() == [0, 6, 9]
    assert (found.test_x[1] == x[0, 0]).all()
    assert Cinic10(include_validation=True).load(Streams(0)).train_y.tolist() == [0, 3, 3, 5]


def test_pixels_are_standardised_by_the_training_pictures():
    train, test = RNG.integers(0, 256, (2, 50, 3, 4, 4), np.uint8)
    train[:, 0, 0, 0] = 7
    x, mean, spread = test.astype(float), train.mean(axis=0), train.std(axis=0)
    assert scale_pixels(test, "standard", train) == pytest.approx((x - mean) / (spread + 0.001), rel=1e-5, abs=1e-5)
    mean, spread = train.mean(axis=(0, 2, 3)), train.std(axis=(0, 2, 3))
    expected = (x - mean[:, None, None]) / (spread[:, None, None] + 0.001)
    assert np.abs(scale_pixels(test, "channels", train) - expected).max() < 1e-5


@pytest.mark.slow
def test_some_labels_alone(real_data):
    real_data("fashion_mnist")
    whole = FashionMnist(train_scale="standard", test_scale="raw").load(Streams(0))
    some = FashionMnist(keep_labels=[6, 2, 0], train_scale="standard", test_scale="raw").load(Streams(0))
    assert (some.classes, FashionMnist(keep_labels=[6, 2, 0]).classes) == (3, 3)
    assert np.bincount(some.train_y).tolist() == [6000] * 3
    assert np.bincount(some.test_y).tolist() == [1000] * 3
    for new, old in enumerate([6, 2, 0]):
        assert (some.train_x[some.train_y == new] == whole.train_x[whole.train_y == old]).all()
    assert np.abs(whole.train_x.mean(axis=0, dtype=float)).max() < 1e-4
    assert np.abs(whole.train_x.std(axis=0, dtype=float) - 1)[0, 5:23, 5:23].max() < 1e-3


@pytest.mark.parametrize("only", [[1], [1, 1], [3, 10], [-1, 2]])
def test_labels_that_cannot_be_kept_are_refused(only):
    with pytest.raises(ScenarioError):
        Mnist(keep_labels=only)


@pytest.mark.slow
def test_the_real_cifar10(real_data):
    folder = real_data("cifar10")
    found = Cifar10().load(Streams(0))
    assert found.train_x.shape == (50_000, 3, 32, 32)
    assert np.bincount(found.train_y).tolist() == [5000] * 10
    assert np.bincount(found.test_y).tolist() == [1000] * 10
    assert found.train_x.mean(axis=(0, 2, 3), dtype=float) == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)
    assert found.train_x.std(axis=(0, 2, 3), dtype=float) == pytest.approx([0.2470, 0.2435, 0.2616], abs=1e-4)
    file = folder / "data_batch_3.bin.xz"
    if file.is_file():
        with lzma.open(file) as records:
            first = records.read(3073)
        assert found.train_y[20_000] == first[0]
        assert (np.rint(found.train_x[20_000].ravel() * 255) == list(first[1:])).all()
