"""User data files: NumPy, CSV and Parquet, and the errors of invalid files."""

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
    """One data set in three formats."""
    np.savez(tmp_path / "a.npz", x=X, label=Y, user=USER)
    rows = pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "r": X[:, 2], "kind": Y, "who": USER})
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_parquet(tmp_path / "a.parquet")
    return tmp_path


def make_data(path, **changes):
    if path.suffix == ".npz":
        return Arrays(**{"file": path, "features": [3], "labels": 4} | changes)
    return Table(**{"file": path, "features": ["p", "q", "r"], "label": "kind", "labels": 4, "user": "who"} | changes)


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.parquet"])
def test_all_formats_hold_the_same_data(files, name):
    data = make_data(files / name, validation_share=0.1).load(Streams(0))
    from_npz = make_data(files / "a.npz", validation_share=0.1).load(Streams(5))
    assert (data.train_x == from_npz.train_x).all()
    assert np.bincount(data.train_user).tolist() == [14, 14, 7]
    assert np.bincount(data.test_user).tolist() == [4, 4, 2]
    assert np.bincount(data.validation.user).tolist() == [2, 2, 1]
    names = np.array(["ada", "mia", "zoe"])
    assert data.user_names == ["ada", "mia", "zoe"]
    for x, y, user in zip(data.train_x, data.train_y, data.train_user, strict=True):
        row = np.abs(X - x).sum(axis=1).argmin()
        assert np.allclose(X[row], x, atol=1e-6)
        assert (Y[row], USER[row]) == (y, names[user])
    assert (data.train_x.dtype, data.train_y.dtype) == (np.float32, np.int64)


def test_data_without_users_are_split_as_a_whole(files):
    data = make_data(files / "a.csv", user=None, test_share=0.3).load(Streams(0))
    assert (len(data.train_y), len(data.test_y), data.train_user, data.test_user) == (35, 15, None, None)
    assert data.user_names is None
    counted = make_data(files / "a.csv", features=3).load(Streams(0))
    assert (counted.train_x == make_data(files / "a.csv").load(Streams(0)).train_x).all()


def test_a_separate_test_file(files):
    np.savez(files / "t.npz", x=X[:7] + 1, label=Y[:7], user=np.repeat(["zoe", "mia"], [3, 4]))
    data = make_data(files / "a.npz", test=files / "t.npz").load(Streams(0))
    assert len(data.train_y) == 50
    assert np.allclose(data.test_x, X[:7] + 1, atol=1e-6)
    assert data.test_user.tolist() == [2, 2, 2, 1, 1, 1, 1]
    np.savez(files / "t.npz", x=X[:7], label=Y[:7], user=np.repeat(["zoe", "eve"], [3, 4]))
    with pytest.raises(ScenarioError, match="such as eve"):
        make_data(files / "a.npz", test=files / "t.npz").load(Streams(0))


def test_the_sha256_is_checked(files):
    digest = hashlib.sha256((files / "a.csv").read_bytes()).hexdigest()
    assert len(make_data(files / "a.csv", sha256=digest).load(Streams(0)).train_y) == 40
    (files / "a.csv").write_bytes((files / "a.csv").read_bytes()[:-9])
    with pytest.raises(ScenarioError, match=r"a\.csv is another file, or is incomplete"):
        make_data(files / "a.csv", sha256=digest).load(Streams(0))


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("a.npz", {"features": [4]}, r"features: .*shape \[3\]"),
        ("a.npz", {"labels": 3}, r"labels: .*other labels than 0 to 2, such as 3 \(3\); number the labels from 0"),
        ("a.csv", {"features": 4}, r"features: .*shape \[3\]"),
        ("a.csv", {"label": "sort"}, "file: a.csv has no column sort"),
        ("a.csv", {"features": ["p", "s"]}, "file: a.csv has no column s.*its columns: p, q, r, kind, who"),
        ("a.csv", {"features": ["p", "who"], "user": None}, "file: a.csv:2: column who: not a number \\('mia'\\)"),
        ("a.csv", {"user": "whose"}, "file: a.csv has no column whose.*its columns: p, q, r, kind, who"),
        ("a.parquet", {"label": "who", "user": None}, "file: a.parquet:1: column who: not a number \\('mia'\\)"),
        ("a.csv", {"label": "p", "features": 3}, "other labels"),
        ("a.parquet", {"test_share": 0.01}, "test_share: leaves none of 50"),
    ],
)
def test_settings_that_do_not_match_the_file_are_errors(files, name, changes, problem):
    with pytest.raises(ScenarioError, match=problem):
        make_data(files / name, **changes).load(Streams(0))


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_file_without_arrays_is_an_error(files, content):
    (files / "a.npz").write_bytes(content)
    problem = r"^file: cannot be read: it is damaged, or not a NumPy file \.npz \(.*\); write it with numpy\.savez$"
    with pytest.raises(ScenarioError, match=problem):
        make_data(files / "a.npz").load(Streams(0))


def test_broken_files_are_errors(files):
    for name in ("a.npz", "a.parquet"):
        (files / name).write_bytes((files / name).read_bytes()[:300])
        with pytest.raises(ScenarioError, match=f"file: .*cannot be read.*{name}"):
            make_data(files / name).load(Streams(0))
    (files / "a.csv").write_text("p,q,r,kind,who\n1,2,,0,a\n")
    with pytest.raises(ScenarioError, match="file: a.csv:2: column r: an empty cell"):
        make_data(files / "a.csv").load(Streams(0))
    (files / "a.csv").write_text("p,q,r,kind,who\n")
    with pytest.raises(ScenarioError, match=r"file: holds no examples \(.*a\.csv"):
        make_data(files / "a.csv").load(Streams(0))
    np.savez(files / "a.npz", x=X[:0], label=Y[:0], user=USER[:0])
    with pytest.raises(ScenarioError, match=r"file: holds no examples \(.*a\.npz"):
        make_data(files / "a.npz").load(Streams(0))
    (files / "a.npz").write_bytes(b"")
    np.savez(files / "a.npz", x=X)
    with pytest.raises(ScenarioError, match="no array label"):
        make_data(files / "a.npz").load(Streams(0))
    np.savez(files / "a.npz", x=X, label=Y[:9])
    with pytest.raises(ScenarioError, match=r"examples \[50, 3\], labels \[9\]"):
        make_data(files / "a.npz").load(Streams(0))
    np.savez(files / "a.npz", x=X, label=Y, user=USER[:9])
    with pytest.raises(ScenarioError, match=r"examples \[50, 3\], labels \[50\], users \[\[9\]\]"):
        make_data(files / "a.npz").load(Streams(0))
    for value in (np.nan, -np.inf):
        np.savez(files / "a.npz", x=np.where(np.arange(50)[:, None] == 7, value, X), label=Y)
        with pytest.raises(ScenarioError, match=r"example 7 \(from 0\) holds a feature that is no finite number"):
            make_data(files / "a.npz").load(Streams(0))
    (files / "a.csv").write_text("p,q,r,kind,who\n1,2,3,0,a\n1,2,3,0,a,4\n")
    with pytest.raises(ScenarioError, match=r"file: a.csv:3: number of cells: 6 instead of 5") as error:
        make_data(files / "a.csv").load(Streams(0))
    assert "\n" not in str(error.value)
    (files / "a.txt").write_text("p")
    with pytest.raises(ScenarioError, match="has neither the suffix"):
        Table(file=files / "a.txt", features=1, labels=2).load(Streams(0))


def test_a_missing_file_is_an_error_before_the_run(files):
    (error,) = make_data(files / "b.csv").faults(ScenarioFacts(3, 1))
    assert (error.key, error.problem) == ("file", "the file does not exist")
    (error,) = make_data(files / "a.csv", test=files / "b.csv").faults(ScenarioFacts(3, 1))
    assert error.key == "test"
    assert [*make_data(files / "a.csv").faults(ScenarioFacts(3, 1))] == []


def test_only_images_can_be_augmented(tmp_path):
    np.savez(tmp_path / "p.npz", x=np.zeros((20, 1, 4, 4)), label=np.arange(20) % 2)
    settings = {"file": tmp_path / "p.npz", "labels": 2, "augment": {"crop": 1}}
    data = Arrays(features=[1, 4, 4], **settings).load(Streams(0))
    assert (data.augment.crop, data.augment.flip, Arrays(features=[16], file="p.npz", labels=2).augment) == (
        1,
        True,
        None,
    )
    with pytest.raises(ScenarioError, match="augment needs images"):
        Arrays(features=[16], **settings)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"test": "t.npz", "test_share": 0.1}, "test_share: has no effect with test"),
        ({"validation_share": 0.8}, "leave no training examples"),
        ({"labels": 1}, "greater than or equal to 2"),
    ],
)
def test_invalid_settings_are_errors(files, changes, problem):
    with pytest.raises(ScenarioError, match=problem):
        make_data(files / "a.npz", **changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"label": "q"}, "the label's column 'q' is among the features"),
        ({"user": "r"}, "the user's column 'r' is among the features"),
        ({"label": "who"}, "the column 'who' cannot be both label and user"),
        ({"label": "who", "features": 3}, "the column 'who' cannot be both label and user"),
    ],
)
def test_features_exclude_label_and_user(files, changes, problem):
    with pytest.raises(ScenarioError, match=problem):
        make_data(files / "a.csv", **changes)
