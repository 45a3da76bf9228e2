"""Image sets: scaling of pixels, and published file formats."""

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
tar_gz = partial(packed, mode="w:gz")


def random_images(count):
    return RNG.integers(0, 256, (count, 3, 32, 32), np.uint8)


def cifar_records(x, *labels):
    """Return records of CIFAR's binary format."""
    return b"".join(bytes([values[row] for values in labels]) + x[row].tobytes() for row in range(len(x)))


def test_cifar10_is_read_from_its_archive(place_files):
    x, y = random_images(12), np.arange(12) % 10
    parts = {
        f"cifar-10-batches-bin/data_batch_{i + 1}.bin": cifar_records(x[2 * i : 2 * i + 2], y[2 * i :])
        for i in range(5)
    }
    parts["cifar-10-batches-bin/test_batch.bin"] = cifar_records(x[10:], y[10:])
    place_files("cifar10", {"cifar-10-binary.tar.gz": tar_gz(parts | {"cifar-10-batches-bin/readme.html": b"no"})})
    found = Cifar10(train_scale="raw", test_scale="raw").load(Streams(0))
    assert (found.train_x == x[:10]).all()
    assert (found.test_x == x[10:]).all()
    assert found.train_y.tolist() == list(range(10))
    assert found.test_y.tolist() == [0, 1]


def test_cifar100_has_fine_and_coarse_labels(place_files):
    x, fine, coarse = random_images(6), RNG.integers(0, 100, 6), RNG.integers(0, 20, 6)
    files = {name: cifar_records(x[rows], coarse[rows], fine[rows]) for name, rows in
             (("c/train.bin", slice(0, 4)), ("c/test.bin", slice(4, 6)))}  # fmt: skip
    place_files("cifar100", {"cifar-100-binary.tar.gz": tar_gz(files)})
    found, coarse_data = (Cifar100(coarse=coarse).load(Streams(0)) for coarse in (False, True))
    assert (found.train_y.tolist(), found.test_y.tolist(), found.classes) == (fine[:4].tolist(), fine[4:].tolist(), 100)
    assert (coarse_data.train_y.tolist(), coarse_data.classes) == (coarse[:4].tolist(), 20)
    assert np.abs(found.train_x * 255 - x[:4]).max() < 1e-4


def test_svhn_label_10_is_0(place_files):
    x, y = random_images(5), np.array([[10], [1], [9], [10], [3]], np.uint8)
    files = {}
    for name, rows in (("train_32x32.mat", slice(0, 3)), ("test_32x32.mat", slice(3, 5))):
        file = io.BytesIO()
        savemat(file, {"X": x[rows].transpose(2, 3, 1, 0), "y": y[rows]})
        files[name] = file.getvalue()
    place_files("svhn", files)
    found = Svhn(train_scale="raw").load(Streams(0))
    assert (found.train_x == x[:3]).all()
    assert (found.train_y.tolist(), found.test_y.tolist()) == ([0, 1, 9], [0, 3])


def test_cinic10_is_read_from_its_archive(place_files):
    x = random_images(6)
    names = ["train/cat/b", "train/airplane/z", "valid/dog/a", "test/truck/a", "test/airplane/c", "train/cat/a"]
    files = {}
    for name, image in zip(names, x, strict=True):
        file = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(file, "PNG")
        files[f"./{name}.png"] = file.getvalue()
    grey = io.BytesIO()
    Image.fromarray(x[0, 0]).save(grey, "PNG")
    place_files(
        "cinic10", {"CINIC-10.tar.gz": tar_gz(files | {"README.md": b"", "./test/frog/g.png": grey.getvalue()})}
    )
    found = Cinic10(train_scale="raw", test_scale="raw").load(Streams(0))
    assert found.train_y.tolist() == [0, 3, 3]
    assert (found.train_x == x[[1, 5, 0]]).all()
    assert found.test_y.tolist() == [0, 6, 9]
    assert (found.test_x[1] == x[0, 0]).all()
    assert Cinic10(include_validation=True).load(Streams(0)).train_y.tolist() == [0, 3, 3, 5]


def test_training_images_standardise_all_pixels():
    train, test = RNG.integers(0, 256, (2, 50, 3, 4, 4), np.uint8)
    train[:, 0, 0, 0] = 7
    x, mean, spread = test.astype(float), train.mean(axis=0), train.std(axis=0)
    assert scale_pixels(test, "standard", train) == pytest.approx((x - mean) / (spread + 0.001), rel=1e-5, abs=1e-5)
    mean, spread = train.mean(axis=(0, 2, 3)), train.std(axis=(0, 2, 3))
    expected = (x - mean[:, None, None]) / (spread[:, None, None] + 0.001)
    assert np.abs(scale_pixels(test, "channels", train) - expected).max() < 1e-5


@pytest.mark.slow
def test_keep_labels_selects_labels(real_data):
    real_data("fashion_mnist")
    whole = FashionMnist(train_scale="standard", test_scale="raw").load(Streams(0))
    selected = FashionMnist(keep_labels=[6, 2, 0], train_scale="standard", test_scale="raw").load(Streams(0))
    assert (selected.classes, FashionMnist(keep_labels=[6, 2, 0]).classes) == (3, 3)
    assert np.bincount(selected.train_y).tolist() == [6000] * 3
    assert np.bincount(selected.test_y).tolist() == [1000] * 3
    for new, old in enumerate([6, 2, 0]):
        assert (selected.train_x[selected.train_y == new] == whole.train_x[whole.train_y == old]).all()
    assert np.abs(whole.train_x.mean(axis=0, dtype=float)).max() < 1e-4
    assert np.abs(whole.train_x.std(axis=0, dtype=float) - 1)[0, 5:23, 5:23].max() < 1e-3


@pytest.mark.parametrize("labels", [[1], [1, 1], [3, 10], [-1, 2]])
def test_invalid_labels_are_errors(labels):
    with pytest.raises(ScenarioError):
        Mnist(keep_labels=labels)


@pytest.mark.slow
def test_the_published_cifar10(real_data):
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
