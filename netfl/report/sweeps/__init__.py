"""The report of a sweep: which point is best and by how much, figures over the axes, all points, and what is missing.

`write` makes one self-contained page of anything that has the tables of `netfl.Sweep`, done or not.
"""

from netfl.report.sweeps.page import write
from netfl.report.sweeps.view import AxisValues

__all__ = ["AxisValues", "write"]
