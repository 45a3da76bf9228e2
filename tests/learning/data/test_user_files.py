"""Data of the user's own: NumPy, CSV and Parquet files, and what is said of those that do not fit."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest

from netfl.errors import ScenarioError
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.table import Table
from netfl.streams import Streams
from netfl.types import ScenarioFacts

X = np.random.default_rng(0).normal(size=(50, 3))
Y = np.arange(50) % 4
USER = np.repeat(["mia", "ada", "zoe"], [20, 20, 10])


@pytest.fixture
def files(tmp_path):
    """One set in all forms."""
    np.savez(tmp_path / "a.npz", x=X, label=Y, user=USER)
    rows = pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "r": X[:, 2], "kind": Y, "who": USER})
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_parquet(tmp_path / "a.parquet")
    return tmp_path


def read(path, **more):
    if path.suffix == ".npz":
        return Arrays(**{"file": path, "features": [3], "labels": 4} | more)
    return Table(**{"file": path, "features": ["p", "q", "r"], "label": "kind", "labels": 4, "user": "who"} | more)


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.parquet"])
def test_each_form_holds_the_same(files, name):
    data = read(files / name, validation_share=0.1).load(Streams(0))
    same = read(files / "a.npz", validation_share=0.1).load(Streams(5))
    assert (data.train_x == same.train_x).all()
    assert np.bincount(data.train_user).tolist() == [14, 14, 7]
    assert np.bincount(data.test_user).tolist() == [4, 4, 2]
    assert np.bincount(data.validation.user).tolist() == [2, 2, 1]
    names = np.array(["ada", "mia", "zoe"])
    for x, y, user in zip(data.train_x, data.train_y, data.train_user, strict=True):
        row = np.abs(X - x).sum(axis=1).argmin()
        assert np.allclose(X[row], x, atol=1e-6)
        assert (Y[row], USER[row]) == (y, names[user])
    assert (data.train_x.dtype, data.train_y.dtype) == (np.float32, np.int64)


def test_without_users_the_whole_is_split(files):
    data = read(files / "a.csv", user=None, test_share=0.3).load(Streams(0))
    assert (len(data.train_y), len(data.test_y), data.train_user, data.test_user) == (35, 15, None, None)
    counted = read(files / "a.csv", features=3).load(Streams(0))
    assert (counted.train_x == read(files / "a.csv").load(Streams(0)).train_x).all()


def test_a_file_to_test_with(files):
    np.savez(files / "t.npz", x=X[:7] + 1, label=Y[:7], user=np.repeat(["zoe", "mia"], [3, 4]))
    data = read(files / "a.npz", test=files / "t.npz").load(Streams(0))
    assert len(data.train_y) == 50
    assert np.allclose(data.test_x, X[:7] + 1, atol=1e-6)
    assert data.test_user.tolist() == [2, 2, 2, 1, 1, 1, 1]
    np.savez(files / "t.npz", x=X[:7], label=Y[:7], user=np.repeat(["zoe", "eve"], [3, 4]))
    with pytest.raises(ScenarioError, match="such as eve"):
        read(files / "a.npz", test=files / "t.npz").load(Streams(0))


def test_the_file_that_is_meant_is_checked(files):
    sum_ = hashlib.sha256((files / "a.csv").read_bytes()).hexdigest()
    assert len(read(files / "a.csv", sha256=sum_).load(Streams(0)).train_y) == 40
    (files / "a.csv").write_bytes((files / "a.csv").read_bytes()[:-9])
    with pytest.raises(ScenarioError, match=r"a\.csv is another file, or is incomplete"):
        read(files / "a.csv", sha256=sum_).load(Streams(0))


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("a.npz", {"features": [4]}, r"features: .*shape \[3\]"),
        ("a.npz", {"labels": 3}, r"labels: .*other labels than 0 to 2, such as 3 \(3\); number the labels from 0"),
        ("a.csv", {"features": 4}, r"features: .*shape \[3\]"),
        ("a.csv", {"label": "sort"}, "file: has no column sort"),
        ("a.csv", {"features": ["p", "s"]}, "file: has no column s.*its columns: p, q, r, kind, who"),
        ("a.csv", {"features": ["p", "who"], "user": None}, "file: cannot be read: .* could not convert string"),
        ("a.csv", {"user": "whose"}, "file: has no column whose.*its columns: p, q, r, kind, who"),
        ("a.parquet", {"label": "who", "user": None}, "labels: .*other labels than 0 to 3, such as mia"),
        ("a.csv", {"label": "p", "features": 3}, "other labels"),
        ("a.parquet", {"test_share": 0.01}, "test_share: leaves none of 50"),
    ],
)
def test_misfits_are_faults(files, name, more, said):
    with pytest.raises(ScenarioError, match=said):
        read(files / name, **more).load(Streams(0))


def test_broken_files_are_faults(files):
    for name in ("a.npz", "a.parquet"):
        (files / name).write_bytes((files / name).read_bytes()[:300])
        with pytest.raises(ScenarioError, match=f"file: cannot be read.*{name}"):
            read(files / name).load(Streams(0))
    (files / "a.csv").write_text("p,q,r,kind,who\n1,2,,0,a\n")
    with pytest.raises(ScenarioError, match="has empty fields in column r "):
        read(files / "a.csv").load(Streams(0))
    (files / "a.csv").write_text("p,q,r,kind,who\n")
    with pytest.raises(ScenarioError, match=r"file: holds no examples \(.*a\.csv"):
        read(files / "a.csv").load(Streams(0))
    np.savez(files / "a.npz", x=X[:0], label=Y[:0], user=USER[:0])
    with pytest.raises(ScenarioError, match=r"file: holds no examples \(.*a\.npz"):
        read(files / "a.npz").load(Streams(0))
    (files / "a.npz").write_bytes(b"")
    np.savez(files / "a.npz", x=X)
    with pytest.raises(ScenarioError, match="no array label"):
        read(files / "a.npz").load(Streams(0))
    np.savez(files / "a.npz", x=X, label=Y[:9])
    with pytest.raises(ScenarioError, match=r"examples \[50, 3\], labels \[9\]"):
        read(files / "a.npz").load(Streams(0))
    np.savez(files / "a.npz", x=X, label=Y, user=USER[:9])
    with pytest.raises(ScenarioError, match=r"examples \[50, 3\], labels \[50\], users \[\[9\]\]"):
        read(files / "a.npz").load(Streams(0))
    for wrong in (np.nan, -np.inf):
        np.savez(files / "a.npz", x=np.where(np.arange(50)[:, None] == 7, wrong, X), label=Y)
        with pytest.raises(ScenarioError, match=r"example 7 \(from 0\) holds a feature that is no finite number"):
            read(files / "a.npz").load(Streams(0))
    (files / "a.csv").write_text("p,q\n1,2\n1,2,3\n")
    with pytest.raises(ScenarioError, match=r"file: cannot be read: .*line 3") as caught:
        read(files / "a.csv").load(Streams(0))
    assert "\n" not in str(caught.value)
    (files / "a.txt").write_text("p")
    with pytest.raises(ScenarioError, match="has neither the suffix"):
        Table(file=files / "a.txt", features=1, labels=2).load(Streams(0))


def test_a_missing_file_is_a_fault_before_the_run(files):
    (fault,) = read(files / "b.csv").faults(ScenarioFacts(3, 1))
    assert (fault.key, fault.problem) == ("file", "the file does not exist")
    (fault,) = read(files / "a.csv", test=files / "b.csv").faults(ScenarioFacts(3, 1))
    assert fault.key == "test"
    assert [*read(files / "a.csv").faults(ScenarioFacts(3, 1))] == []


def test_pictures_may_be_augmented_and_other_examples_not(tmp_path):
    np.savez(tmp_path / "p.npz", x=np.zeros((20, 1, 4, 4)), label=np.arange(20) % 2)
    said = {"file": tmp_path / "p.npz", "labels": 2, "augment": {"crop": 1}}
    data = Arrays(features=[1, 4, 4], **said).load(Streams(0))
    assert (data.augment.crop, data.augment.flip, Arrays(features=[16], file="p.npz", labels=2).augment) == (
        1,
        True,
        None,
    )
    with pytest.raises(ScenarioError, match="augment needs images"):
        Arrays(features=[16], **said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"test": "t.npz", "test_share": 0.1}, "test_share: has no effect with test"),
        ({"validation_share": 0.8}, "leave no training examples"),
        ({"labels": 1}, "greater than or equal to 2"),
    ],
)
def test_what_cannot_be_is_refused(files, more, said):
    with pytest.raises(ScenarioError, match=said):
        read(files / "a.npz", **more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"label": "q"}, "the label's column 'q' is among the features"),
        ({"user": "r"}, "the user's column 'r' is among the features"),
        ({"label": "who"}, "the column 'who' cannot be both label and user"),
        ({"label": "who", "features": 3}, "the column 'who' cannot be both label and user"),
    ],
)
def test_features_do_not_tell_the_label_or_the_user(files, more, said):
    with pytest.raises(ScenarioError, match=said):
        read(files / "a.csv", **more)
