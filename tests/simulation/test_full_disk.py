"""A disk that is really full, and one that may only be read: file systems in memory, where they may be mounted."""

import errno
import os
import subprocess
import sys

import pytest
from support.restarted_runs import LEARNER, a_scenario, assert_same, assert_same_tables
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError


class Mounted:
    """A file system of its own."""

    def __init__(self, place):
        self.place = place

    def said(self, options, *more):
        return subprocess.run(["mount", *more, "-o", options, str(self.place)], capture_output=True, check=False)

    def room(self, pages):
        """Leave that many pages of 4 KiB, beside what is taken."""
        found = os.statvfs(self.place)
        assert self.said(f"remount,nr_blocks={found.f_blocks - found.f_bfree + pages}").returncode == 0

    def only_read(self):
        assert self.said("remount,ro").returncode == 0


@pytest.fixture
def disk(tmp_path):
    """One with room enough, until it is said otherwise."""
    place = tmp_path / "disk"
    place.mkdir()
    made = Mounted(place)
    if not sys.platform.startswith("linux") or made.said("size=64m", "-t", "tmpfs", "tmpfs").returncode:
        pytest.skip("file systems may not be mounted here")
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return netfl.run(a_scenario(), tmp_path_factory.mktemp("alone") / "run", device="cpu")


def call(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


@pytest.mark.parametrize("pages", [1, 2, 4, 7, 12, 20])
@pytest.mark.quick_first
def test_a_run_for_which_there_is_no_room_goes_on_where_there_is(disk, alone, pages):
    folder = disk.place / "run"
    disk.room(pages)
    with pytest.raises(MachineError) as raised:
        netfl.run(a_scenario(), folder, device="cpu")
    told = str(raised.value)
    assert os.strerror(errno.ENOSPC) in told
    disk.room(1 << 12)
    if (folder / "manifest.json").exists():
        assert told.endswith(f"fix this, then continue with: netfl resume {folder}")
        assert netfl.open_run(folder).status in {"failed", "crashed"}
        assert call("resume", folder, "--device", "cpu", "-q") == (0, "")
    else:
        netfl.run(a_scenario(), folder, device="cpu")
    assert_same(netfl.open_run(folder), alone)


@pytest.mark.parametrize("pages", [0, 1, 3, 5])
@pytest.mark.quick_first
def test_a_stopped_run_loses_nothing_where_there_is_no_room_to_go_on(disk, alone, pages):
    stopped = netfl.run(a_scenario(), disk.place / "run", device="cpu", observer=StopAfter(2))
    names = ("rounds", "deliveries", "events", "metrics", "users")
    before = netfl.open_run(stopped.folder)
    tables = {name: before.table(name) for name in names}
    disk.room(pages)
    code, output = call("resume", stopped.folder, "--device", "cpu", "-q")
    assert code == 1
    assert len(output.splitlines()) == 1
    assert os.strerror(errno.ENOSPC) in output
    now = netfl.open_run(stopped.folder)
    assert now.status in {"interrupted", "failed", "crashed"}
    assert all(now.table(name).equals(tables[name]) for name in names)
    disk.room(1 << 12)
    assert_same(netfl.resume(stopped.folder, device="cpu"), alone)


@pytest.mark.parametrize("pages", [0, 6, 14])
@pytest.mark.quick_first
def test_a_finished_run_stays_what_it_is_where_there_is_no_room_to_extend_it(disk, alone, pages):
    run = netfl.run(a_scenario(), disk.place / "run", device="cpu")
    disk.room(pages)
    code, output = call("extend", run.folder, "--replicas", 2, "--device", "cpu", "-q")
    assert (code, len(output.splitlines())) == (1, 1)
    assert f"netfl extend {run.folder} --replicas 2" in output
    now = netfl.open_run(run.folder)
    assert (now.status, now.manifest["replicas"]) == ("done", 1)
    assert_same_tables(now, alone)
    disk.room(1 << 12)
    assert call("extend", run.folder, "--replicas", 2, "--device", "cpu", "-q") == (0, "")


def test_where_nothing_may_be_written_that_is_told_in_one_line(disk):
    stopped = netfl.run(a_scenario(), disk.place / "run", device="cpu", observer=StopAfter(2)).folder
    done = netfl.run(a_scenario(learners={"B": LEARNER}), disk.place / "done", device="cpu").folder
    disk.only_read()
    why = os.strerror(errno.EROFS)
    assert call("resume", stopped) == (1, f"cannot write into {stopped}: {why}\n")
    assert call("extend", done, "--replicas", 2) == (1, f"cannot write into {done}: {why}\n")
    with pytest.raises(MachineError, match=f"cannot write a run into {disk.place / 'new'}: {why}"):
        netfl.run(a_scenario(), disk.place / "new", device="cpu")
    assert netfl.open_run(stopped).status == "interrupted"
    assert len(netfl.open_run(stopped).rounds) == 2
