"""Runs on a full or read-only disk, as file systems in memory; skipped if mounting is not permitted."""

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
    """A mounted file system."""

    def __init__(self, path):
        self.path = path

    def mount(self, options, *arguments):
        return subprocess.run(["mount", *arguments, "-o", options, str(self.path)], capture_output=True, check=False)

    def leave_free(self, pages):
        """Resize the disk to leave *pages* of 4 KiB free."""
        status = os.statvfs(self.path)
        assert self.mount(f"remount,nr_blocks={status.f_blocks - status.f_bfree + pages}").returncode == 0

    def make_read_only(self):
        assert self.mount("remount,ro").returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A disk with enough space until a test resizes it."""
    path = tmp_path / "disk"
    path.mkdir()
    disk_mount = Mounted(path)
    if not sys.platform.startswith("linux") or disk_mount.mount("size=64m", "-t", "tmpfs", "tmpfs").returncode:
        pytest.skip("file systems may not be mounted here")
    try:
        yield disk_mount
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return netfl.run(a_scenario(), tmp_path_factory.mktemp("alone") / "run", device="cpu")


def call(*words):
    finished = CliRunner().invoke(app, [*map(str, words)])
    assert finished.exception is None or isinstance(finished.exception, SystemExit)
    return finished.exit_code, finished.output


@pytest.mark.parametrize("pages", [1, 2, 4, 7, 12, 20])
@pytest.mark.quick_first
def test_run_on_a_full_disk_resumes_with_more_space(disk, reference, pages):
    folder = disk.path / "run"
    disk.leave_free(pages)
    with pytest.raises(MachineError) as error:
        netfl.run(a_scenario(), folder, device="cpu")
    message = str(error.value)
    assert os.strerror(errno.ENOSPC) in message
    disk.leave_free(1 << 12)
    if (folder / "manifest.json").exists():
        assert message.endswith(f"fix this, then continue with: netfl.resume({str(folder)!r})")
        assert netfl.open_run(folder).status in {"failed", "crashed"}
        assert call("resume", folder, "--device", "cpu", "-q") == (0, "")
    else:
        netfl.run(a_scenario(), folder, device="cpu")
    assert_same(netfl.open_run(folder), reference)


@pytest.mark.parametrize("pages", [0, 1, 3, 5])
@pytest.mark.quick_first
def test_stopped_run_is_unchanged_if_a_resume_fills_the_disk(disk, reference, pages):
    stopped = netfl.run(a_scenario(), disk.path / "run", device="cpu", observer=StopAfter(2))
    names = ("rounds", "deliveries", "events", "metrics", "users")
    before = netfl.open_run(stopped.folder)
    tables = {name: before.table(name) for name in names}
    disk.leave_free(pages)
    code, output = call("resume", stopped.folder, "--device", "cpu", "-q")
    assert code == 1
    assert len(output.splitlines()) == 1
    assert os.strerror(errno.ENOSPC) in output
    run_after = netfl.open_run(stopped.folder)
    assert run_after.status in {"interrupted", "failed", "crashed"}
    assert all(run_after.table(name).equals(tables[name]) for name in names)
    disk.leave_free(1 << 12)
    assert_same(netfl.resume(stopped.folder, device="cpu"), reference)


@pytest.mark.parametrize("pages", [0, 6, 14])
@pytest.mark.quick_first
def test_finished_run_is_unchanged_if_an_extension_fills_the_disk(disk, reference, pages):
    run = netfl.run(a_scenario(), disk.path / "run", device="cpu")
    disk.leave_free(pages)
    code, output = call("extend", run.folder, "--replicas", 2, "--device", "cpu", "-q")
    assert (code, len(output.splitlines())) == (1, 1)
    assert f"netfl extend {run.folder} --replicas 2" in output
    run_after = netfl.open_run(run.folder)
    assert (run_after.status, run_after.manifest["replicas"]) == ("done", 1)
    assert_same_tables(run_after, reference)
    disk.leave_free(1 << 12)
    assert call("extend", run.folder, "--replicas", 2, "--device", "cpu", "-q") == (0, "")


def test_read_only_disk_gives_one_line_errors(disk):
    stopped = netfl.run(a_scenario(), disk.path / "run", device="cpu", observer=StopAfter(2)).folder
    finished = netfl.run(a_scenario(learners={"B": LEARNER}), disk.path / "done", device="cpu").folder
    disk.make_read_only()
    reason = os.strerror(errno.EROFS)
    remedy = "check its permissions, or choose another folder"
    for folder, words in ((stopped, ("resume", stopped)), (finished, ("extend", finished, "--replicas", 2))):
        assert call(*words) == (1, f"cannot write {folder / '.lock'}: {reason}; {remedy}\n")
    with pytest.raises(MachineError, match=f"cannot write a run into {disk.path / 'new'}: {reason}"):
        netfl.run(a_scenario(), disk.path / "new", device="cpu")
    assert netfl.open_run(stopped).status == "interrupted"
    assert len(netfl.open_run(stopped).rounds) == 2
