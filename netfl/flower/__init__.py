"""Flower over a simulated network: a grid on which ServerApps and ClientApps run unmodified."""
