"""An engine of sweeps for tests, which needs no other process."""

from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task, task_folder


class Here:
    """Does tasks in this process, one after the other, but for those that *fail* with an *error*; notes which."""

    def __init__(self, fail=(), most=None, error="it broke"):
        self.fail, self.most, self.error, self.done = fail, most, error, []

    def run(self, tasks, folder, heard, stop):
        for number, task in enumerate(tasks):
            if stop() or (self.most is not None and len(self.done) >= self.most):
                return
            self.done.append(task)
            if number in self.fail:
                heard(TaskUpdate(task.key, ended=True, error=self.error))
            else:
                heard(run_task(task, task_folder(folder, task.key), "cpu", TaskReporter(task.key, heard)))
