"""LEAF's JSON files: users, several files, folders train and test, and errors."""

import json

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.learning.data.femnist import Femnist
from netfl.learning.data.leaf import Leaf
from netfl.streams import Streams

STREAMS = Streams(0)


def write(path, users):
    """Write a file of LEAF; *users* maps names to their labels. Features are (label, place)."""
    data = {
        name: {"x": [[label, place] for place, label in enumerate(labels)], "y": labels}
        for name, labels in users.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"users": [*users], "num_samples": [*map(len, users.values())], "user_data": data}))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "train/all_data_0.json", {"zoe": [0, 1, 2], "ada": [1, 1]})
    write(tmp_path / "train/all_data_1.json", {"mia": [2, 0, 2, 0], "nobody": []})
    write(tmp_path / "test/all_data_0.json", {"zoe": [2], "mia": [0, 0], "stranger": [1]})
    return tmp_path


def leaf(folder, **options):
    return Leaf(**{"folder": folder, "features": (2,), "labels": 3} | options)


def test_users_are_sorted_by_name_over_all_files(folder):
    data = leaf(folder).load(STREAMS)
    rows = sorted(zip(data.train_user.tolist(), data.train_y.tolist(), data.train_x.tolist(), strict=True))
    assert rows == [
        (0, 1, [1, 0]), (0, 1, [1, 1]),
        (1, 0, [0, 1]), (1, 0, [0, 3]), (1, 2, [2, 0]), (1, 2, [2, 2]),
        (2, 0, [0, 0]), (2, 1, [1, 1]), (2, 2, [2, 2]),
    ]  # fmt: skip
    assert sorted(zip(data.test_user.tolist(), data.test_y.tolist(), strict=True)) == [(1, 0), (1, 0), (2, 2)]
    assert data.train_x.dtype == np.float32


def test_parts_of_a_user_in_two_files_are_joined(folder):
    write(folder / "train/all_data_2.json", {"ada": [0]})
    data = leaf(folder).load(STREAMS)
    assert sorted(data.train_y[data.train_user == 0].tolist()) == [0, 1, 1]


def test_small_users_are_left_out_and_some_are_chosen(folder):
    assert np.bincount(leaf(folder, min_samples=3).load(STREAMS).train_user).tolist() == [4, 3]
    assert len(np.unique(leaf(folder, users=2).load(STREAMS).train_user)) == 2
    with pytest.raises(ScenarioError, match="2 users have at least 3 examples"):
        leaf(folder, users=3, min_samples=3).load(STREAMS)


def test_a_single_folder_is_split(folder):
    data = leaf(folder / "train", test_share=0.5).load(STREAMS)
    assert (len(data.train_y), len(data.test_y)) == (5, 4)


def test_femnist_has_images_of_28_by_28_pixels(tmp_path):
    data = {"f0001_41": {"x": np.linspace(0, 1, 2 * 784).reshape(2, 784).tolist(), "y": [61, 5]}}
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.json").write_text(json.dumps({"users": [*data], "user_data": data}))
    femnist = Femnist(folder=tmp_path)
    loaded = femnist.load(STREAMS)
    assert (femnist.shape, femnist.classes, loaded.train_x.shape) == ((1, 28, 28), 62, (2, 1, 28, 28))
    first = loaded.train_x[loaded.train_y == 61][0]
    assert first.ravel() == pytest.approx(np.linspace(0, 1, 2 * 784)[:784])


def test_femnist_is_in_the_cache_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_DATA", str(tmp_path))
    assert Femnist().source == tmp_path / "femnist"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "all_data_1.json is not of LEAF's form: JSONDecodeError"),
        ("{}", "all_data_1.json is not of LEAF's form: KeyError: 'user_data'"),
        ('{"user_data": {"mia": {"x": [[1, 2]], "y": []}}}', "all_data_1.json: user mia has 1 examples and 0 labels"),
        ('{"user_data": {"mia": {"x": [[1, 2], [3]], "y": [0, 1]}}}', "is not of LEAF's form: ValueError"),
        (
            '{"users": ["a", "b"], "num_samples": [1, 1], "user_data": {"a": {"x": [[1, 2]], "y": [0]}}}',
            "users and user_data differ in b",
        ),
        ('{"users": ["a", "a"], "user_data": {"a": {"x": [[1, 2]], "y": [0]}}}', "users and user_data differ in a"),
        (
            '{"users": ["a"], "num_samples": [5], "user_data": {"a": {"x": [[1, 2]], "y": [0]}}}',
            "user a has 1 labels, but num_samples says 5",
        ),
        ('{"num_samples": [1, 1], "user_data": {"a": {"x": [[1, 2]], "y": [0]}}}', "num_samples has 2 entries for 1"),
        ('{"user_data": {"a": {"x": [[1, 2]], "y": [0]}, "a": {"x": [], "y": []}}}', "the key 'a' occurs 2 times"),
        ('{"user_data": {"a": {"x": [["1", 2]], "y": [0]}}}', "values of type str instead of numbers"),
        ('{"user_data": {"a": {"x": [[1, true]], "y": [0]}}}', "values of type bool instead of numbers"),
        ('{"user_data": {"a": {"x": [[1, NaN]], "y": [0]}}}', "NaN is not a number of JSON"),
        ('{"user_data": {"a": {"x": [[1, 2]], "y": [null]}}}', "values of type NoneType instead of numbers"),
        ('{"user_data": {"mia": {"x": [[1, 2, 3]], "y": [0]}}}', "folder: cannot be read: ValueError"),
        ('{"user_data": {"mia": {"x": [[1, 2]], "y": [3]}}}', "has other labels than 0 to 2, such as 3"),
    ],
)
def test_files_of_another_form_are_refused(folder, content, message):
    (folder / "train/all_data_1.json").write_text(content)
    with pytest.raises(ScenarioError, match=r"folder|labels") as raised:
        leaf(folder).load(STREAMS)
    assert message in str(raised.value)


def test_other_folders_are_refused(folder, tmp_path):
    with pytest.raises(ScenarioError, match="the folder does not exist"):
        leaf(tmp_path / "nowhere").load(STREAMS)
    with pytest.raises(ScenarioError, match=r"has no \.json files"):
        leaf(tmp_path / "train/..", test_share=0.5).model_copy(update={"folder": tmp_path.parent}).load(STREAMS)
    (fault,) = leaf(folder, test_share=0.3).faults(None)
    assert str(fault).startswith("test_share: has no effect: the folder has test examples")


def test_test_users_without_training_examples_are_refused(folder):
    write(folder / "test/all_data_0.json", {"stranger": [1]})
    with pytest.raises(ScenarioError, match="no user of train/ has examples in test/"):
        leaf(folder).load(STREAMS)
