"""Data sets: their content, and the errors for missing, truncated or wrong files."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import lzma
import shutil
import struct
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pooch
import pytest
from scipy import stats

from netfl.core.family_members import find_model
from netfl.errors import MachineError, ScenarioError
from netfl.learning.data import Data
from netfl.learning.data import _download as cache
from netfl.learning.data._download import FileContent
from netfl.learning.data.blobs import Blobs
from netfl.learning.data.digits import Digits
from netfl.learning.data.fashion_mnist import FashionMnist
from netfl.learning.data.mnist import Mnist, read_idx
from netfl.streams import Streams

FIG2A = {"centers": [[1, 1], [2, 3], [2.3, 1.5]], "std": 0.1, "samples": 1000, "seed": 11, "test_share": 0.2}


def all_examples(data):
    return np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])


def test_blobs_follow_their_distribution():
    x, y = all_examples(Blobs(**FIG2A).load(Streams(0)))
    assert np.bincount(y).tolist() == [1000] * 3
    for label, centre in enumerate(FIG2A["centers"]):
        points = x[y == label]
        z = (points.mean(axis=0) - centre) / (0.1 / np.sqrt(1000))
        assert np.abs(z).max() < 4.5
        spread = 999 * points.var(axis=0, ddof=1) / 0.1**2
        assert (np.abs(stats.norm.ppf(stats.chi2.cdf(spread, 999))) < 4.5).all()


def test_blobs_depend_only_on_their_seed():
    first, same, different = (
        Blobs(**{**FIG2A, "seed": seed}).load(Streams(run)) for run, seed in [(0, 11), (1, 11), (0, 12)]
    )
    assert (first.train_x == same.train_x).all()
    assert not (first.train_x == different.train_x).all()


def test_a_split_contains_all_examples():
    small_test = Blobs(**{**FIG2A, "test_share": 0.1}).load(Streams(0))
    assert (len(small_test.train_x), len(small_test.train_y), len(small_test.test_x), len(small_test.test_y)) == (
        2700,
        2700,
        300,
        300,
    )
    large_test = Blobs(**{**FIG2A, "test_share": 0.5}).load(Streams(0))
    assert (np.sort(all_examples(small_test)[0], axis=0) == np.sort(all_examples(large_test)[0], axis=0)).all()
    assert np.unique(all_examples(small_test)[0], axis=0).shape == (3000, 2)


@pytest.mark.parametrize("data", [Blobs(**FIG2A), Digits()])
def test_shape_and_classes_are_known_without_loading(data):
    found = data.load(Streams(0))
    assert found.train_x.shape[1:] == found.test_x.shape[1:] == data.shape
    assert set(found.train_y.tolist()) == set(range(data.classes))
    assert found.classes == data.classes
    kinds = {found.train_x.dtype, found.test_x.dtype}, {found.train_y.dtype, found.test_y.dtype}
    assert kinds == ({np.dtype(np.float32)}, {np.dtype(np.int64)})


@pytest.mark.parametrize(
    "changes",
    [
        {"centers": [[1, 1]]},
        {"centers": [[1, 1], [2]]},
        {"std": 0},
        {"test_share": 1},
    ],
)
def test_invalid_blobs_are_errors(changes):
    with pytest.raises(ScenarioError):
        Blobs(**{**FIG2A, **changes})


FROZEN = [
    (Blobs(**FIG2A), "df2545f0da00a82082bc9c10fdd3c9fb1410698a9cad31d72e2060be35fa0470"),
    (Blobs(centers=[[0, 0], [3, 3]], samples=40), "839f94e3ebd4c0e7a1b00821c747b89472c2c8345c45088ceebfb1d2053a37fe"),
    (
        Blobs(centers=[[0, 0], [3, 3], [-1, 5], [2, 2]], std=0.7, samples=333, seed=2**32 - 1, test_share=0.37),
        "8fd7ebe9e1932471cf5d2ddaf4910b825cbb5ff2e4c5101451e7b71aee06e2aa",
    ),
    (Digits(), "d52690acc2c2a6ddf4acefcfadcf5a35b9e91827d49af42400b9f8e3d8886713"),
    (Digits(scale="raw", seed=3, test_share=0.5), "9d14f4916fc374f208631f5ae3b3770ecb314013216c18a1d03ca80b023d5444"),
]
"""SHA-256 of the arrays of scikit-learn 1.9.1 for these fields: load_digits, make_blobs, train_test_split."""


@pytest.mark.parametrize(("data", "digest"), FROZEN)
def test_sets_equal_those_of_scikit_learn_exactly(data, digest):
    found = data.load(Streams(0))
    arrays = (found.train_x, found.train_y, found.test_x, found.test_y)
    assert hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest() == digest


@pytest.mark.parametrize(("samples", "share", "seed"), [(2, 0.5, 0), (7, 0.01, 1), (1000, 0.37, 11)])
def test_an_installed_scikit_learn_gives_the_same_sets(samples, share, seed):
    sklearn = pytest.importorskip("sklearn", reason="scikit-learn, with which sets are compared, is not installed")
    datasets = importlib.import_module(f"{sklearn.__name__}.datasets")
    divide = importlib.import_module(f"{sklearn.__name__}.model_selection").train_test_split
    blobs = Blobs(**{**FIG2A, "samples": samples, "test_share": share, "seed": seed})
    blobs_arrays = datasets.make_blobs(
        [samples] * 3, centers=np.array(blobs.centers), cluster_std=0.1, random_state=seed
    )
    pixels, labels = datasets.load_digits(return_X_y=True)
    digits = Digits(scale="raw", test_share=share, seed=seed)
    for data, (x, y) in ((blobs, blobs_arrays), (digits, (pixels.reshape(-1, 1, 8, 8), labels))):
        found = data.load(Streams(0))
        parts = divide(x, y, test_size=share, random_state=seed)
        for found_part, expected in zip((found.train_x, found.test_x, found.train_y, found.test_y), parts, strict=True):
            assert (found_part == expected.astype(found_part.dtype)).all()


def test_digits_are_scaled_images():
    unit, raw = Digits().load(Streams(0)), Digits(scale="raw").load(Streams(0))
    assert len(unit.train_x) + len(unit.test_x) == 1797
    assert (unit.train_x * 16 == raw.train_x).all()
    assert (unit.train_x.min(), unit.train_x.max(), raw.train_x.max()) == (0, 1, 16)
    assert np.bincount(all_examples(unit)[1]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    zero = unit.train_x[unit.train_y == 0].mean(axis=0)[0]
    assert zero[3:5, 3:5].max() < 0.2 < zero[4, 1:3].max()  # a ring with a hole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "counts", "moments"),
    [
        ("mnist", Mnist(), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], (0.1307, 0.3081)),
        ("fashion_mnist", FashionMnist(), [6000] * 10, (0.2860, 0.3530)),
    ],
)
def test_published_images(real_data, name, data, counts, moments):
    real_data(name)
    found = data.load(Streams(0))
    assert found.train_x.shape == (60_000, *data.shape)
    assert found.test_x.shape == (10_000, *data.shape)
    assert np.bincount(found.train_y).tolist() == counts
    assert (found.train_x.mean(dtype=float), found.train_x.std(dtype=float)) == pytest.approx(moments, abs=5e-5)
    assert (found.train_x.dtype, found.train_y.dtype) == (np.float32, np.int64)
    assert {dataset.name: dataset.state for dataset in cache.list_datasets()}[name] == "here"


def test_training_and_test_images_have_separate_scales(tiny_mnist):
    found = Mnist(train_scale="raw", test_scale="unit").load(Streams(0))
    assert (found.train_x.max(), found.test_x.max()) == (255, 1)
    assert found.train_x[0, 0, 0, :3].tolist() == [0, 1, 2]


def gzipped_idx(array):
    """Return an array of bytes as a gzipped IDX file."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0)


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """A cache with an MNIST set of 20 training and 10 test images."""
    arrays = [np.arange(count * 784).reshape(count, 28, 28) % 256 for count in (20, 10)]
    labels = [np.arange(count) % 10 for count in (20, 10)]
    contents = [gzipped_idx(array) for array in (arrays[0], labels[0], arrays[1], labels[1])]
    names = [*cache.SOURCES["mnist"].files]
    files = {name: hashlib.sha256(content).hexdigest() for name, content in zip(names, contents, strict=True)}
    monkeypatch.setitem(cache.SOURCES, "mnist", cache.Source("mnist", "https://127.0.0.1:9/", files))
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    return folder


def test_a_missing_file_names_the_download_command(tiny_mnist):
    (tiny_mnist / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(ScenarioError, match=r"t10k-images-idx3-ubyte\.gz") as error:
        Mnist().load(Streams(0))
    assert "netfl data fetch mnist" in str(error.value)
    assert {dataset.name: dataset.state for dataset in cache.list_datasets()}["mnist"] == "not here"


def test_a_truncated_file_names_both_digests(tiny_mnist):
    path = tiny_mnist / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(MachineError) as error:
        Mnist().load(Streams(0))
    expected = next(iter(cache.SOURCES["mnist"].files.values()))
    for part in (str(path), hashlib.sha256(path.read_bytes()).hexdigest(), expected):
        assert part in str(error.value)


def test_a_folder_instead_of_a_file_is_a_missing_file(tiny_mnist):
    path = tiny_mnist / "train-labels-idx1-ubyte.gz"
    path.unlink()
    path.mkdir()
    with pytest.raises(ScenarioError, match="train-labels"):
        Mnist().load(Streams(0))


def test_idx_files_are_read_exactly(tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (3, 4, 5))
    assert (read_idx(FileContent(tmp_path / "a.gz", gzipped_idx(array))) == array).all()


def test_the_environment_sets_the_cache_folder(monkeypatch):
    monkeypatch.delenv("NETFL_DATA", raising=False)
    assert cache.cache_folder() == pooch.os_cache("netfl")
    monkeypatch.setenv("NETFL_DATA", "/somewhere")
    folders = {dataset.name: (str(dataset.folder), dataset.state) for dataset in cache.list_datasets()}
    assert folders["fashion_mnist"] == ("/somewhere/fashion-mnist", "not here")
    assert set(folders) == set(cache.SOURCES)


def test_existing_files_are_not_downloaded(tiny_mnist):
    assert cache.fetch_dataset("mnist") == tiny_mnist
    assert Mnist().load(Streams(0)).train_x.shape == (20, 1, 28, 28)


@pytest.fixture
def web_folder(tiny_mnist, tmp_path, monkeypatch):
    """The tiny set on a local web server, removed from the cache."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    site = tmp_path / "site"
    tiny_mnist.rename(site)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setitem(cache.SOURCES, "mnist", replace(cache.SOURCES["mnist"], url=url))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield site
        server.shutdown()
        thread.join()


def test_a_downloaded_set_can_be_read(web_folder, tmp_path):
    assert cache.fetch_dataset("mnist") == tmp_path / "mnist"
    assert Mnist().load(Streams(0)).test_x.shape == (10, 1, 28, 28)


def test_a_download_with_another_digest_is_removed(web_folder, tmp_path):
    (web_folder / "train-labels-idx1-ubyte.gz").write_bytes(b"Please log in")
    with pytest.raises(MachineError, match=r"train-labels-idx1-ubyte\.gz cannot be downloaded.*hash"):
        cache.fetch_dataset("mnist")
    assert [path.name for path in (tmp_path / "mnist").iterdir()] == ["train-images-idx3-ubyte.gz"]


def test_an_unreachable_server_names_the_manual_path(tiny_mnist):
    shutil.rmtree(tiny_mnist)
    with pytest.raises(MachineError, match="cannot be downloaded") as error:
        cache.fetch_dataset("mnist")
    for part in (f"manually to {tiny_mnist / 'train-images-idx3-ubyte.gz'}", "no connection to 127.0.0.1:9;"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_set_suggests_a_similar_name():
    with pytest.raises(ScenarioError, match="did you mean 'mnist'"):
        cache.fetch_dataset("mnits")


def test_manual_downloads_name_source_and_path(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    for name in ("cinic10", "vehicle", "shakespeare"):
        with pytest.raises(ScenarioError) as error:
            cache.fetch_dataset(name)
        source = cache.SOURCES[name]
        for part in (source.url, str(tmp_path / source.folder / next(iter(source.files)))):
            assert part in str(error.value)
        other_files = len(source.files) - 1
        assert (f"and {other_files} more files of the data set {name}" in str(error.value)) == bool(other_files)


def test_every_set_names_its_files_and_source(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    for dataset in cache.list_datasets():
        data = find_model(Data, dataset.name)()
        with pytest.raises(ScenarioError) as error:
            data.load(Streams(0))
        (fault,), source = error.value.faults, cache.SOURCES[dataset.name]
        assert f"{tmp_path / source.folder / next(iter(source.files))}" in fault.problem
        assert dataset.source == (source.url if source.by_hand else f"netfl data fetch {dataset.name}")
        assert dataset.source in fault.remedy
        assert f"NETFL_DATA to the folder that holds {source.folder}/" in fault.remedy


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_compressed_files_are_read(tmp_path, monkeypatch, suffix):
    content = b"what is published" * 9
    file = ("part/a.txt", "md5:" + hashlib.md5(content).hexdigest())
    monkeypatch.setitem(cache.SOURCES, "toy", cache.Source("toy", "", dict([file])))
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    path = tmp_path / "toy" / ("part/a.txt" + suffix)
    path.parent.mkdir(parents=True)
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    path.write_bytes(pack(content))
    assert cache.read_files("toy") == ((path, content),)
    path.write_bytes(pack(content[:-1]))
    with pytest.raises(MachineError, match=f"md5 of its content is {hashlib.md5(content[:-1]).hexdigest()}"):
        cache.read_files("toy")
    if suffix:
        path.write_bytes(pack(content)[:-9])
        with pytest.raises(MachineError, match=r"cannot be read, or is incomplete"):
            cache.read_files("toy")


def test_alternative_files_are_accepted(tmp_path, monkeypatch):
    published, alternative = (hashlib.sha256(content).hexdigest() for content in (b"one", b"other"))
    source = cache.Source("toy", "http://127.0.0.1:9/", {"a": published}, alternative_files={"b": alternative})
    monkeypatch.setitem(cache.SOURCES, "toy", source)
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    (tmp_path / "toy").mkdir()
    with pytest.raises(ScenarioError, match="toy/a"):
        cache.read_files("toy")
    (tmp_path / "toy" / "b").write_bytes(b"other")
    assert [content.data for content in cache.read_files("toy")] == [b"other"]
    assert cache.fetch_dataset("toy") == tmp_path / "toy"
    (tmp_path / "toy" / "a").write_bytes(b"one")
    assert [content.data for content in cache.read_files("toy")] == [b"one"]
