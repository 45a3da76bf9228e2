"""How many draws the suite holds laws to: with more of them smaller faults are seen (`NETFL_DRAWS=20000 make test`)."""

import os

DRAWS = int(os.environ.get("NETFL_DRAWS", "5_000"))
