"""Gymnasium environments over a simulated network: selection of users, and allocation of radio resources."""
