"""A sweep engine for tests that runs in the current process."""

from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task, task_folder


class Here:
    """Runs tasks one after the other and records them; the tasks numbered in *fail* fail with *error*."""

    def __init__(self, fail=(), most=None, error="it broke"):
        self.fail, self.most, self.error, self.done = fail, most, error, []

    def run(self, tasks, folder, report, stop):
        for number, task in enumerate(tasks):
            if stop() or (self.most is not None and len(self.done) >= self.most):
                return
            self.done.append(task)
            if number in self.fail:
                report(TaskUpdate(task.key, ended=True, error=self.error))
            else:
                report(run_task(task, task_folder(folder, task.key), "cpu", TaskReporter(task.key, report)))
