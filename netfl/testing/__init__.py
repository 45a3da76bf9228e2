"""Checks for authors of models.

- `netfl.testing.laws.check_laws` compares the draws of a model with the distributions that it states.
"""
