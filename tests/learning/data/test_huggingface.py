"""Hugging Face datasets from local files, folders of `save_to_disk`, and the cache, without network."""

import numpy as np
import pandas as pd
import pytest

from netfl.errors import ScenarioError
from netfl.learning.data.huggingface import Huggingface
from netfl.streams import Streams

pytestmark = pytest.mark.extra
datasets = pytest.importorskip("datasets", reason="netfl-sim[huggingface] is not installed")

COUNT = 40
LABEL, WRITER = np.arange(COUNT) % 4, np.array(["ada", "mia"])[np.arange(COUNT) % 2]
ROWS = np.random.default_rng(0).normal(size=(COUNT, 3)).astype(np.float32)


def table():
    return pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "row": [*ROWS.tolist()], "label": LABEL, "writer": WRITER})


def load(path, **options):
    settings = {"path": str(path), "x": "row", "features": (3,), "labels": 4, "test_share": 0.25} | options
    return Huggingface(**settings).load(Streams(0))


def same_rows(found, expected):
    assert np.sort(np.asarray(found, np.float32), axis=0) == pytest.approx(np.sort(expected, axis=0))


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_files_of_rows(tmp_path, suffix):
    path, frame = tmp_path / f"rows.{suffix}", table()
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.drop(columns="row").to_csv(path, index=False)
    data = load(path, user="writer", x=("b", "a"), features=(2,))
    same_rows([*data.train_x, *data.test_x], ROWS[:, [1, 0]])
    assert np.bincount(data.train_user).tolist() == [15, 15]
    labels = [*data.train_y, *data.test_y]
    assert np.bincount(labels).tolist() == [10] * 4
    if suffix != "csv":
        same_rows([*load(path).train_x, *load(path).test_x], ROWS)


def test_saved_data_sets_with_and_without_splits(tmp_path):
    rows = datasets.Dataset.from_pandas(table())
    rows.save_to_disk(tmp_path / "one")
    splits = {"train": rows.select(range(30)), "test": rows.select(range(30, COUNT))}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "two")
    data = load(tmp_path / "one", user="writer")
    assert (len(data.train_y), len(data.test_y)) == (30, 10)
    data = load(tmp_path / "two", test="test", test_share=None)
    same_rows(data.train_x, ROWS[:30])
    same_rows(data.test_x, ROWS[30:])
    for options, message in (
        ({"test": "dev", "test_share": None}, r"test: has no split 'dev' .*its splits: train, test"),
        ({"split": "all"}, "path: has no split 'all'"),
    ):
        with pytest.raises(ScenarioError, match=message):
            load(tmp_path / "two", **options)
    with pytest.raises(ScenarioError, match="test: has no split 'test'"):
        load(tmp_path / "one", test="test", test_share=None)


def test_images_become_channels(tmp_path):
    pixels = np.random.default_rng(1).integers(256, size=(8, 5, 4, 3), dtype=np.uint8)
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(num_classes=4)})
    content = {"img": [datasets.Image().encode_example(image) for image in pixels], "label": [*LABEL[:8].tolist()]}
    datasets.Dataset.from_dict(content, features).save_to_disk(tmp_path / "images")
    data = load(tmp_path / "images", x="img", features=(3, 5, 4))
    found = {tuple(np.rint(255 * image).astype(int).ravel()) for image in (*data.train_x, *data.test_x)}
    assert found == {tuple(image.transpose(2, 0, 1).ravel().tolist()) for image in pixels}


def test_rows_of_tokens_and_targets(tmp_path):
    frame = pd.DataFrame({"ids": [[1, 2], [3, 0]] * 10, "y": np.linspace(0, 1, 20), "z": np.linspace(1, 2, 20)})
    frame.to_parquet(tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet", x="ids", label=("y", "z"), labels=None, targets=2, features=(2,), tokens=4)
    assert data.is_regression
    same_rows([*data.train_y, *data.test_y], frame[["y", "z"]].to_numpy(np.float32))
    with pytest.raises(ScenarioError, match="which is none of the tokens 0 to 2"):
        load(tmp_path / "a.parquet", x="ids", label="y", labels=None, targets=1, features=(2,), tokens=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "rows"}, r"path: has no column rows .*its columns: a, b, row, label, writer"),
        ({"features": (2,)}, r"features: .*has examples of shape \[3\]"),
        ({"labels": 3}, "labels: .*has other labels than 0 to 2, such as 3"),
        ({"label": "row"}, "cannot be both feature and label"),
        ({"test": "train", "test_share": None}, "split and test are the same split"),
    ],
)
def test_errors_name_the_key(tmp_path, options, message):
    table().to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ScenarioError, match=message):
        load(tmp_path / "a.parquet", **options)


def test_other_files_and_unknown_names_are_refused_without_network(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(ScenarioError, match=r"path: has the suffix '\.txt'"):
        load(tmp_path / "a.txt")
    offline = datasets.config.HF_HUB_OFFLINE
    with pytest.raises(ScenarioError, match=r"path: cannot be opened: .*load it once by datasets\.load_dataset"):
        load("somebody/letters")
    assert offline == datasets.config.HF_HUB_OFFLINE


def test_a_set_in_the_cache_is_found_by_its_name(tmp_path, monkeypatch):
    """The cache is one that the package wrote for a set of the hub."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    source = tmp_path / "letters"
    source.mkdir()
    table().to_parquet(source / "train.parquet")
    datasets.load_dataset("parquet", data_files=str(source / "train.parquet"), cache_dir=str(tmp_path / "made"))
    (made,) = (tmp_path / "made/parquet").iterdir()
    (version,) = made.iterdir()
    (built,) = (entry for entry in version.iterdir() if entry.is_dir())
    target = tmp_path / "cache/somebody___letters/default/0.0.0/0123456789abcdef0123456789abcdef01234567"
    target.parent.mkdir(parents=True)
    built.rename(target)
    for arrow in target.glob("*.arrow"):
        arrow.rename(target / arrow.name.replace("parquet", "letters"))
    data = load("somebody/letters")
    same_rows([*data.train_x, *data.test_x], ROWS)


def test_users_of_csv_files_keep_their_names(tmp_path):
    names = ["007", "12e4", "NA", "1.10"] * 10
    pd.DataFrame({"x": np.arange(40.0), "label": [0, 1] * 20, "user": names}).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv", x=("x",), features=(1,), labels=2, user="user", test_share=0.5)
    assert sorted(data.user_names) == sorted(set(names))
