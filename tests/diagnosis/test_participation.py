"""Reading deliveries: errors, assumptions and notes."""

import numpy as np
import pandas as pd
import pytest

from netfl.diagnosis import from_matrix, from_table, participation_from_sequence
from netfl.errors import ScenarioError

GOOD = pd.DataFrame({"round": [1, 1, 2, 4], "user": ["b", "a", "a", "c"], "arrived_s": [1.0, 2.0, 3.0, 7.0]})


def test_table_with_user_names():
    participation = from_table(GOOD)
    assert participation.names == ("b", "a", "c")
    assert participation.delivered.astype(int).tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert participation.closed_s.tolist() == [2.0, 3.0, 5.0, 7.0]
    assert any("1 of 4 rounds are missing from the table" in note for note in participation.notes)
    assert any("table has 3 users, taken as all users" in note for note in participation.notes)


def test_given_numbers_of_users_and_rounds_replace_assumptions():
    participation = from_table(GOOD, users=5, rounds=6)
    assert participation.delivered.shape == (6, 5)
    assert participation.names == ("b", "a", "c", "unheard 1", "unheard 2")
    assert participation.closed_s[-1] == pytest.approx(7 + 2 * 5 / 3)
    assert participation.notes == ()


def test_rounds_may_be_counted_from_0():
    participation = from_table(pd.DataFrame({"round": [0, 1, 2], "user": [0, 1, 0]}), users=3)
    assert participation.delivered.shape == (3, 3)
    assert participation.notes == ("Rounds are counted from 0.",)


def test_numbered_users_keep_their_numbers():
    table = pd.DataFrame({"round": [1, 2], "user": [7, 3]})
    assert from_table(table).names == ("3", "7")
    assert from_table(table, users=8).delivered[:, [3, 7]].tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(
    ("columns", "message", "options"),
    [
        ({"a": [1]}, "no such column", {}),
        ({"round": [], "user": []}, "no rows", {}),
        ({"round": [1, None], "user": [1, 2]}, "row 2 has an empty round or user", {}),
        ({"round": [1, -2], "user": [1, 2]}, r"not the number of a round \(-2\)", {}),
        ({"round": [1, 1.5], "user": [1, 2]}, r"not the number of a round \(1.5\)", {}),
        ({"round": ["x", "2"], "user": [1, 2]}, r"not the number of a round \('x'\)", {}),
        ({"round": [1, 10**12], "user": [1, 2]}, "not the number of a round", {}),
        ({"round": ["1", "inf"], "user": [1, 2]}, r"not the number of a round \('inf'\)", {}),
        ({"round": [1, 9_000_000], "user": [1, 2]}, "9000000 rounds of 1000 users would take 9.0 GB", {"users": 1000}),
        ({"round": [1, 2], "user": [1, 2]}, r"no such user \(2\); 2 users are numbered 0 to 1", {"users": 2}),
        ({"round": [1, 2], "user": [-1, 1]}, r"no such user \(-1\)", {"users": 2}),
        ({"round": [1, 2], "user": ["a", "b"]}, "the table has 2 users", {"users": 1}),
        ({"round": [1, 9], "user": [1, 2]}, "fewer than in the table", {"rounds": 4}),
        ({"round": [1, 2], "user": [1, 2], "closed_s": [5, 3]}, "round 2 ends at 3 s, after one at 5 s", {}),
        ({"round": [1, 2], "user": [1, 2], "closed_s": [5, "x"]}, r"not a time in seconds \('x'\)", {}),
        ({"round": [1, 2], "user": [1, 1]}, "there is only one user", {}),
        ({"round": [1, 1], "user": [1, 2]}, "there is only one round", {}),
    ],
)
def test_invalid_tables_raise_an_error(columns, message, options):
    with pytest.raises(ScenarioError, match=message):
        from_table(pd.DataFrame(columns), **options)


def test_rounds_may_be_written_as_text():
    participation = from_table(pd.DataFrame({"round": ["1.0", " 2", "4"], "user": ["a", "b", "a"]}))
    assert participation.delivered.astype(int).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]


def test_sequence_of_users():
    participation = participation_from_sequence(np.array([0, 2, -1, 2]), users=4)
    assert participation.delivered.sum(axis=0).tolist() == [1, 0, 2, 0]
    assert participation.delivered.sum(axis=1).tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("value", [[0.5, 1.0], [], [[1, 2]]])
def test_invalid_sequences_raise_an_error(value):
    with pytest.raises(ScenarioError, match="not a sequence"):
        participation_from_sequence(np.array(value))


@pytest.mark.parametrize(
    ("value", "message"), [([[1, 2], [0, 1]], "not a Boolean array"), (np.zeros((4, 2)), "no round")]
)
def test_invalid_matrices_raise_an_error(value, message):
    with pytest.raises(ScenarioError, match=message):
        from_matrix(value)


def test_decreasing_times_raise_an_error():
    with pytest.raises(ScenarioError, match="round 2 ends at 1 s, after one at 2 s"):
        from_table(GOOD[["round", "user"]], closed_s=[2.0, 1.0, 3.0, 4.0])


@pytest.mark.parametrize("index", [[1, 1, 2], ["1.0", "1", "2"]], ids=["numbers", "text"])
def test_repeated_delivery_counts_once_with_a_note(index):
    participation = from_table(pd.DataFrame({"round": index, "user": [1, 1, 2]}))
    assert participation.delivered.tolist() == [[True, False], [False, True]]
    assert "1 of 3 deliveries repeat a user of the same round" in " ".join(participation.notes)
