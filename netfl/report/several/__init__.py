"""The report of several runs side by side: how they differ, who won in each, and what that cost.

`write` makes one self-contained page.  Runs that are damaged or not finished are shown as what they are; folders that
hold no run are named.
"""

from netfl.report.several.page import write

__all__ = ["write"]
