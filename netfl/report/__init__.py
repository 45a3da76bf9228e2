"""Pictures and the report of a run.

`write` makes one self-contained page, `picture` one PNG file.  The functions of `plots_learning`, `plots_access` and
`plots_network` take tables of a run and draw on matplotlib Axes, for pictures of one's own.
"""

from netfl.report.overview import picture
from netfl.report.page import write

__all__ = ["picture", "write"]
