"""A Flower app that classifies digits; it runs over a simulated network with ``netfl flower run``."""
