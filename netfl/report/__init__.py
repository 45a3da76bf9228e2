"""Reports: one self-contained HTML page of a run, of several runs, or of a sweep, and the overview of a run as PNG.

The plots are those of `netfl.plots`, which scripts can use with the tables of a run.
"""

from netfl.report.overview import picture
from netfl.report.sections import write
from netfl.report.several_runs import write_several
from netfl.report.sweep import write_sweep

__all__ = ["picture", "write", "write_several", "write_sweep"]
