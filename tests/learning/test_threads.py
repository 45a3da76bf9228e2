"""The number of threads: one for small models, the faster one for large models, and that of a resumed run."""

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, learner, spec

from netfl.learning import threads
from netfl.learning.model.mlp import Mlp
from netfl.learning.threads import ThreadChoice, choose_threads, measure_seconds, torch_threads

LARGE = Mlp(hidden=(50,))


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_SHARED_OUT", 1000)
    with torch_threads(2):
        yield


@pytest.fixture
def timed(monkeypatch):
    """Set the times that one and two threads take; collect what was timed."""
    calls = []

    def set_times(*seconds):
        def measure(train, counts):
            train()
            calls.append(tuple(counts))
            return list(seconds)

        monkeypatch.setattr(threads, "measure_seconds", measure)
        return calls

    return set_times


@pytest.mark.parametrize(("seconds", "chosen"), [((1.5, 1.0), 2), ((1.4, 1.0), 1), ((1.0, 3.0), 1)])
def test_large_models_use_two_threads_if_they_pay(timed, seconds, chosen):
    calls = timed(*seconds)
    batched = learner({"a": spec(local_steps=3)}, model=LARGE)
    before = batched.version(0)
    assert batched.training_method == ""
    with batched.working():
        assert torch.get_num_threads() == chosen
        ratio = f"{seconds[0] / seconds[1]:.2f}"
        assert f"{ratio} times as fast" in batched.training_method
        assert ("several workers" in batched.training_method) == (chosen == 1)
    assert torch.get_num_threads() == 2
    assert calls == [(1, 2)]
    assert np.array_equal(batched.version(0), before)


def test_small_models_use_one_thread_unmeasured(timed):
    calls = timed(2.0, 1.0)
    with learner({"a": spec()}).working():
        assert torch.get_num_threads() == 1
    assert calls == []


def test_omp_num_threads_is_respected(timed, monkeypatch):
    calls = timed(1.0, 9.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for model in (LARGE, Mlp(hidden=(5,))):
        with learner({"a": spec()}, model=model).working():
            assert torch.get_num_threads() == 2
    assert calls == []


def test_one_core_leaves_no_choice(timed):
    calls = timed(2.0, 1.0)
    with torch_threads(1):
        assert choose_threads(10**9, lambda: None) == ThreadChoice(1)
    assert calls == []


def test_times_are_measured_in_turns(monkeypatch):
    """A call takes 0.3 s with one thread and 0.1 s with two, and 9 s when it is first made."""
    now, used = [0.0], []
    monkeypatch.setattr(threads.time, "perf_counter", lambda: now[0])

    def train():
        used.append(torch.get_num_threads())
        now[0] += 9.0 if len(used) == 1 else {1: 0.3, 2: 0.1}[used[-1]]

    assert measure_seconds(train, (1, 2)) == pytest.approx([0.3, 0.1])
    assert used == [1, 1, 2, 1, 2]
    assert torch.get_num_threads() == 2


def test_a_resumed_run_uses_the_number_of_threads_of_its_checkpoint(timed):
    """Sums in another number of threads may differ in the last bits."""
    timed(2.0, 1.0)
    batched = learner({"a": spec(local_steps=2)}, model=LARGE)
    with batched.working():
        batched.step([a_round(1, (0, 0))])
        state = batched.state()
    timed(1.0, 1.0)
    resumed = learner({"a": spec(local_steps=2)}, model=LARGE)
    with resumed.working():
        assert torch.get_num_threads() == 1
        resumed.restore(state)
        assert torch.get_num_threads() == 2
        assert resumed.state()["threads"] == 2, "a second resumption uses it, too"
    assert torch.get_num_threads() == 2
