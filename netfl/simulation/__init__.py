"""One run: `netfl.simulation.run` is where to start reading."""
