"""Text on a screen: without characters that change what a terminal shows, and in the characters that it has."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from netfl.errors import printable


class SafeConsole(Console):
    """A terminal whose text is printed as it is, without markup, by `printable`.

    Characters that its encoding lacks are replaced by their plain form, as a thin space by a space, or else by ``?``.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of *renderable*; only those of rich itself have control codes."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(_encodable(printable(segment.text), self.encoding), segment.style)


def _encodable(text: str, encoding: str) -> str:
    """Return *text* in the characters that an encoding has."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = "".join(_plain_form(character, encoding) for character in text)
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def _plain_form(character: str, encoding: str) -> str:
    """Return a character that an encoding lacks in its plain form, and any other as it is."""
    if character.encode(encoding, "ignore"):
        return character
    return unicodedata.normalize("NFKC", character)


def open_console(*, stderr: bool = False) -> Console:
    """Return the terminal: the standard output, or the standard error."""
    return SafeConsole(stderr=stderr, markup=False, highlight=False)
