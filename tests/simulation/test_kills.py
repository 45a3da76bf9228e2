"""Kills at each rename of an extension and of a run: the run is as it was or as it will be, and the call continues."""

import os
import shutil
import signal
import sys
import traceback

import pytest
from support.restarted_runs import LEARNER, a_scenario

import netfl
from netfl.results.digests import verify_runs
from netfl.results.run_reader import EXTENSION, MERGED

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forked"),
    pytest.mark.slow,
]


def in_fork(act):
    """Run *act* in a forked process, which leaves this one without threads; return its exit status."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return status


def kill_at(number, act, *, after):
    """Run *act* in a process that is killed before or *after* its rename *number*; return whether it came so far."""

    def counted():
        replace, count = os.replace, [0]

        def replace_or_die(*arguments):
            is_last = count[0] == number
            count[0] += 1
            if is_last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*arguments)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = replace_or_die
        act()

    status = in_fork(counted)
    assert status in {0, signal.SIGKILL}
    return status != 0


def contents(folder):
    """Return the bytes of all files of results, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {".lock", "manifest.json"} and EXTENSION not in path.parts
    }


def trace(folder, **changes):
    return netfl.trace(a_scenario(record="all", **changes), folder)


def learn(folder):
    return netfl.run(a_scenario(checkpoint="none"), folder, device="cpu")


def extend(folder):
    return netfl.extend(folder, 3, device="cpu")


@pytest.mark.parametrize(("begin", "first"), [(trace, 6), (learn, 17)])
def test_a_killed_extension_is_as_it_was_or_as_it_will_be(begin, first, tmp_path):
    """The first renames, which write the new replicas, are those of a run and are left out."""
    source, whole = tmp_path / "source", tmp_path / "whole"
    assert in_fork(lambda: begin(source)) == 0
    (source / "report.html").write_text("one replica")
    shutil.copytree(source, whole)
    assert in_fork(lambda: extend(whole)) == 0
    before, later = contents(source), contents(whole)
    states = []
    number = first
    reached = True
    while reached:
        for after in (False, True):
            folder = tmp_path / f"killed{number}{after}"
            shutil.copytree(source, folder)
            reached = kill_at(number, lambda folder=folder: extend(folder), after=after)
            run = netfl.open_run(folder)
            assert (run.status, not reached or run.summary["replicas"] == run.manifest["replicas"]) == ("done", True)
            assert all(result.good for result in verify_runs(folder))
            states.append(run.manifest["replicas"])
            if states[-1] == 1:
                assert contents(folder) == before
            else:
                assert all(result.good for result in verify_runs(folder, whole))
            if states[-1] == 1 or (folder / MERGED).exists():
                assert in_fork(lambda folder=folder: extend(folder)) == 0
            assert contents(folder) == later
            shutil.rmtree(folder)
        number += 1
    assert states == sorted(states)  # one rename decides
    assert 1 in states
    assert states.count(3) > 10


def test_a_run_that_is_killed_at_any_rename_resumes_or_starts_again(tmp_path):
    whole = trace(tmp_path / "whole", replicas=2).folder
    number = 0
    reached = True
    while reached:
        for after in (False, True):
            folder = tmp_path / f"killed{number}{after}"
            reached = kill_at(number, lambda folder=folder: trace(folder, replicas=2), after=after)
            if not (folder / "manifest.json").exists():
                trace(folder, replicas=2)
            elif reached and netfl.open_run(folder).status != "done":
                netfl.resume(folder)
            assert contents(folder) == contents(whole)
            assert all(result.good for result in verify_runs(folder))
            shutil.rmtree(folder)
        number += 1
    assert number > 8


def tune(folder):
    learners = {"A": LEARNER, "B": LEARNER | {"objective": {"kind": "cvar", "alpha": 0.5, "lr_t": 0.1}}}
    tuning = {"by": "loss", "trials": 3, "factor": 8, "replicas": 1}
    evaluate = {"every": 2, "validation": 0.3}
    scenario = a_scenario(checkpoint="none", record="none", learners=learners, tuning=tuning, evaluate=evaluate)
    return netfl.run(scenario, folder, device="cpu")


def test_a_tuned_run_that_is_killed_in_a_pass_or_later_resumes_or_starts_again(tmp_path):
    whole = tmp_path / "whole"
    assert in_fork(lambda: tune(whole)) == 0
    number = 0
    reached = True
    in_passes = 0
    while reached:
        folder = tmp_path / f"killed{number}"
        reached = kill_at(number, lambda folder=folder: tune(folder), after=bool(number % 2))
        in_passes += not (folder / "users.parquet").exists()
        if not (folder / "manifest.json").exists():
            assert in_fork(lambda folder=folder: tune(folder)) == 0
        elif netfl.open_run(folder).status != "done":
            assert in_fork(lambda folder=folder: netfl.resume(folder, device="cpu")) == 0
        assert contents(folder) == contents(whole)
        assert all(result.good for result in verify_runs(folder))
        shutil.rmtree(folder)
        number += 5
    assert in_passes > 3
