"""Federated learning: data, models, and learners that train the delivered updates of all lanes in one batch.

Start reading in `netfl.learning.learner`.  Only the modules that it imports use torch; settings, data and partitions
use NumPy, so that a network can be traced without torch.
"""
