"""Engine that runs tasks as jobs of a Slurm cluster, through submitit.

A job runs its task in the folder of the sweep, which must be on a disk that the nodes share.  Jobs and this process
exchange small files in the folder ``slurm`` of the sweep: a job writes its progress, and reads whether it must stop.  A
task whose job reaches its time limit, or is preempted, continues from its checkpoint in another job.  If this process
is killed, its jobs continue; the same sweep then waits for them instead of starting them again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.results.atomic_write import atomic_write
from netfl.simulation.workers.process import check_workers
from netfl.sweeps.plan import Task, task_folder
from netfl.sweeps.task import TaskReporter, TaskUpdate, UpdateHandler, run_task

FOLDER = "slurm"
"""Folder of a sweep with the files of its jobs."""
_POLL_S = 0.5
_SEARCH_WORKERS = 8
"""Default number of parallel jobs of a search, whose trials depend on the results before."""
_STOP = "stop"
"""File whose existence asks all jobs to end."""
_JOBS = "jobs.json"
"""File with the jobs that have not ended, by task."""


@dataclass(frozen=True)
class SlurmOptions:
    """Resources of each job.

    Args:
        partition: name of the partition; by default that of the cluster.
        minutes: time limit of a job in minutes.  A task that takes longer continues in another job.
        cpus: number of cores; a task uses one thread for each.
        memory_gb: memory in GB; by default that of the cluster.
        gpus: number of GPUs.
        workers: maximum number of jobs at a time; by default 256, and 8 in a search.
        extra: further options of ``sbatch`` by name, such as ``{"account": "physics", "qos": "low"}``.

    Raises:
        ScenarioError: *workers* is not a number of jobs.
    """

    partition: str | None = None
    minutes: int = 60
    cpus: int = 1
    memory_gb: float | None = None
    gpus: int = 0
    workers: int | None = None
    extra: Mapping[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_workers(self.workers)


class SlurmEngine:
    """Engine that runs tasks as jobs of a Slurm cluster.

    Args:
        options: resources of each job.
        device: ``auto``, ``cpu`` or ``cuda``.
        retries: number of further attempts of a task whose job was killed.
        cluster: ``slurm``, or ``local`` for jobs in processes of this machine, to try a sweep without a cluster.

    Raises:
        ScenarioError: submitit is not installed.
        MachineError: this machine cannot submit jobs.
    """

    def __init__(
        self,
        options: SlurmOptions | None = None,
        device: str = "auto",
        retries: int = 3,
        cluster: Literal["slurm", "local"] = "slurm",
    ) -> None:
        self._submitit = import_submitit()
        self._options = options or SlurmOptions()
        self._device = device
        self._retries = retries
        self._cluster = cluster
        if cluster == "slurm" and shutil.which("sbatch") is None:
            problem = "Slurm: this machine has no command sbatch"
            raise MachineError(f"{problem}; run on a login node of the cluster, or use the engine 'local'")

    def run(self, tasks: Iterable[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*; see `netfl.sweeps.engine.Engine.run`."""
        board = _Board(folder / FOLDER)
        jobs = _Jobs(self._executor(board.folder), board, is_local=self._cluster == "local")
        waiting = iter(tasks)
        retried: list[Task] = []
        attempts: Counter[str] = Counter()
        last_round: Counter[str] = Counter()  # of each task, and the one that its earlier jobs have reached
        last_round_before: Counter[str] = Counter()
        ending_early: set[str] = set()  # tasks that are not worth their time
        is_stopping = False
        # Slurm limits the parallel jobs of a plan, which is one array.  A search is submitted job by job.
        is_array = isinstance(tasks, Sized) and self._cluster == "slurm"
        limit = None if is_array else self._options.workers or _SEARCH_WORKERS
        try:
            while True:
                if stop() and not is_stopping:
                    is_stopping = True
                    waiting = iter(())
                    retried = []
                    board.ask_all_to_stop()

                # submit jobs
                room = None if limit is None else max(0, limit - len(jobs.running) - len(retried))
                taken = [*retried, *islice(waiting, room)]
                retried = []
                jobs.start(taken, [_Work(task, folder.absolute(), self._device, self._options.cpus) for task in taken])
                attempts.update(task.key for task in taken)
                if not jobs.running:
                    return

                # report what they have written since
                time.sleep(_POLL_S)
                for update in board.updates([*jobs.running]):
                    last_round[update.task] = max(update.round, last_round[update.task])
                    if report(update) and update.task not in ending_early:
                        ending_early.add(update.task)
                        board.ask_to_stop(update.task)
                if is_stopping:
                    jobs.cancel_waiting()

                # jobs that have ended: submit their tasks again, or report their end
                for task, update, is_lost in jobs.ended(self._submitit):
                    key = task.key
                    if update.stopped and last_round[key] > last_round_before[key]:
                        attempts[key] -= 1  # time limits are no failures, as long as the task progresses
                    last_round_before[key] = last_round[key]
                    is_wanted = not is_stopping and key not in ending_early
                    if is_wanted and (is_lost or update.stopped) and attempts[key] <= self._retries:
                        retried.append(task)
                    elif is_wanted and update.stopped:
                        problem = f"its jobs end at their time limit ({self._options.minutes} min) without progress"
                        report(replace(update, stopped=False, error=problem))
                    else:
                        report(update)
        except BaseException:
            jobs.cancel_all()
            raise

    def _executor(self, folder: Path) -> Any:
        """Return submitit's executor with the resources of each job."""
        options = self._options
        try:
            executor = self._submitit.AutoExecutor(folder=folder, cluster=self._cluster)
            executor.update_parameters(
                name="netfl",
                timeout_min=options.minutes,
                cpus_per_task=options.cpus,
                mem_gb=options.memory_gb,
                gpus_per_node=options.gpus or None,
                slurm_partition=options.partition,
                slurm_array_parallelism=options.workers,
                slurm_additional_parameters=dict(options.extra) or None,
            )
        except (ValueError, NameError, AssertionError, RuntimeError) as error:
            raise MachineError(f"Slurm: {' '.join(str(error).split())}") from error
        return executor._executor  # which also has the class of its jobs


class _Jobs:
    """The jobs of a sweep that have not ended.

    Args:
        executor: of submitit.
        board: files of the jobs.
        is_local: the jobs are processes of this machine.
    """

    def __init__(self, executor: Any, board: _Board, *, is_local: bool) -> None:
        self.running: dict[str, tuple[Task, Any]] = {}
        self._executor = executor
        self._board = board
        self._is_local = is_local
        self._earlier = board.jobs()  # jobs of an earlier process by task, and the ids of those that were adopted
        self._adopted: set[str] = set()

    def start(self, tasks: Sequence[Task], work: Sequence[_Work]) -> None:
        """Submit the *work* of *tasks* as one array; tasks whose job from an earlier process still runs keep it."""
        if not tasks:
            return
        new_tasks = []
        new_work = []
        for task, work_of_task in zip(tasks, work, strict=True):
            job = self._adopt(task.key)
            if job is None:
                new_tasks.append(task)
                new_work.append(work_of_task)
            else:
                self.running[task.key] = (task, job)
        try:
            jobs = self._executor.submit_array(new_work) if new_work else []
        except (OSError, RuntimeError) as error:  # submitit passes on the message of sbatch
            problem = " ".join(str(error).split())
            raise MachineError(
                f"the jobs cannot be submitted: {problem}; correct the options of the command"
            ) from error
        for task, job in zip(new_tasks, jobs, strict=True):
            self._board.forget(task.key)
            self.running[task.key] = (task, job)
        self._write()

    def ended(self, submitit: Any) -> list[tuple[Task, TaskUpdate, bool]]:
        """Return tasks whose job has ended, each with its last update and whether the job was killed."""
        ended = []
        for key, (task, job) in [*self.running.items()]:
            if not self._has_ended(job):
                continue
            del self.running[key]
            update, is_lost = _outcome(submitit, task, job)
            ended.append((task, update, is_lost))
            self._board.forget(key)
        if ended:
            self._write()
        return ended

    def cancel_waiting(self) -> None:
        """Cancel jobs that have not started."""
        self._cancel([key for key in self.running if not self._board.has_started(key)])

    def cancel_all(self) -> None:
        """Cancel all jobs."""
        self._cancel([*self.running])

    def _cancel(self, keys: Sequence[str]) -> None:
        for key in keys:
            _, job = self.running.pop(key)
            job.cancel(check=False)
        if keys:
            self._write()

    def _adopt(self, task: str) -> Any:
        """Return the job of a task that an earlier process has submitted, if it has not ended."""
        job_id = self._earlier.pop(task, None)
        if job_id is None:
            return None
        job = self._executor.job_class(self._executor.folder, job_id)
        self._adopted.add(job_id)
        if self._has_ended(job):
            return None
        return job

    def _has_ended(self, job: Any) -> bool:
        if self._is_local and job.job_id in self._adopted:  # it is not a child of this process
            return job.paths.result_pickle.exists() or not Path(f"/proc/{job.job_id}").exists()
        return bool(job.done())

    def _write(self) -> None:
        """Write all jobs that have not ended, also those of an earlier process that were not asked for yet."""
        running = {key: job.job_id for key, (_, job) in self.running.items()}
        self._board.write_jobs(self._earlier | running)


def _outcome(submitit: Any, task: Task, job: Any) -> tuple[TaskUpdate, bool]:
    """Return the last update of a task whose job has ended, and whether the job was killed."""
    errors = submitit.core.utils
    try:
        return job.result(), False
    except errors.FailedJobError as error:
        return TaskUpdate(task.key, ended=True, error=_last_line(error)), False
    except (errors.UncompletedJobError, OSError, EOFError) as error:
        problem = f"job {job.job_id} ended without a result: {_last_line(error)}"
        return TaskUpdate(task.key, ended=True, error=problem), True


class _Work:
    """A task as a job executes it.

    Before its time limit, and before it is preempted or cancelled, a job receives a signal.  The run then ends after
    its round with a checkpoint, and the engine submits the task again.
    """

    def __init__(self, task: Task, folder: Path, device: str, threads: int) -> None:
        self.task = task
        self.folder = folder
        self.device = device
        self.threads = threads

    def __call__(self) -> TaskUpdate:
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(self.threads)
        signals: list[int] = []
        for name in ("SIGTERM", f"SIG{import_submitit().JobEnvironment.USR_SIG}"):
            signal.signal(getattr(signal, name), lambda number, _: signals.append(number))
        board = _Board(self.folder / FOLDER)
        key = self.task.key
        if board.must_stop(key):
            return TaskUpdate(key, ended=True, stopped=True)
        board.post(TaskUpdate(key))
        reporter = TaskReporter(self.task, board.post, lambda: bool(signals) or board.must_stop(key))
        return run_task(self.task, task_folder(self.folder, key), self.device, reporter)


class _Board:
    """Files by which jobs report their progress and are asked to stop.

    Args:
        folder: folder of the files, on a disk that all nodes share.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._read: dict[str, int] = {}  # bytes of each task's file
        self._checked_at = 0.0
        self._stopped = False

    def post(self, update: TaskUpdate) -> None:
        """Append an update of a task, from its job."""
        with (self.folder / f"{update.task}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(update)) + "\n")

    def must_stop(self, task: str) -> bool:
        """Return whether a task must stop; the disk is asked twice a second."""
        if time.monotonic() - self._checked_at >= _POLL_S:
            self._checked_at = time.monotonic()
            self._stopped = any((self.folder / name).exists() for name in (_STOP, f"{task}.{_STOP}"))
        return self._stopped

    def updates(self, tasks: Iterable[str]) -> list[TaskUpdate]:
        """Return the new updates of *tasks*: those with values, and the last of each."""
        updates = []
        for task in tasks:
            path = self.folder / f"{task}.jsonl"
            with suppress(FileNotFoundError), path.open("rb") as file:
                begin = self._read.get(task, 0)
                file.seek(begin)
                lines = [line for line in file.readlines() if line.endswith(b"\n")]  # the last may not be complete
                self._read[task] = begin + sum(map(len, lines))
                of_task = [TaskUpdate(**json.loads(line)) for line in lines]
                updates += [update for update in of_task if update.values or update is of_task[-1]]
        return updates

    def has_started(self, task: str) -> bool:
        """Return whether the job of a task runs or has run."""
        return (self.folder / f"{task}.jsonl").exists()

    def ask_to_stop(self, task: str) -> None:
        """Ask the job of a task to end after its current round."""
        (self.folder / f"{task}.{_STOP}").touch()

    def ask_all_to_stop(self) -> None:
        """Ask all jobs to end after their current round."""
        (self.folder / _STOP).touch()

    def forget(self, task: str) -> None:
        """Remove the files of a task."""
        self._read.pop(task, None)
        for path in (self.folder / f"{task}.jsonl", self.folder / f"{task}.{_STOP}"):
            path.unlink(missing_ok=True)

    def jobs(self) -> dict[str, str]:
        """Return the jobs of an earlier process by task, and withdraw its request to stop."""
        (self.folder / _STOP).unlink(missing_ok=True)
        with suppress(FileNotFoundError, ValueError):
            return dict(json.loads((self.folder / _JOBS).read_text(encoding="utf-8")))
        return {}

    def write_jobs(self, jobs: Mapping[str, str]) -> None:
        """Write the jobs that have not ended, by task."""
        with atomic_write(self.folder / _JOBS) as part:
            part.write_text(json.dumps(jobs), encoding="utf-8")


def import_submitit() -> Any:
    """Import submitit, which is optional, or raise a `ScenarioError`; it logs errors only."""
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "ERROR")  # read on import
    try:
        return import_module("submitit")
    except ImportError:
        problem = "needs submitit, which is not installed"
        remedy = "pip install 'netfl-sim[slurm]'"
        raise ScenarioError([Fault(argument("engine"), problem, "slurm", remedy)]) from None


def _last_line(error: Exception) -> str:
    """Return the last line of a job's log in an *error*, which ends with a sentence of submitit."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("-")]
    log_lines = [line for line in lines if not line.startswith(("You can check", "or at paths", "- "))]
    if not log_lines:
        return type(error).__name__
    return log_lines[-1]
