"""Digests of tables depend on their values alone, not on how a file stores them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netfl.results.digests import column_digests, table_digest

WORDS = ["b", "a", None, "b"]
VALUES = [0.1, np.nan, -0.0, 3.0]


def digest(tmp_path, digits=None, **columns):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return table_digest(path, digits)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_words_count_and_not_their_storage(tmp_path, kind):
    plain = digest(tmp_path, words=pa.array(WORDS, pa.string()))
    assert digest(tmp_path, words=pa.array(WORDS, pa.string()).cast(kind)) == plain
    assert digest(tmp_path, words=pa.array(["b", "a", None, "c"], pa.string()).cast(kind)) != plain
    assert digest(tmp_path, words=pa.array(["b", "a", "a", "b"], pa.string()).cast(kind)) != plain


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_whole_numbers_count_and_not_their_width(tmp_path, kind):
    plain = digest(tmp_path, n=pa.array([1, -2, None], pa.int64()))
    assert digest(tmp_path, n=pa.array([1, -2, None], kind)) == plain
    assert digest(tmp_path, n=pa.array([1, -2, 3], kind)) != plain


def test_every_bit_of_a_number_counts(tmp_path):
    plain = digest(tmp_path, x=VALUES)
    assert digest(tmp_path, x=[np.nextafter(0.1, 1.0), *VALUES[1:]]) != plain
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(float)[0]
    assert digest(tmp_path, x=[0.1, other_nan, -0.0, 3.0]) == plain  # all NaN are one


def test_rounded_numbers_are_equal_to_their_digits(tmp_path):
    plain = digest(tmp_path, 9, x=VALUES)
    assert digest(tmp_path, 9, x=[0.1 + 1e-12, np.nan, 0.0, 3.0]) == plain
    assert digest(tmp_path, 9, x=[0.1 + 1e-9, np.nan, 0.0, 3.0]) != plain


def columns_of(tmp_path, digits=None, **columns):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return column_digests(path, digits)


def test_digest_of_a_column_is_that_of_a_table_without_others(tmp_path):
    columns = {"x": pa.array(VALUES), "words": pa.array(WORDS)}
    alone = {name: digest(tmp_path, 9, **{name: values}) for name, values in columns.items()}
    assert columns_of(tmp_path, 9, **columns) == alone


def test_a_new_column_or_value_changes_one_digest(tmp_path):
    replica = [0, 1, 0, 1]
    before = columns_of(tmp_path, replica=replica, x=VALUES)
    assert columns_of(tmp_path, replica=replica, new=WORDS, x=VALUES) == {
        **before,
        "new": columns_of(tmp_path, replica=replica, new=WORDS)["new"],
    }
    other = columns_of(tmp_path, replica=replica, x=[*VALUES[:3], 4.0])
    assert (other["replica"], other["x"] == before["x"]) == (before["replica"], False)


def test_digest_of_a_column_depends_on_the_replicas_of_its_rows(tmp_path):
    before = columns_of(tmp_path, replica=[0, 0, 0, 1], x=[1.0, 2.0, 3.0, 4.0])
    after = columns_of(tmp_path, replica=[0, 0, 1, 1], x=[1.0, 2.0, 3.0, 4.0])
    assert all(before[name] != after[name] for name in before)
