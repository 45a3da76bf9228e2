"""Environments of Gymnasium: episodes, seeds, observations and information, compared with the simulation itself."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.gym_environments import LEARNING, NETWORK, make

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.types import OUTCOMES

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra


def play(environment, seed, rounds=12, actions=1):
    """Return all results of an episode with random actions."""
    environment.action_space.seed(actions)
    results = [environment.reset(seed=seed)]
    results += [environment.step(environment.action_space.sample()) for _ in range(rounds)]
    return results


def equal(first, second):
    np.testing.assert_equal(first, second)
    return True


@pytest.mark.parametrize("prefix", ["netfl/", "netfl.gym:netfl/", "netfl.gym.", "netfl.gym:netfl.gym."])
@pytest.mark.parametrize("name", ["UserSelection-v0", "ResourceAllocation-v0"])
def test_ids_are_registered(prefix, name):
    import netfl.gym as environments

    environment = gymnasium.make(prefix + name, scenario=NETWORK)
    assert type(environment.unwrapped) is getattr(environments, name.removesuffix("-v0"))
    environment.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("UserSelection", {}),
        ("UserSelection", {"observation": "flat", "action": "scores", "m": 2}),
        ("UserSelection", {"action": "user", "render_mode": "rgb_array"}),
        ("UserSelection", {"scenario": LEARNING, "learner": "A", "reward": {"accuracy": 10, "time": 0.1}}),
        ("UserSelection", {"scenario": "access/bernoulli", "rounds": 20}),
        ("ResourceAllocation", {}),
        ("ResourceAllocation", {"action": "dict", "overrides": {"access.mac": {"kind": "controlled", "channels": 2}}}),
        ("ResourceAllocation", {"scenario": "rural_outage", "rounds": 30, "observation": "flat"}),
    ],
)
def test_checkers_of_gymnasium_and_stable_baselines_find_nothing(name, options):
    from gymnasium.utils.env_checker import check_env

    baselines = pytest.importorskip("stable_baselines3.common.env_checker", reason="stable-baselines3 is not installed")
    environment = make(name, **options)
    check_env(environment)
    if options.get("action") != "dict":  # which stable-baselines3 does not support
        baselines.check_env(environment)


def test_equal_seeds_and_actions_give_equal_episodes():
    first, second = (play(make(), seed=5) for _ in range(2))
    assert equal(first, second)
    assert not np.array_equal(first[-1][0]["link_margin"], play(make(), seed=6)[-1][0]["link_margin"])


def test_episode_is_the_simulation_with_that_seed():
    environment = make()
    environment.action_space.seed(2)
    masks = [environment.action_space.sample() for _ in range(12)]
    with netfl.Simulation(NETWORK, seed=9) as simulation:
        expected = [simulation.step(mask.astype(bool)) for mask in masks]
    environment.reset(seed=9)
    results = [environment.step(mask) for mask in masks]
    assert [info["round"] for *_, info in results] == expected
    assert [info["time_s"] for *_, info in results] == [each.closed_s for each in expected]
    assert [truncated for *_, truncated, _ in results] == [False] * 11 + [True]
    assert not any(terminated for _, _, terminated, _, _ in results)


def test_without_actions_the_scenario_selects_as_in_a_trace(tmp_path):
    scenario = netfl.load(NETWORK, {"access.selection": {"kind": "uniform", "m": 3}})
    run = netfl.trace(netfl.load(scenario, {"seed": 8}), tmp_path / "run")
    environment = make(scenario=scenario)
    environment.reset(seed=8)
    infos = [environment.step(None)[-1] for _ in range(12)]
    assert [info["time_s"] for info in infos] == run.rounds["closed_s"].tolist()
    assert [int(info["deliveries"].sum()) for info in infos] == run.rounds["delivered"].tolist()


def test_episodes_without_a_seed_follow_from_the_last_seed():
    environment = make()
    seeds = [environment.reset(seed=4)[1]["seed"], *(environment.reset()[1]["seed"] for _ in range(3))]
    assert seeds[0] == 4
    assert len(set(seeds)) == 4
    assert [environment.reset(seed=4)[1]["seed"], *(environment.reset()[1]["seed"] for _ in range(3))] == seeds
    assert make().reset()[1]["seed"] != make().reset()[1]["seed"]


def test_information_counts_what_the_tables_list():
    environment = make()
    environment.action_space.seed(3)
    environment.reset(seed=7)
    with netfl.Simulation({**NETWORK, "record": "all"}, seed=7) as simulation:
        for _ in range(12):
            mask = environment.action_space.sample()
            simulation.step(mask.astype(bool))
            *_, info = environment.step(mask)
            ended = simulation.outcomes
            assert info["outcomes"] == {name: int((ended["outcome"] == name).sum()) for name in OUTCOMES}
            delivered = ended.loc[ended["outcome"] == "delivered", "user"]
            assert info["deliveries"].tolist() == np.bincount(delivered, minlength=6).tolist()
            failed = simulation.events.query("kind == 'failed' and round == @simulation.round")
            for cause, counts in environment.simulation.history.failed.items():
                users = failed.loc[failed["detail"] == cause, "user"]
                assert counts.tolist() == np.bincount(users, minlength=6).tolist()
            last = ended.groupby("user")["outcome"].last()
            assert {
                user: OUTCOMES[code] for user, code in enumerate(environment.simulation.history.outcome) if code >= 0
            } == {**last}


def test_observations_follow_their_formulas():
    environment = make()
    results = play(environment, seed=1, rounds=8)
    observation, state = results[-1][0], environment.simulation.state
    layout, history = environment.simulation.layout, environment.simulation.history
    with netfl.Simulation(NETWORK, seed=1) as simulation:
        environment.action_space.seed(1)
        for _ in range(8):
            simulation.step(environment.action_space.sample().astype(bool))
        outcomes = simulation.outcomes
    last = outcomes.groupby("user")["outcome"].last().reindex(range(6))
    counts = np.array([(outcomes["outcome"] == name).sum() for name in OUTCOMES])
    expected = {
        "age": state.age / (state.age + 6),
        "link_margin": np.clip((state.snr_db + 7.5) / 20, -1, 1),
        "backlog": state.backlog / (state.backlog + 1),
        "up": state.user_up * np.array([state.node_up[layout.towers[tower]] for tower in layout.tower_at_start]),
        "distance": layout.distance_m / layout.distance_m.max(),
        "energy": state.energy_j / state.energy_j.max(),
        "speed": environment.simulation.users["speed"] / environment.simulation.users["speed"].max(),
        "upload": np.full(6, 8e3 / (8e3 + 1e6)),
        "participation": state.delivered / 8,
        "delivered": (last == "delivered").to_numpy(),
        "failed": last.isin(["late", "discarded", "collided", "faded", "lost", "dropped", "given_up"]).to_numpy(),
        "collided": history.failed["collided"] / (history.failed["collided"] + 1),
        "faded": history.failed["faded"] / (history.failed["faded"] + 1),
        "progress": [8 / 12],
        "outcomes": counts / (counts + 6),
        "queues": np.array([*state.queues.values()]) / (np.array([*state.queues.values()]) + 1),
        "nodes": [*state.node_up.values()],
    }
    assert {*observation} == {*expected}
    for name, values in expected.items():
        np.testing.assert_allclose(observation[name], np.asarray(values, float), rtol=1e-6, err_msg=name)
        assert observation[name].dtype == np.float32
    informative = {name for name in expected if len({tuple(np.ravel(step[0][name])) for step in results[1:]}) > 1}
    assert informative >= {
        "age",
        "link_margin",
        "up",
        "energy",
        "participation",
        "delivered",
        "failed",
        "collided",
        "outcomes",
    }


def test_flat_observation_is_the_dictionary_in_order():
    names = ["up", "age", "progress"]
    dictionary = play(make(observe=names), seed=5)[-1][0]
    environment = make(observe=names, observation="flat")
    flat = play(environment, seed=5)[-1][0]
    assert equal(flat, np.concatenate([dictionary[name] for name in names]))
    assert environment.observation_slices == {"up": slice(0, 6), "age": slice(6, 12), "progress": slice(12, 13)}


def test_losses_and_accuracy_come_from_the_learner():
    environment = make(scenario=LEARNING, learner="B", reward="accuracy")
    environment.action_space.seed(1)
    observation, _ = environment.reset(seed=2)
    with netfl.Simulation(environment.scenario, seed=2, learning=True) as simulation:
        start = simulation.report.metrics["accuracy"][0]
        total = 0.0
        for _ in range(12):
            mask = environment.action_space.sample()
            observation, reward, _, _, info = environment.step(mask)
            simulation.step(mask.astype(bool))
            total += reward
            metrics = simulation.report.metrics
            assert bool(metrics) == (simulation.round % 2 == 0)
            if metrics:
                assert info["metrics"]["accuracy"] == metrics["accuracy"][0]
                losses = np.array([metrics[f"loss/user:{user}"][0] for user in range(6)])
                np.testing.assert_allclose(observation["loss"], losses / (losses + 1), rtol=1e-6)
            else:
                assert reward == 0
        assert total == pytest.approx(metrics["accuracy"][0] - start)
        assert total > 0.1


def test_diverged_training_is_an_error():
    environment = make(scenario=LEARNING, overrides={"learners.A.lr": 1e38}, learner="A")
    environment.reset(seed=2)
    with pytest.raises(ModelError, match="training diverged"):
        for _ in range(12):
            environment.step(np.ones(6, np.int8))


def test_closed_loop_has_its_learner():
    environment = make(scenario="closed_loop", rounds=3)
    observation, _ = environment.reset(seed=1)
    assert [*environment.scenario.learners] == ["FedAvg"]
    results = [environment.step(None) for _ in range(3)]
    assert results[-1][3]
    assert observation["loss"].min() > 0


def test_data_stay_with_their_users_unless_redrawn():
    def digits(environment, seed):
        environment.reset(seed=seed)
        columns = [f"class:{label}" for label in range(10)]
        return environment.simulation.users[columns].to_numpy()

    own = netfl.Simulation(LEARNING).users[[f"class:{label}" for label in range(10)]].to_numpy()
    fixed = make(scenario=LEARNING)
    assert (digits(fixed, 1) == own).all()
    assert (digits(fixed, 2) == own).all()
    redrawn = make(scenario=LEARNING, redraw_data=True)
    of_seed = netfl.Simulation(LEARNING, seed=1).users[[f"class:{label}" for label in range(10)]].to_numpy()
    assert (digits(redrawn, 1) == of_seed).all()
    assert (of_seed != own).any()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_run_equal_episodes(mode):
    vector = gymnasium.make_vec("netfl.gym:netfl/UserSelection-v0", 2, mode, scenario=NETWORK, reward="mean_age")
    single = make(reward="mean_age")
    observations, infos = vector.reset(seed=[5, 6])
    assert infos["seed"].tolist() == [5, 6]
    vector.action_space.seed(1)
    actions = [vector.action_space.sample() for _ in range(12)]
    results = [vector.step(action) for action in actions]
    for index in range(2):
        single.reset(seed=5 + index)
        for action, (observations, rewards, _, truncated, infos) in zip(actions, results, strict=True):
            observation, reward, _, over, info = single.step(action[index])
            assert equal({name: values[index] for name, values in observations.items()}, observation)
            assert rewards[index] == reward
            assert truncated[index] == over
            assert infos["round"][index] == info["round"]
            assert infos["outcomes"]["delivered"][index] == info["outcomes"]["delivered"]
    observations, *_, truncated, infos = vector.step(actions[0])  # begins new episodes
    assert not truncated.any()
    assert (observations["progress"] == 0).all()
    vector.close()


def test_image_shows_the_users():
    environment = make(render_mode="rgb_array")
    environment.reset(seed=1)
    before = environment.render()
    for _ in range(4):
        environment.step(np.ones(6, np.int8))
    after = environment.render()
    assert before.shape == after.shape == (560, 500, 3)
    assert before.dtype == np.uint8
    assert (before != after).any()
    assert make().render() is None
    bare = make(scenario="access/bernoulli", render_mode="rgb_array")
    bare.reset(seed=1)
    bars = bare.render()
    bare.step(np.ones(bare.users, np.int8))
    assert (bare.render() != bars).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observe": ["ages"]}, r"observe: no such feature \('ages'\); did you mean 'age'\?"),
        ({"observe": []}, "observe: names no feature"),
        ({"observe": ["age", "up", "age"]}, r"observe: names a feature twice \('age'\)"),
        ({"observe": ["loss"]}, "learner: the scenario has no learner; add learners, data and a model to it"),
        ({"observation": "box"}, r"observation: no such form \('box'\); use dict or flat"),
        ({"reward": "delivery"}, r"reward: no such reward \('delivery'\); did you mean 'deliveries'\?"),
        ({"reward": {"deliveries": 1, 3: 2}}, r"reward: not a reward \(3\); give one of deliveries"),
        ({"overrides": {"access.energy": None}, "reward": "energy"}, "access.energy: the reward needs the energy"),
        ({"overrides": {"access.energy": None}, "observe": ["energy"]}, "observe: this scenario has no such values"),
        ({"reward": "accuracy"}, "learner: the scenario has no learner"),
        ({"scenario": LEARNING, "reward": "accuracy"}, "learner: several learners are given; name one of A, B"),
        ({"scenario": LEARNING, "learner": "a"}, r"learner: no such learner \('a'\)"),
        ({"scenario": "validation/mm1"}, "duration: the scenario has a duration"),
        ({"rounds": 0}, "overrides={'rounds': 0}: rounds: should be greater"),
        ({"scenario": "nowhere.yaml"}, "nowhere.yaml: the file does not exist"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ScenarioError, match=message):
        make(**options)


def test_wrong_calls_are_named():
    environment = make(rounds=1)
    with pytest.raises(ScenarioError, match=r"no episode has begun; call reset\(\)"):
        environment.step(np.ones(6, np.int8))
    with pytest.raises(ScenarioError, match=r"reset\(\) has no options"):
        environment.reset(options={"rounds": 3})
    environment.reset(seed=1)
    environment.step(np.ones(6, np.int8))
    with pytest.raises(ScenarioError, match=r"the episode is over; call reset\(\)"):
        environment.step(np.ones(6, np.int8))


def test_environments_do_not_import_torch():
    code = (
        "import gymnasium, netfl.gym, sys\n"
        "for name in ('UserSelection', 'ResourceAllocation'):\n"
        "    env = gymnasium.make(f'netfl/{name}-v0', rounds=3)\n"
        "    env.reset(seed=1)\n"
        "    env.step(env.action_space.sample())\n"
        "print('torch' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.split()[-1] == "False"


def test_making_again_registers_nothing_twice():
    import netfl.gym

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        netfl.gym._register()


def test_guide_lists_all_features_and_rewards():
    from netfl.gym.observations import FEATURES
    from netfl.gym.rewards import REWARDS

    page = (Path(__file__).parents[2] / "docs/howto/gymnasium.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE))
    assert {(name, each.formula) for name, each in FEATURES.items()} <= rows
    assert {*REWARDS} <= {name for name, _ in rows}


def test_an_episode_keeps_its_tables_on_request():
    environment = make(record=True)
    results = play(environment, seed=5)
    tables = environment.simulation.snapshot()
    assert len(tables["rounds"]) == len(results) - 1
    assert {*tables} >= {"rounds", "deliveries", "events", "users", "nodes"}
    delivered = sum(result[4]["deliveries"].sum() for result in results[1:])
    assert len(tables["deliveries"]) == delivered
    equal([observation for observation, *_ in play(make(), seed=5)], [observation for observation, *_ in results])
    environment = make()
    play(environment, seed=5)
    with pytest.raises(ScenarioError, match="create the simulation, or environment, with record=True"):
        environment.simulation.snapshot()


def test_users_keep_the_labels_that_they_give():
    """An episode holds data that carry these labels already, and must not swap them back."""
    blocks = {"dialect": {"users": [1], "relabel": {0: 1, 1: 0}}, "remote": {"users": [2], "classes": [9]}}
    scenario = netfl.load(LEARNING, {"partition": {"kind": "blocks", "blocks": blocks}})
    columns = ["block", *(f"class:{label}" for label in range(10))]
    expected = netfl.Simulation(scenario).users[columns]
    environment = make(scenario=scenario)
    for seed in (1, 2):
        environment.reset(seed=seed)
        assert environment.simulation.users[columns].equals(expected)
    plain = {"kind": "blocks", "blocks": {"dialect": {"users": [1]}, "remote": blocks["remote"]}}
    of_data = netfl.Simulation(netfl.load(scenario, {"partition": plain})).users[columns]
    swapped = of_data.loc[1, ["class:1", "class:0"]].tolist()
    assert expected.loc[1, ["class:0", "class:1"]].tolist() == swapped != swapped[::-1]
