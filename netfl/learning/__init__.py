"""Learning: data, models, and learners that train only what was delivered, all lanes in one batch.

Only the modules that `netfl.learning.learner` imports touch torch; settings, data and partitions are NumPy, so that
a network can be traced without it.
"""
