"""The causes of one user's missing deliveries, as names and sentences."""

import numpy as np
import pytest

from netfl.diagnosis.explanation import Explanation, Gain, LeastTime, Standing, UserExplanation


def gain(after, before=12, p=1e-6, time_s=4000.0):
    """Return a gain of 4,000 rounds of one second."""
    half_width = 4.0
    difference = after - before
    before_s = time_s / before if before else np.inf
    after_s = time_s / after if after else np.inf
    return Gain(before, after, difference - half_width, difference + half_width, p, before_s, after_s)


def explained(deliveries=12, together=None, p=1e-9, **options):
    """Return the explanation of user 17 whose fair share is 100."""
    options = {"standing": Standing.RARE, "gains": {}, "fair": 100.0, "empty_rounds": 0} | options
    gains = {
        cause: gain(after, deliveries) if isinstance(after, int) else after
        for cause, after in options.pop("gains").items()
    }
    all_causes = None if together is None else gain(together, deliveries)
    return UserExplanation(
        user=17, deliveries=deliveries, rounds=4000, p=p, gains=gains, together=all_causes, **options
    )


def test_single_cause_is_named_with_its_effect():
    user = explained(together=101, gains={"fading": 98, "contention": 14}, typical={"fading": 1.02})
    assert user.named == ("fading",)
    assert user.sentence == (
        "user 17 delivered 12 updates in 4\u202f000 rounds (fair share 100): fading; without fading, it would have "
        "delivered 98 updates (94 to 102), one in 40.8 s; a typical user would deliver +2 without fading"
    )


def test_cost_of_everybody_explains_no_rarity():
    """Without contention the user delivers four times as much, and so does a typical user."""
    user = explained(together=48, gains={"contention": 48}, typical={"contention": 4.0})
    assert user.share("contention") == 0.0
    assert user.named == ()
    assert user.sentence.endswith(
        "no single cause explains it; without all of them, it would have delivered 48 updates (44 to 52), one in "
        "1 min 23 s"
    )


def test_shares_compare_the_shortfall_with_and_without_a_cause():
    """Of 88 deliveries that it lacks, 44 come back without outages; typical users gain nothing."""
    user = explained(together=100, gains={"outage": 56, "fading": 14}, typical={"outage": 1.0})
    assert user.share("outage") == pytest.approx(0.5)
    assert user.share("fading") == pytest.approx(2 / 88)
    assert user.named == ("outage",)


def test_gain_within_chance_is_not_named():
    user = explained(together=60, gains={"fading": gain(60, p=0.02), "outage": 12})  # 3 tests: 0.06
    assert user.named == ()
    assert not user.is_significant(user.gains["fading"])


def test_two_causes_of_which_either_suffices():
    user = explained(
        together=95,
        gains={"fading": 13, "outage": 12, "compute": 12},
        sufficient=("fading", "outage"),
        without_sufficient=gain(95),
    )
    assert user.named == ("fading", "outage")
    assert (
        "fading and outage, of which either suffices; without both, it would have delivered 95 updates" in user.sentence
    )


def test_causes_that_add_up():
    """Without the deadline alone the user delivers more, but lacks most of its fair share."""
    user = explained(
        together=95,
        gains={"fading": 20, "deadline": 40},
        sufficient=("fading", "deadline"),
        without_sufficient=gain(95),
    )
    assert "fading and deadline, which add up; without all of them, it would have delivered 95 updates" in user.sentence


def test_two_causes_that_work_together():
    """Frames fail by noise and interference together: without either of them the user delivers."""
    user = explained(together=100, gains={"fading": 90, "contention": 95}, typical={})
    assert user.named == ("contention", "fading")
    assert "contention and fading together, as it delivers without either" in user.sentence
    assert "without fading, it would have delivered 90 updates" in user.sentence


def test_second_cause_is_named_after_the_first():
    user = explained(together=100, gains={"fading": 70, "outage": 40})
    assert "mostly fading, then outage" in user.sentence


BOUND = LeastTime(train_s=0.3, frames=8, frame_s=279.0, airtime_s=2.79, round_s=600.0, trainings=200, finished=200)


def test_airtime_against_the_end_of_the_round_needs_no_replay():
    user = explained(0, least_time=BOUND, ties=45)
    assert user.is_starving
    assert user.named == ("airtime", "deadline")
    assert user.sentence == (
        "user 17 delivered no update in 4\u202f000 rounds (fair share 100), like 45 other users: airtime against the "
        "deadline: 8 packets × 4 min 39 s (2.79 s on the air, the rest silence) = 37 min 12 s, and rounds close after "
        "at most 10 min 00 s"
    )


@pytest.mark.parametrize(
    ("train_s", "frame_s", "finished", "causes"),
    [
        (3.5, 0.1, 0, ("compute",)),
        (3.5, 0.1, 1, ("compute",)),
        (2.0, 0.9, 200, ("compute", "airtime")),
        (2.0, 2.6, 200, ("airtime",)),
        (2.0, 0.2, 200, ()),
    ],
)
def test_bound_names_what_exceeds_the_round(train_s, frame_s, finished, causes):
    bound = LeastTime(train_s, 1, frame_s, frame_s, round_s=2.5, trainings=200, finished=finished)
    assert bound.causes == causes
    assert explained(0, least_time=bound).named == (causes and (*causes, "deadline"))
    assert explained(1, least_time=bound).bound_causes == ()


@pytest.mark.parametrize(
    ("standing", "deliveries", "end"),
    [
        (Standing.ABOVE, 120, "more than its fair share of 100"),
        (Standing.WITHIN_CHANCE, 95, "which may be chance (p = 1e-09): its fair share is 100"),
    ],
)
def test_user_that_is_not_rare_is_not_called_so(standing, deliveries, end):
    user = explained(deliveries, standing=standing)
    assert user.sentence == f"user 17 delivered {deliveries} updates in 4\u202f000 rounds, {end}"
    assert not user.is_starving


def test_sentence_states_how_often_chance_explains_a_rare_user():
    user = explained(60, together=98, gains={"contention": 98}, p=0.004)
    assert user.sentence.startswith(
        "user 17 delivered 60 updates in 4\u202f000 rounds (fair share 100; by chance, some of equal users is as rare "
        "in 1 of 250 such runs): contention; without contention"
    )


def test_doubtful_user_has_no_cause_but_needs_more_rounds():
    user = explained(80, standing=Standing.DOUBTFUL, p=0.04)
    assert not user.is_starving
    assert user.named == ()
    assert user.sentence == (
        "user 17 delivered 80 updates in 4\u202f000 rounds, fewer than its fair share of 100, as chance makes some "
        "user of a network of equal users in 1 of 25 such runs: run more rounds before you look for a cause"
    )


def test_battery_is_called_a_battery():
    words = {"outage": "battery"}
    user = explained(together=101, gains={"outage": 98, "contention": 14}, typical={"outage": 1.02}, words=words)
    assert user.named == ("outage",)
    assert "(fair share 100): battery; without battery, it would have delivered 98 updates" in user.sentence
    assert user.sentence.endswith("a typical user would deliver +2 without battery")
    joint = explained(
        together=95, gains={"fading": 13, "outage": 12}, sufficient=("fading", "outage"),
        without_sufficient=gain(95), words=words,
    )  # fmt: skip
    assert "fading and battery, of which either suffices" in joint.sentence
    assert "outage" not in joint.sentence


def test_starved_network_is_judged_by_all_causes_together():
    """With hardly any delivery at all there is no typical user to compare with."""
    user = explained(
        0, standing=Standing.STARVED, fair=0.25, empty_rounds=3999, together=200,
        gains={"contention": gain(190, 0), "fading": gain(2, 0, p=0.25)},
    )  # fmt: skip
    assert user.named == ("contention",)
    assert "(3999 rounds delivered nothing at all): contention; without contention" in user.sentence


def test_table_and_json_have_one_row_for_each_user():
    users = (explained(together=101, gains={"fading": 98}), explained(0, least_time=BOUND))
    result = Explanation(users, ("fading",), {"outage": "none"}, 100.0, ("a note",))
    table = result.table
    assert table["main"].tolist() == ["fading", "airtime"]
    assert table["gain_fading"].tolist()[0] == 86
    assert table["gain_fading"].isna().tolist() == [False, True]
    flat = result.to_json()
    assert flat["explain.gain_s_fading"][0] == pytest.approx(4000 / 12 - 4000 / 98)
    assert flat["explain.gain_s_fading"][1] is None
    assert flat["explain.sentences"] == [user.sentence for user in users]
    assert flat["explain.inactive"] == {"outage": "none"}
