"""A sweep engine for tests that runs in the current process."""

from netfl.sweeps.plan import task_folder
from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task


class Here:
    """Runs tasks one after the other and records them; the tasks numbered in *fail* fail with *error*."""

    def __init__(self, fail=(), most=None, error="it broke"):
        self.fail, self.most, self.error, self.done = fail, most, error, []

    def run(self, tasks, folder, report, stop):
        waiting, number = iter(tasks), -1
        while not stop() and (self.most is None or len(self.done) < self.most):
            task, number = next(waiting, None), number + 1
            if task is None:
                return
            self.done.append(task)
            if number in self.fail:
                report(TaskUpdate(task.key, ended=True, error=self.error))
            else:
                poor = []

                def send(update, poor=poor):
                    poor.append(report(update))

                reporter = TaskReporter(task, send, lambda poor=poor: any(poor))
                report(run_task(task, task_folder(folder, task.key), "cpu", reporter))
