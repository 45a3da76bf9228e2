"""Loss attribution as sentences and shares."""

import pytest

from netfl.diagnosis.loss_attribution import LossAttribution, Training, UserAttribution


def attribution(deliveries, without_all=0, p=None, training=None, **without):
    chances = dict.fromkeys([*without, "all"], 0.01) | (p or {})
    return UserAttribution(17, deliveries, 4000, 133.3, {}, {}, without, without_all, chances, training)


@pytest.mark.parametrize(
    ("user", "explanation"),
    [
        (
            attribution(12, 99, fading=98, outage=47),
            "mostly fading (71 %), then outage (29 %); without fading, it would have delivered 98 updates",
        ),
        (
            attribution(12, 99, {"outage": 0.06}, fading=98, outage=47),
            "fading (100 %); without fading, it would have delivered 98 updates; without all of them, it would have "
            "delivered 99 updates",
        ),
        (attribution(0, 50, fading=50, queue=0), "fading (100 %); without fading, it would have delivered 50 updates"),
        (
            attribution(12, 99, {"fading": 1.0, "outage": 0.2}, fading=14, outage=13),
            "no cause alone costs it more deliveries than chance explains; without all of them, it would have "
            "delivered 99 updates",
        ),
        (
            attribution(1, 3, {"fading": 0.051, "all": 0.3}, fading=2),
            "no cause costs it more deliveries than chance explains",
        ),
        (
            attribution(0, 8, dict.fromkeys(("compute", "all"), 1.0), Training(3.5, 2.4, 300, 0), compute=8),
            "compute: it never sends, because it trains for 3.5 s and rounds close after 2.4 s (median); without "
            "compute, it would have delivered 8 updates",
        ),
    ],
)
def test_sentence_explains_the_losses(user, explanation):
    count = {0: "no update", 1: "1 update"}.get(user.deliveries, f"{user.deliveries} updates")
    assert user.sentence == f"user 17 delivered {count} in 4000 rounds (fair share 133): {explanation}"


@pytest.mark.parametrize(
    ("training", "causes"),
    [
        (Training(3.5, 2.4, 300, 0), ("compute",)),
        (Training(3.5, 2.4, 300, 1), ()),  # it sends rarely: the test decides
        (Training(2.3, 2.4, 300, 0), ()),  # another cause interrupts the training, for example an outage
        (Training(3.5, 2.4, 0, 0), ()),  # it receives no model to train
        (None, ()),
    ],
)
def test_compute_is_named_without_a_test_if_no_training_can_finish(training, causes):
    user = attribution(0, 8, dict.fromkeys(("compute", "all"), 1.0), training, compute=8)
    assert user.named == causes
    assert user.shares == {"compute": float(bool(causes))}
    assert attribution(0, 0, {"compute": 1.0}, training, compute=0).shares == {"compute": 0.0}
    assert (
        attribution(0, 8, dict.fromkeys(("queue", "all"), 1.0), training, queue=0).named == ()
    )  # all users train for the same time


def test_shares_include_named_gains_only():
    user = attribution(10, 0, {"contention": 0.4}, fading=40, queue=20, outage=3, contention=15)
    assert user.gains == {"fading": 30, "queue": 10, "outage": -7, "contention": 5}
    assert user.named == ("fading", "queue")
    assert user.shares == {"fading": 0.75, "queue": 0.25, "outage": 0.0, "contention": 0.0}
    flat = LossAttribution((user,), ("fading", "queue", "outage", "contention"), {"compute": "none"}, ()).to_json()
    assert flat["explain.share_fading"] == [0.75]
    assert flat["explain.p_contention"] == [0.4]
    assert flat["explain.main"] == ["fading"]
    assert flat["explain.sentences"] == [user.sentence]
    assert "explain.train_s" not in flat
    trained = LossAttribution(
        (attribution(0, training=Training(3.5, 2.4, 9, 0), queue=0),), ("queue",), {}, ()
    ).to_json()
    assert (trained["explain.train_s"], trained["explain.finished"]) == ([3.5], [0])
