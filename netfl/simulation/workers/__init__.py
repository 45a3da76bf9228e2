"""Worker processes for the learners of a run and the tasks of a sweep, on this machine or on a Ray cluster.

A worker runs a module and executes calls: its ``open_worker`` returns the function to call.  The arguments are a
function that sends messages during a call and a function that returns whether to end the call soon.  There are two such
modules: `netfl.learning.parallel_learner` and `netfl.sweeps.task`.
"""
