"""A resumed run compares its rounds with those of the checkpoint, in all fields, whichever form of digest it has."""

import math
from dataclasses import dataclass, fields, replace
from hashlib import blake2b

import pytest
import torch
from support.small_network import PLAIN
from support.stop_run import StopAfter

import netfl
from netfl.errors import MachineError
from netfl.simulation import round_digest
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.simulation.round_digest import RoundDigest, TextDigest
from netfl.types import Delivery, LinkReport, Merge, Round

LINK = LinkReport(snr_db=7.5, gain_db=-90.0, mode=0, airtime_s=0.5, energy_j=math.nan)
FIRST = Delivery(user=3, base=1, sent_s=2.25, arrived_s=3.5, attempts=2, received=(True, False), link=LINK)
SECOND = Delivery(user=0, base=0, sent_s=2.5, arrived_s=3.75)
MERGES = (
    Merge(node=1, number=3, round=1, time_s=3.0, deliveries=(SECOND,)),
    Merge(node=1, number=4, round=1, time_s=3.5, models=((0, 1, 0.5), (1, 3, 1.5))),
)
ROUND = Round(
    index=2,
    opened_s=2.0,
    closed_s=4.0,
    deliveries=(FIRST, SECOND),
    oldest=1,
    uplink_bits=100.0,
    downlink_bits=50.0,
    queries={"loss": (0, 3)},
    needed=(1,),
    energy_j=0.125,
    merges=MERGES,
)
PLAIN_ROUND = replace(ROUND, merges=())
TEXT = (
    "[None, Round(index=2, opened_s=2.0, closed_s=4.0, deliveries=(Delivery(user=3, base=1, sent_s=2.25, arrived_s=3.5,"
    " attempts=2, received=(True, False)), Delivery(user=0, base=0, sent_s=2.5, arrived_s=3.75, attempts=1,"
    " received=None)), oldest=1, uplink_bits=100.0, downlink_bits=50.0, queries={'loss': (0, 3)}, needed=(1,),"
    " energy_j=0.125)]"
    "[Round(index=3, opened_s=4.0, closed_s=5.0, deliveries=(Delivery(user=0, base=0, sent_s=2.5, arrived_s=3.75,"
    " attempts=1, received=None),), oldest=1, uplink_bits=0.0, downlink_bits=0.0, queries={}, needed=None,"
    " energy_j=None), None]"
)
"""Text of two times two rounds, as checkpoints without a form had it in their digest."""

CHANGES = {
    Round: {
        "index": 3,
        "opened_s": 2.5,
        "closed_s": 4.5,
        "deliveries": (SECOND, FIRST),
        "oldest": 0,
        "uplink_bits": 101.0,
        "downlink_bits": 0.0,
        "queries": {},
        "needed": None,
        "energy_j": None,
        "merges": (),
        "not_summed": ((1, 0),),
    },
    Delivery: {
        "user": 2,
        "base": 0,
        "sent_s": 2.0,
        "arrived_s": 3.25,
        "attempts": 1,
        "received": (False, True),
        "tower": "tower:1",
        "lost_bases": (0,),
        "link": None,
    },
    Merge: {
        "node": 2,
        "number": 4,
        "round": 0,
        "time_s": 2.5,
        "deliveries": (),
        "models": ((0, 1, 0.5), (1, 2, 1.5)),
        "oldest": 1,
    },
    LinkReport: {"snr_db": 7.0, "gain_db": -91.0, "mode": 1, "airtime_s": 0.25, "energy_j": 0.5},
}
"""Another value of each field."""


def digest_of(*rounds):
    digest = RoundDigest()
    digest.update(rounds)
    return digest.hexdigest()


def with_change(rows, change):
    """Return the round with a *change* in itself, in a merge, in its first delivery or in the link of this."""
    if rows is Round:
        return replace(ROUND, **change)
    if rows is Merge:
        trains, mixes = MERGES
        if "models" in change:
            return replace(ROUND, merges=(trains, replace(mixes, **change)))
        return replace(ROUND, merges=(replace(trains, **change), mixes))
    if rows is Delivery:
        return replace(ROUND, deliveries=(replace(FIRST, **change), SECOND))
    return replace(ROUND, deliveries=(replace(FIRST, link=replace(LINK, **change)), SECOND))


@pytest.mark.parametrize(
    ("rows", "name"), [(rows, field.name) for rows in (Round, Merge, Delivery, LinkReport) for field in fields(rows)]
)
def test_every_field_changes_the_digest(rows, name):
    changed = with_change(rows, {name: CHANGES[rows][name]})
    assert changed != ROUND
    assert digest_of(changed) != digest_of(ROUND)


def test_digest_depends_on_the_replica_and_on_the_delivery_with_the_link():
    assert digest_of(ROUND, None) == digest_of(ROUND)
    assert digest_of(None, ROUND) != digest_of(ROUND)
    moved = (replace(FIRST, link=None), replace(SECOND, link=LINK))
    assert digest_of(replace(ROUND, deliveries=moved)) != digest_of(ROUND)


def test_digest_depends_on_each_model_of_a_merge_and_on_the_round_of_a_merge():
    trains, mixes = MERGES
    for models in (((0, 1, 0.5), (1, 3, 1.25)), ((2, 1, 0.5), (1, 3, 1.5)), ((1, 3, 1.5), (0, 1, 0.5))):
        changed = replace(ROUND, merges=(trains, replace(mixes, models=models)))
        assert digest_of(changed) != digest_of(ROUND)
    first, second = replace(ROUND, merges=(trains,)), replace(ROUND, merges=(mixes,))
    assert digest_of(replace(first, merges=MERGES), replace(second, merges=())) != digest_of(first, second)


def test_a_column_that_no_row_has_leaves_the_digest_as_it_was(monkeypatch):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class LaterDelivery(Delivery):
        lane: int = 0
        height_m: float | None = None
        notes: tuple[str, ...] = ()

    before = digest_of(PLAIN_ROUND)
    monkeypatch.setattr(round_digest, "Delivery", LaterDelivery)
    LaterDelivery.__name__ = "Delivery"

    def later(**values):
        old = [{field.name: getattr(each, field.name) for field in fields(Delivery)} for each in (FIRST, SECOND)]
        return replace(PLAIN_ROUND, deliveries=(LaterDelivery(**old[0]), LaterDelivery(**old[1], **values)))

    digests = [digest_of(later(**values)) for values in ({}, {"lane": 1}, {"height_m": 2.0}, {"notes": ("a",)})]
    assert digests[0] == before
    assert len(set(digests)) == len(digests)


def test_digest_of_texts_is_that_of_older_checkpoints():
    digest = TextDigest()
    digest.update([None, PLAIN_ROUND])
    digest.update([Round(index=3, opened_s=4.0, closed_s=5.0, deliveries=(SECOND,), oldest=1), None])
    assert digest.hexdigest() == blake2b(TEXT.encode(), digest_size=16).hexdigest()


def run_of(folder, **options):
    """Run two replicas for eight rounds, in which links are reported."""
    scenario = netfl.Scenario(
        name="resumed",
        users=3,
        rounds=8,
        replicas=2,
        access={"kind": "network", **PLAIN},
        data={"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
        partition="iid",
        model="logistic",
        learners={"a": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}},
        record={"links": True},
    )
    return netfl.run(scenario, folder, device="cpu", **options)


def text_digest(run):
    """Return the digest of the texts of the rounds of *run*, written from its tables."""
    digest = blake2b(digest_size=16)
    for _, rounds in run.rounds.groupby("round"):
        texts = []
        for each in rounds.itertuples():
            of_round = run.deliveries.query("replica == @each.replica and round == @each.round")
            deliveries = "".join(
                f"Delivery(user={row.user}, base={row.base}, sent_s={row.sent_s}, arrived_s={row.arrived_s}, "
                f"attempts={row.attempts}, received=None),"
                for row in of_round.itertuples()
            )
            texts.append(
                f"Round(index={each.round}, opened_s={each.opened_s}, closed_s={each.closed_s}, "
                f"deliveries=({deliveries}), oldest={each.oldest}, uplink_bits={each.uplink_bits}, "
                f"downlink_bits={each.downlink_bits}, queries={{}}, needed=None, energy_j=None)"
            )
        digest.update(f"[{', '.join(texts)}]".encode())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("whole") / "run")


def stop_with_text_digest(folder, **changes):
    """Stop a run after round 4, and give its checkpoint the form that checkpoints had before."""
    stopped = run_of(folder, observer=StopAfter(4))
    path = folder / CHECKPOINT
    content = torch.load(path, weights_only=True)
    assert content.pop("digest_form") == "columns"
    torch.save(content | {"digest": text_digest(stopped)} | changes, path)


@pytest.mark.slow
def test_a_checkpoint_with_the_digest_of_texts_is_resumed(whole, tmp_path):
    folder = tmp_path / "run"
    stop_with_text_digest(folder)
    again = netfl.resume(folder, device="cpu", observer=StopAfter(6))
    assert again.manifest["status"] == "interrupted"
    checkpoint = torch.load(folder / CHECKPOINT, weights_only=True)
    assert (checkpoint["round"], checkpoint["digest_form"]) == (6, "columns")
    resumed = netfl.resume(folder, device="cpu")
    assert resumed.manifest["digests"] == whole.manifest["digests"]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"digest": "00" * 16}, {"digest_form": "columns"}])
def test_a_checkpoint_of_other_rounds_is_refused(changes, tmp_path):
    stop_with_text_digest(tmp_path / "run", **changes)
    with pytest.raises(MachineError, match="the rounds up to 4 differ from those before"):
        netfl.resume(tmp_path / "run", device="cpu")


@pytest.mark.slow
def test_a_digest_of_an_unknown_form_is_refused(tmp_path):
    stop_with_text_digest(tmp_path / "run", digest_form="planets")
    with pytest.raises(MachineError, match=r"checkpoint\.pt does not fit this run: .*planets"):
        netfl.resume(tmp_path / "run", device="cpu")
