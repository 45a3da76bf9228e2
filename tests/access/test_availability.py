"""Availability of users from a file: available rounds, once or periodic, against hand calculations."""

from __future__ import annotations

import numpy as np
import pytest
from support import doc_pages

from netfl.access.availability import Availability
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts


@pytest.fixture
def make_access(model_with_file):
    return model_with_file(Availability)


def problems(access, users=2, rounds=9):
    return [str(fault) for fault in access.faults(ScenarioFacts(users=users, rounds=rounds))]


def delivered_rounds_of(delivery_matrix, access, context):
    """Return the rounds, counted from 1, in which each user is delivered."""
    return [(np.flatnonzero(column) + 1).tolist() for column in delivery_matrix(access, context).T]


def test_delivered_rounds_match_hand_calculation(make_access, make_context, delivery_matrix):
    access = make_access("0,off,2,5\n1,on,3\n2,on,0.5,1.5,2.5\n3,off,2.001,4\n", unit="rounds")
    assert delivered_rounds_of(delivery_matrix, access, make_context(4, 7)) == [[3, 4, 5], [1, 2, 3], [2], [3, 4]]


def test_times_in_seconds_convert_to_rounds(make_access, make_context, delivery_matrix):
    rows = "0,off,60,150\n1,on,90\n"
    access = make_access(rows, round_length="30 s")
    assert delivered_rounds_of(delivery_matrix, access, make_context(2, 7)) == [[3, 4, 5], [1, 2, 3]]


@pytest.mark.parametrize("round_length", [0.1, 0.3, 1 / 3, 1e-3, 7.7])
def test_change_at_the_end_of_a_round_tolerates_rounding_errors(
    make_access, make_context, delivery_matrix, round_length
):
    """The user is available in every second round; the times are products or sums of the round length."""
    for times in (round_length * np.arange(1, 2_000), np.cumsum(np.full(1_999, round_length))):
        access = make_access("0,off," + ",".join(map(repr, times.tolist())) + "\n", round_length=round_length)
        available = delivery_matrix(access, make_context(1, 2_000))[:, 0]
        assert (available == (np.arange(2_000) % 2 == 1)).all()


def test_file_repeats_with_its_period(make_access, make_context, delivery_matrix):
    access = make_access("0,off,2,5\n1,on,3\n2,on\n3,off\n", unit="rounds", repeat=6)
    delivered_rounds = delivered_rounds_of(delivery_matrix, access, make_context(4, 14))
    assert delivered_rounds == [[3, 4, 5, 9, 10, 11], [1, 2, 3, 7, 8, 9, 13, 14], [*range(1, 15)], []]
    assert access.rates(4, make_context().streams).tolist() == [0.5, 0.5, 1.0, 0.0]
    assert access.info.process == "cyclic"


@pytest.mark.parametrize(("repeat", "round_length"), [(6.3, 1.0), (0.75, 1.0), (100.0, 7.0), (2.5, 0.1), (1.0, 3.0)])
def test_period_need_not_be_a_multiple_of_the_round_length(
    make_access, make_context, delivery_matrix, repeat, round_length
):
    rng = np.random.default_rng(3)
    rows = [(user, bool(user % 2), np.sort(rng.uniform(0, repeat, user))) for user in range(5)]
    text = "".join(f"{user},{start:d},{','.join(map(repr, times.tolist()))}\n" for user, start, times in rows)
    available = delivery_matrix(make_access(text, round_length=round_length, repeat=repeat), make_context(5, 300))
    for index in range(1, 301):
        time = (index * round_length * (1 - 1e-12)) % repeat
        assert available[index - 1].tolist() == [start ^ bool((times < time).sum() % 2) for _, start, times in rows]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("round_length", [None, 0.3, 7.7])
def test_participation_rates_match_one_simulated_period(make_access, make_context, delivery_matrix, seed, round_length):
    """Changes occur at round ends and inside rounds, twice in one round, and in the first and last rounds."""
    rng, cycle = np.random.default_rng(seed), 9
    step = round_length or 1.0
    instants = np.concatenate([np.arange(1, 2 * cycle - 1) / 2, [0.01, cycle - 0.01]])
    rows = []
    for user in range(5):
        times = np.sort(rng.choice(instants, size=rng.integers(1, 8), replace=False)) * step
        rows.append(",".join([str(user), rng.choice(["on", "off"]), *map(str, times.tolist())]) + "\n")
    settings = {"unit": "rounds"} if round_length is None else {"round_length": round_length}
    access = make_access("".join(rows), repeat=cycle * step, **settings)
    context = make_context(5, cycle)
    measured = delivery_matrix(access, context).mean(axis=0)
    assert access.participation_rates(5, context.streams).tolist() == pytest.approx(measured.tolist(), abs=1e-12)


@pytest.mark.parametrize("repeat", [1e9, 1e15, 1e300])
def test_participation_rates_of_a_long_period_are_computed_in_closed_form(make_access, make_context, repeat):
    access = make_access("0,on,5\n1,off,5\n", unit="rounds", repeat=repeat)
    assert access.participation_rates(2, make_context().streams) == pytest.approx(
        [5 / repeat, 1 - 5 / repeat], rel=1e-12
    )


def test_last_state_persists_without_repeat(make_access, make_context, delivery_matrix):
    access = make_access("0,off,2\n1,on,2\n", unit="rounds")
    assert delivered_rounds_of(delivery_matrix, access, make_context(2, 50)) == [[*range(3, 51)], [1, 2]]
    assert access.rates(2, make_context().streams) is None
    assert access.info.process is None


def test_available_users_are_delivered_in_random_order(make_access, make_context, delivered_users):
    text = "".join(f"{user},on\n" for user in range(4))
    all_present, first_two = (
        delivered_users(make_access(text, deliveries=first), make_context(4, 200)) for first in (None, 2)
    )
    assert [users[:2] for users in all_present] == first_two
    assert {users[0] for users in first_two} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("0,on\n", {}, "file: there.csv has no rows for some users ([1]); give a row for each of the 2 users"),
        ("0,on\n1,on\n2,on\n", {}, "file: there.csv:3: no such user (2); users are numbered 0 to 1"),
        ("0,on\n1,on,5,3\n", {}, "file: there.csv:2: times are not ascending: 3 follows 5"),
        (
            "0,on\n1,on,5,7\n",
            {"repeat": 7},
            "file: there.csv:2: a change at 7 is after the end of the period of 7",
        ),
        ("0,on\n1,on\n", {"deliveries": 3}, "deliveries: more than the 2 users"),
        ("", {}, "file: there.csv has no user"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_errors(make_access, make_context, text, settings, message):
    access = make_access(text, **settings)
    (fault,) = problems(access)
    assert fault.startswith(message)
    if "deliveries" not in settings:
        assert access.rates(2, make_context().streams) is None
        with pytest.raises(ScenarioError):
            next(access.rounds(make_context(2, 9)))


def test_missing_file_is_an_error(tmp_path):
    (fault,) = problems(Availability(file=tmp_path / "none.csv"))
    assert "cannot be read: No such file" in fault


@pytest.mark.parametrize("settings", [{"repeat": 0}, {"unit": "hours"}, {"round_length": 0}])
def test_values_out_of_range_raise_an_error(make_access, settings):
    with pytest.raises(ScenarioError) as error:
        make_access("0,on\n", **settings)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == set(settings)


def test_time_is_refused_where_the_unit_is_rounds(make_access):
    with pytest.raises(ScenarioError, match="unit is rounds") as error:
        make_access("0,on\n", unit="rounds", repeat="1 day")
    assert error.value.faults[0].key == "Availability.repeat"
    assert make_access("0,on\n", unit="rounds", repeat=50).repeat == 50.0


def test_path_is_relative_to_the_current_directory(make_access, monkeypatch):
    folder = make_access("0,on\n1,on\n").file.parent
    monkeypatch.chdir(folder)
    access = Availability(file="there.csv", repeat="1 day")
    assert not problems(access)
    assert Availability.model_validate(access.model_dump(mode="json")) == access


@pytest.mark.slow
def test_large_file_is_read_quickly(make_access, make_context, delivered_users):
    times = ",".join(str(k) for k in range(1, 2_000))
    access = make_access("".join(f"{user},{user % 2},{times}\n" for user in range(500)), unit="rounds")
    rounds = delivered_users(access, make_context(500, 2_000))
    assert {len(round_) for round_ in rounds} == {250}


def test_users_of_intervals_are_delivered_while_available(make_access, make_context, delivery_matrix):
    access = make_access(
        "device,from,to\n0,0,3\n1,1,5\n1,6,\n", columns={"user": "device", "start": "from", "end": "to"}
    )
    assert delivered_rounds_of(delivery_matrix, access, make_context(2, 8)) == [[1, 2, 3], [2, 3, 4, 5, 7, 8]]


@pytest.mark.parametrize(
    ("text", "settings", "is_warned"),
    [
        ("user,start,times\n0,on,1600000000000\n1,off,1600000003000\n", {}, True),
        ("user,start,end\n0,1600000000,1600000009\n1,1600000000,\n", {}, True),
        ("0,on,10\n1,on\n", {}, True),
        ("0,on,9\n1,on\n", {}, False),
        ("0,on,9\n1,on\n", {"round_length": 0.5}, True),
        ("0,on,10\n1,on\n", {"unit": "rounds"}, True),
        ("0,on\n1,off\n", {}, False),
    ],
)
def test_file_without_a_change_in_the_run_is_warned_of(make_access, make_context, text, settings, is_warned):
    warnings = [*make_access(text, **settings).warnings(make_context(2, 9))]
    assert len(warnings) == is_warned
    assert all("access.file: no change in there.csv" in text for text in warnings)


def test_examples_of_the_page_on_files_have_the_stated_intervals(tmp_path, make_context, delivery_matrix):
    """Hand calculation in rounds of an hour; CSV and JSON of one table agree."""
    examples = [block for block in doc_pages.blocks(doc_pages.ROOT / "docs/files.md") if block.language != "none"]
    _, changes, as_json, intervals, _, dates, *_ = examples
    all_rounds = [*range(1, 9)]
    expected = {changes: [[1, *range(3, 9)], all_rounds, all_rounds], intervals: [[1, 3], [*range(2, 9)], []]}
    for example, presence in expected.items():
        assert delivered_rounds_of(delivery_matrix, read(tmp_path, example.text), make_context(3, 8)) == presence

    same = read(tmp_path, as_json.text, "there.json")
    assert delivered_rounds_of(delivery_matrix, same, make_context(2, 8)) == expected[changes][:2]

    columns = {"user": "device", "start": "plugged_in", "end": "unplugged"}
    plugged_in = read(tmp_path, dates.text, columns=columns, origin="2024-03-30T00:00")
    assert delivered_rounds_of(delivery_matrix, plugged_in, make_context(2, 40)) == [[*range(23, 31)], [*range(24, 32)]]


def read(tmp_path, text, name="there.csv", **settings):
    (tmp_path / name).write_text(text)
    return Availability(file=str(tmp_path / name), round_length="1 h", **settings)
