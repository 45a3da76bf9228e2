"""What the network did, in words and shares."""

import pytest

from netfl.diagnosis.loss_attribution import LossAttribution, Training, UserAttribution


def story(heard, together=0, p=None, training=None, **without):
    chances = dict.fromkeys([*without, "all"], 0.01) | (p or {})
    return UserAttribution(17, heard, 4000, 133.3, {}, {}, without, together, chances, training)


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (
            story(12, 99, fading=98, outage=47),
            "mostly fading (71 %), then outage (29 %); without fading, it would have delivered 98 updates",
        ),
        (
            story(12, 99, {"outage": 0.06}, fading=98, outage=47),
            "fading (100 %); without fading, it would have delivered 98 updates; without all of them, it would have "
            "delivered 99 updates",
        ),
        (story(0, 50, fading=50, queue=0), "fading (100 %); without fading, it would have delivered 50 updates"),
        (
            story(12, 99, {"fading": 1.0, "outage": 0.2}, fading=14, outage=13),
            "no cause alone costs it more deliveries than chance explains; without all of them, it would have "
            "delivered 99 updates",
        ),
        (
            story(1, 3, {"fading": 0.051, "all": 0.3}, fading=2),
            "no cause costs it more deliveries than chance explains",
        ),
        (
            story(0, 8, dict.fromkeys(("compute", "all"), 1.0), Training(3.5, 2.4, 300, 0), compute=8),
            "compute: it never sends, because it trains for 3.5 s and rounds close after 2.4 s (median); without "
            "compute, it would have delivered 8 updates",
        ),
    ],
)
def test_sentences(one, told):
    often = {0: "no update", 1: "1 update"}.get(one.deliveries, f"{one.deliveries} updates")
    assert one.sentence == f"user 17 delivered {often} in 4000 rounds (fair share 133): {told}"


@pytest.mark.parametrize(
    ("training", "causes"),
    [
        (Training(3.5, 2.4, 300, 0), ("compute",)),
        (Training(3.5, 2.4, 300, 1), ()),  # it sends, though seldom: a test decides
        (Training(2.3, 2.4, 300, 0), ()),  # something else keeps it from its end, an outage say
        (Training(3.5, 2.4, 0, 0), ()),  # it receives nothing to train from
        (None, ()),
    ],
)
def test_compute_is_named_without_a_test_where_it_alone_ends_every_training(training, causes):
    one = story(0, 8, dict.fromkeys(("compute", "all"), 1.0), training, compute=8)
    assert one.named == causes
    assert one.shares == {"compute": float(bool(causes))}
    assert story(0, 0, {"compute": 1.0}, training, compute=0).shares == {"compute": 0.0}
    assert story(0, 8, dict.fromkeys(("queue", "all"), 1.0), training, queue=0).named == ()  # all train equally long


def test_shares_are_of_gains_that_are_named_alone():
    one = story(10, 0, {"contention": 0.4}, fading=40, queue=20, outage=3, contention=15)
    assert one.gains == {"fading": 30, "queue": 10, "outage": -7, "contention": 5}
    assert one.named == ("fading", "queue")
    assert one.shares == {"fading": 0.75, "queue": 0.25, "outage": 0.0, "contention": 0.0}
    flat = LossAttribution((one,), ("fading", "queue", "outage", "contention"), {"compute": "none"}, ()).to_json()
    assert flat["explain.share_fading"] == [0.75]
    assert flat["explain.p_contention"] == [0.4]
    assert flat["explain.main"] == ["fading"]
    assert flat["explain.sentences"] == [one.sentence]
    assert "explain.train_s" not in flat
    trained = LossAttribution((story(0, training=Training(3.5, 2.4, 9, 0), queue=0),), ("queue",), {}, ()).to_json()
    assert (trained["explain.train_s"], trained["explain.finished"]) == ([3.5], [0])
