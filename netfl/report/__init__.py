"""Pictures and the report of a run.

`write` makes one self-contained page of a run, `write_several` one of several runs, `write_sweep` one of a sweep,
`picture` one PNG file.  The
functions of `netfl.plots` take tables of a run and draw on matplotlib Axes, for pictures of one's own.
"""

from netfl.report.overview import picture
from netfl.report.page import write
from netfl.report.several import write as write_several
from netfl.report.sweeps import write as write_sweep

__all__ = ["picture", "write", "write_several", "write_sweep"]
