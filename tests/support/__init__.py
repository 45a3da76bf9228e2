"""Helpers of the tests: small networks and scenarios, models as users write them, references, and checks of runs."""
