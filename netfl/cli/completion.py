"""Shell completion of arguments."""

from __future__ import annotations

import typer

from netfl.errors import NetflError


def families(incomplete: str) -> list[str]:
    """Complete the name of a family."""
    from netfl.registry import FAMILIES

    return [name for family in FAMILIES if (name := family.rpartition("/")[2]).startswith(incomplete)]


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the kind of a model of the family in the previous argument."""
    from netfl.cli.views.model_list import family_named
    from netfl.registry import base_of, list_kinds

    try:
        base = base_of(family_named(str(ctx.params.get("family"))))
    except NetflError:
        return []
    return [kind for kind in list_kinds(base) if kind.startswith(incomplete)]


def shipped_scenarios(incomplete: str) -> list[str]:
    """Complete the name of a scenario that netfl contains."""
    from netfl.scenario.examples import example_names

    return [name for name in example_names() if name.startswith(incomplete)]
