"""Terminal views: tables of runs, sweeps, selection processes and models."""
