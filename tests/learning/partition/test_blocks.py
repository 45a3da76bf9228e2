"""Blocks of users: who is in which, what they hold, and settings that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from support.error_messages import assert_messages

import netfl
from netfl.errors import ScenarioError
from netfl.learning.blocks import OTHERS, Block, members_by_block
from netfl.learning.partition.blocks import Blocks
from netfl.learning.partition.ranked import Ranked
from netfl.scenario.scenario import load
from netfl.streams import Streams
from netfl.types import ScenarioFacts

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), np.arange(100, 200, 10)))  # 100 … 190 of each
ORDER = np.random.default_rng(1).permutation(30)  # by falling participation
FACTS = ScenarioFacts(30, 10, classes=10, rho_known=True)
REMOTE = {"users": 3, "classes": [8, 9]}
DIALECT = {"users": 4, "relabel": {3: 5, 5: 3}}


def label_counts(partition, users=30, order=ORDER):
    parts = partition.split(LABELS, users, order, Streams(1))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(LABELS)))  # each row once
    return np.array([np.bincount(LABELS[part], minlength=10) for part in parts])


def test_blocks_take_the_users_with_the_lowest_participation_in_turn():
    blocks = Blocks(blocks={"remote": REMOTE, "dialect": DIALECT}).user_blocks(30, ORDER)
    assert [block.name for block in blocks] == ["remote", "dialect"]
    assert [block.users.tolist() for block in blocks] == [sorted(ORDER[27:]), sorted(ORDER[23:27])]
    assert [dict(block.relabel) for block in blocks] == [{}, {3: 5, 5: 3}]


def test_listed_users_are_in_no_other_block():
    rarest = ORDER[::-1].tolist()
    partition = Blocks(blocks={"few": {"users": 2, "classes": [9]}, "listed": {"users": [rarest[1], 0]}})
    few, listed = partition.user_blocks(30, ORDER)
    assert listed.users.tolist() == sorted([rarest[1], 0])
    assert few.users.tolist() == sorted([user for user in rarest if user not in {rarest[1], 0}][:2])
    assert partition.ranking_source == "rho"


def test_blocks_of_listed_users_need_no_ranking():
    partition = Blocks(blocks={"listed": {"users": [4, 1], "classes": [7]}})
    assert partition.ranking_source is None
    (block,) = partition.user_blocks(30, None)
    assert block.users.tolist() == [1, 4]
    assert label_counts(partition, order=None)[[1, 4], 7].tolist() == [85, 85]


def test_classes_are_held_by_their_block_alone():
    """The label 8 has 180 examples and the label 9 has 190, which three users share; 27 others share the rest."""
    counts = label_counts(Blocks(blocks={"remote": REMOTE, "dialect": DIALECT}))
    remote, others = ORDER[27:], ORDER[:27]
    assert sorted(counts[remote, 8]) == [60, 60, 60]
    assert sorted(counts[remote, 9]) == [63, 63, 64]
    assert counts[np.ix_(others, [8, 9])].sum() == 0
    assert counts[np.ix_(remote, range(8))].sum() == 0
    sizes = counts[others].sum(axis=1)
    assert sizes.sum() == len(LABELS) - 370
    assert sizes.max() - sizes.min() <= 1


def test_a_block_may_hold_common_labels_beside_its_own():
    both = {"users": 3, "classes": [9], "common": True, "relabel": {0: 1}}
    counts = label_counts(Blocks(blocks={"both": both}))
    assert sorted(counts[ORDER[27:], 9]) == [63, 63, 64]
    common = counts[:, :9].sum(axis=1)
    assert common.max() - common.min() <= 1  # of all users
    assert counts[ORDER[:27], 9].sum() == 0


def test_a_block_without_trouble_holds_what_others_hold():
    counts = label_counts(Blocks(blocks={"control": {"users": 3}})).sum(axis=1)
    assert counts.max() - counts.min() <= 1


def test_a_partition_depends_only_on_its_streams():
    partition = Blocks(blocks={"remote": REMOTE, "dialect": DIALECT})
    parts, same, other_seed = (partition.split(LABELS, 30, ORDER, Streams(seed)) for seed in (1, 1, 2))
    assert [part.tolist() for part in parts] == [part.tolist() for part in same]
    assert [part.tolist() for part in parts] != [part.tolist() for part in other_seed]


def test_rare_labels_are_those_of_all_blocks():
    assert Blocks(blocks={"remote": REMOTE, "far": {"users": 1, "classes": [0]}}).rare_labels == (8, 9, 0)
    assert Blocks(blocks={"dialect": DIALECT}).rare_labels == ()


def test_users_in_no_block_are_the_others():
    blocks = [Block("a", np.array([1])), Block("b", np.array([0, 3]))]
    members = members_by_block(blocks, 5)
    assert {name: np.flatnonzero(users).tolist() for name, users in members.items()} == {
        "a": [1],
        "b": [0, 3],
        OTHERS: [2, 4],
    }
    assert [*members_by_block([Block("all", np.arange(5))], 5)] == ["all"]


@pytest.mark.parametrize(
    ("blocks", "errors"),
    [
        ({"remote": REMOTE, "dialect": DIALECT}, []),
        ({"remote": REMOTE | {"classes": [8, 10]}}, [("blocks.remote.classes.1", "labels 0 to 9")]),
        ({"a": REMOTE, "b": REMOTE}, [("blocks.b.classes.0", "'a'"), ("blocks.b.classes.1", "'a'")]),
        ({"a": {"users": 31}}, [("blocks", "31 users, the scenario has 30")]),
        ({"a": {"users": 20}, "b": {"users": [*range(11)]}}, [("blocks", "31 users")]),
        ({"a": {"users": [2, 30]}}, [("blocks.a.users", "no such users")]),
        ({"a": {"users": [2, 2]}}, [("blocks.a.users", "twice")]),
        ({"a": {"users": [2, 3]}, "b": {"users": [3]}}, [("blocks.b.users", "here and in block 'a'")]),
        ({"a": {"users": 30, "classes": [9]}}, [("blocks", "no user holds the 9 labels")]),
        ({"a": {"users": 2, "classes": [*range(10)]}}, [("blocks", "none for the other 28 users")]),
        ({"a": {"users": 30, "classes": [*range(10)]}}, []),
        (
            {"a": {"users": 2, "classes": [*range(10)]}, "b": {"users": 2}},
            [("blocks.b", "hold all labels alone")],
        ),
        ({"others": DIALECT}, [("blocks.others", "users in no block")]),
        ({"a": DIALECT | {"relabel": {3: 3}}}, [("blocks.a.relabel.3", "changes nothing")]),
        ({"a": DIALECT | {"relabel": {3: 10}}}, [("blocks.a.relabel.3", "labels 0 to 9")]),
        ({"a": DIALECT | {"relabel": {12: 1}}}, [("blocks.a.relabel.12", "labels 0 to 9")]),
        ({"a": REMOTE | {"relabel": {8: 3}}}, [("blocks.a.relabel.8", "contradicts nobody")]),
        ({"a": REMOTE | {"relabel": {3: 5}}}, [("blocks.a.relabel.3", "holds its classes only")]),
        ({"a": REMOTE | {"relabel": {3: 5}, "common": True}}, []),
        ({"a": REMOTE, "b": DIALECT | {"relabel": {8: 3}}}, [("blocks.b.relabel.8", "'a' holds alone")]),
        ({"a": REMOTE, "b": DIALECT | {"relabel": {3: 8}}}, [("blocks.b.relabel.3", "'a' holds label 8 alone")]),
    ],
)
def test_settings_that_do_not_fit_are_errors(blocks, errors):
    faults = [*Blocks(blocks=blocks).faults(FACTS)]
    assert [fault.key for fault in faults] == [key for key, _ in errors]
    for fault, (_, words) in zip(faults, errors, strict=True):
        assert words in fault.problem
        assert fault.remedy


def test_a_ranking_needs_its_source():
    facts = ScenarioFacts(30, 10, classes=10, placed=True)
    (fault,) = Blocks(blocks={"remote": REMOTE}).faults(facts)
    assert (fault.key, fault.value, fault.remedy) == ("by", "rho", "use distance or prerun")
    assert not [*Blocks(blocks={"remote": REMOTE | {"users": [1]}}).faults(facts)]
    (fault,) = Blocks(by="prerun", blocks={"remote": REMOTE | {"users": [1]}}).faults(facts)
    assert (fault.key, fault.problem) == ("by", "has no effect because all blocks list their users")


def test_blocks_are_no_part_of_a_ranked_partition():
    (fault,) = Ranked(inner=Blocks(blocks={"a": {"users": [1]}})).faults(FACTS)
    assert (fault.key, fault.problem) == ("inner", "itself names the users of its blocks")


SCENARIO = """
name: blocks
users: 8
rounds: 2
access: {kind: bernoulli, probability: {zipf: 0.5}}
data: digits
partition: {kind: blocks, blocks: {dialect: {users: 2, relabel: {3: 5, 5: 3}}}}
model: logistic
learners:
  FedAvg: {objective: erm, aggregation: average, lr: 0.1, batch_size: 16, local_epochs: 1}
"""


def test_a_scenario_states_the_place_of_an_error():
    with pytest.raises(ScenarioError) as error:
        load(SCENARIO.replace("5: 3}", "5: 11}"))
    assert_messages(
        str(error.value).splitlines(),
        ["the text:7: partition.blocks.dialect.relabel.5: the data have labels 0 to 9 … 5: 11 … use two of them"],
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("dialect:", "'class:9':", "partition.blocks"),
        ("dialect:", "'a b':", "partition.blocks"),
        ("relabel: {3: 5, 5: 3}", "relabel: {}", "partition.blocks.dialect.relabel"),
        ("users: 2", "users: 0", "partition.blocks.dialect.users"),
        ("users: 2,", "users: 2, common: true,", "partition.blocks.dialect.common"),
        ("{dialect: {users: 2, relabel: {3: 5, 5: 3}}}", "{}", "partition.blocks"),
    ],
)
def test_values_that_are_no_blocks(before, after, message):
    assert before in SCENARIO
    with pytest.raises(ScenarioError) as error:
        load(SCENARIO.replace(before, after))
    assert message in str(error.value)


def test_targets_that_are_numbers_cannot_be_relabelled():
    data = {"examples": (np.zeros((40, 2), np.float32), np.zeros((40, 1), np.float32)), "targets": 1}
    with pytest.raises(ScenarioError, match="partition: needs labels, but the targets of these data are numbers"):
        load(SCENARIO, {"data": data, "model": {"kind": "mlp", "hidden": [3]}})


def test_a_written_scenario_has_the_same_blocks():
    scenario = load(SCENARIO)
    assert load(scenario.to_yaml()).partition == scenario.partition
    other = scenario.at({"partition.blocks.dialect.relabel": {3: 4}})
    assert other.partition.blocks["dialect"].relabel == {3: 4}
    assert netfl.load(scenario, {"partition.blocks.dialect.users": [1, 2]}).partition.ranking_source is None
