"""The table of rules: every rule of a suite under every access of it, tuned alike, and the row of a rule of your own.

A suite is a scenario file of ``scenarios/table``: its overrides are the accesses, and its learners the rules.  The rows
that come with netfl are stored beside it.

- `netfl.rule_table.suite`: the cells of the suites, and the scenario in which a rule runs in a cell.
- `netfl.rule_table.rows`: the rows, and their files.
- `netfl.rule_table.running`: runs of rules in cells.
- `netfl.rule_table.ranking`: ranks of rules with their uncertainty.
"""
