"""Scenario files: YAML to a validated `netfl.scenario.scenario.Scenario`, its JSON schema and packaged examples."""
