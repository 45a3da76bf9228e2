"""What a shell may put in the place of a word that is begun."""

from __future__ import annotations

import typer

from netfl.errors import NetflError


def families(incomplete: str) -> list[str]:
    """The families, by the last part of their names."""
    from netfl.registry import FAMILIES  # noqa: PLC0415 - only while a word is completed

    return [name for family in FAMILIES if (name := family.rpartition("/")[2]).startswith(incomplete)]


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """The kinds of the family that was named before."""
    from netfl.catalogue import family_named  # noqa: PLC0415
    from netfl.registry import base_of, kinds  # noqa: PLC0415

    try:
        base = base_of(family_named(str(ctx.params.get("family"))))
    except NetflError:
        return []
    return [kind for kind in kinds(base) if kind.startswith(incomplete)]


def shipped_scenarios(incomplete: str) -> list[str]:
    """The scenarios that netfl brings."""
    from netfl.shipped import names  # noqa: PLC0415

    return [name for name in names() if name.startswith(incomplete)]
