"""Checks for authors of models: distribution tests and closed-form theory."""
