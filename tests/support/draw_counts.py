"""Number of draws in tests of distributions. More draws reveal smaller errors (`NETFL_DRAWS=20000 make test`)."""

import os

DRAWS = int(os.environ.get("NETFL_DRAWS", "5_000"))
