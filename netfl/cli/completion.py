"""What a shell may put in the place of a word that is begun."""

from __future__ import annotations

import typer

from netfl.errors import NetflError


def families(incomplete: str) -> list[str]:
    """The families, by the last part of their names."""
    from netfl.registry import FAMILIES

    return [name for family in FAMILIES if (name := family.rpartition("/")[2]).startswith(incomplete)]


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """The kinds of the family that was named before."""
    from netfl.cli.views.model_list import family_named
    from netfl.registry import base_of, list_kinds

    try:
        base = base_of(family_named(str(ctx.params.get("family"))))
    except NetflError:
        return []
    return [kind for kind in list_kinds(base) if kind.startswith(incomplete)]


def shipped_scenarios(incomplete: str) -> list[str]:
    """The scenarios that netfl brings."""
    from netfl.scenario.examples import example_names

    return [name for name in example_names() if name.startswith(incomplete)]
