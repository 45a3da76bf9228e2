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
    with pytest.raises(ScenarioError, match=r"file: a\.csv:2: column r: an empty cell"):
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


class TestNothingIsGuessed:
    """Tables and arrays that were once read as something else."""

    @staticmethod
    def table(tmp_path, text):
        (tmp_path / "t.csv").write_text(text)
        return Table(file=tmp_path / "t.csv", features=["a"], label="y", labels=2, user="u").load(Streams(0))

    @pytest.mark.parametrize(
        ("users", "names"),
        [
            (["007", "7", "8"], ["007", "7", "8"]),
            (["12e4", "120000", "5"], ["120000", "12e4", "5"]),
            (["NA", "bob"], ["NA", "bob"]),
            (["1.10", "1.1"], ["1.1", "1.10"]),
            (["true", "false"], ["false", "true"]),
            (["null", "None", ""], None),
            (["10", "9"], ["9", "10"]),
        ],
    )
    def test_names_of_users(self, tmp_path, users, names):
        rows = pd.DataFrame({"a": np.arange(10.0 * len(users)), "y": np.arange(10 * len(users)) % 2})
        rows["u"] = np.repeat(users, 10)
        rows.to_parquet(tmp_path / "t.parquet")
        if names is None:
            with pytest.raises(ScenarioError, match=r"t\.csv:22: column u: an empty cell"):
                self.table(tmp_path, rows.to_csv(index=False))
            return
        data = self.table(tmp_path, rows.to_csv(index=False))
        other = Table(file=tmp_path / "t.parquet", features=["a"], label="y", labels=2, user="u").load(Streams(0))
        assert data.user_names == other.user_names == names
        assert (data.train_x == other.train_x).all()
        assert (data.train_user == other.train_user).all()

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a,y,u\n" + "0,5,0,a\n" * 4, "t.csv:2: number of cells: 4 instead of 3"),
            ("a,y,u,y\n" + "0,0,a,1\n" * 4, "t.csv: column y occurs 2 times"),
            ("a,y,u\n0,0,a\n1,yes,a\n", "t.csv:3: column y: not a number \\('yes'\\)"),
            ("a,y,u\n0,true,a\n", "t.csv:2: column y: a boolean instead of a number"),
            ('a,y,u\n"1,5",0,a\n', "t.csv:2: column a: not a number: it has a decimal comma"),
            ("a,y,u\n5 ms,0,a\n", "t.csv:2: column a: not a number"),
            ("a;y;u\n1,5;0;a\n", "t.csv: cells are separated by semicolons"),
            (",a,y,u\n0,1,0,a\n", "t.csv: column 1 has no heading"),
        ],
    )
    def test_other_tables_are_refused(self, tmp_path, text, problem):
        with pytest.raises(ScenarioError, match=f"^file: {problem}"):
            self.table(tmp_path, text)

    def test_durations_are_seconds(self, tmp_path):
        rows = pd.DataFrame({"a": pd.to_timedelta(np.arange(20), "s"), "y": np.arange(20) % 2, "u": 0})
        rows.astype({"a": "timedelta64[ms]"}).to_parquet(tmp_path / "t.parquet")
        options = {"features": ["a"], "label": "y", "labels": 2, "user": "u"}
        data = Table(file=tmp_path / "t.parquet", **options).load(Streams(0))
        assert sorted(np.concatenate([data.train_x, data.test_x]).ravel()) == [*range(20)]
        rows.assign(a=pd.to_datetime(np.arange(20), unit="s")).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(ScenarioError, match=r"t\.parquet:1: column a: a value of type datetime"):
            Table(file=tmp_path / "t.parquet", **options).load(Streams(0))

    @pytest.mark.parametrize(
        ("arrays", "problem"),
        [
            ({"x": X + 1j}, "features: values of type complex128"),
            ({"x": X > 0}, "features: values of type bool"),
            ({"x": X.astype(str)}, "features: values of type <U"),
            ({"x": X.astype("datetime64[s]")}, "features: values of type datetime64"),
            ({"label": Y > 1}, "labels: values of type bool"),
            ({"label": Y.astype(str)}, "labels: values of type <U"),
            ({"label": np.where(Y > 2, np.nan, Y)}, "other labels than 0 to 3, such as nan"),
            ({"user": np.full(50, np.nan)}, "users of type float64, such as nan"),
            ({"user": USER[:, None]}, r"users of shape \[50, 1\]"),
            ({"user": np.full(50, np.datetime64("NaT"))}, "users of type datetime64"),
            ({"user": np.where(Y > 2, "", USER)}, r"example 3 \(from 0\) has no user"),
            ({"user": Y + 1j}, "users of type complex128"),
            ({"label": np.array([{}] * 50, object)}, "array label holds Python objects, a pickle"),
            ({"users": USER}, "has an array users, which is not read .*did you mean 'user'"),
        ],
    )
    def test_other_arrays_are_refused(self, tmp_path, arrays, problem):
        np.savez(tmp_path / "a.npz", **({"x": X, "label": Y, "user": USER} | arrays))
        with pytest.raises(ScenarioError, match=problem):
            make_data(tmp_path / "a.npz").load(Streams(0))

    def test_spans_of_time_are_seconds(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.full((50, 3), np.timedelta64(3000, "ms")), label=Y)
        assert (make_data(tmp_path / "a.npz").load(Streams(0)).train_x == 3.0).all()

    @pytest.mark.parametrize(
        ("column", "is_warned"),
        [
            (1.7e9 + np.arange(50.0), True),
            (np.arange(50) + 10**9, True),
            (1.0 + 1e-9 * np.arange(50), True),
            (np.full(50, 1.7e9), False),
            (1e6 + np.arange(50.0), False),
            (np.random.default_rng(1).normal(size=50), False),
            (np.arange(50) * 10**8, False),
        ],
    )
    def test_values_that_32_bits_do_not_distinguish_are_warned_of(self, tmp_path, caplog, column, is_warned):
        np.savez(tmp_path / "a.npz", x=np.column_stack([X[:, 0], column, X[:, 1]]), label=Y)
        make_data(tmp_path / "a.npz").load(Streams(0))
        assert [record.message.startswith("data.file") for record in caplog.records] == [True] * is_warned
        assert all("of feature 1 (from 0)" in record.message for record in caplog.records)

    def test_names_among_numbers_of_test_users(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X, label=Y, user=np.repeat(["7", "ada"], 25))
        np.savez(tmp_path / "t.npz", x=X[:3], label=Y[:3], user=[7, 7, 7])
        data = make_data(tmp_path / "a.npz", test=tmp_path / "t.npz").load(Streams(0))
        assert data.test_user.tolist() == [0, 0, 0]
