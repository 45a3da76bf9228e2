"""Text on a screen: without characters that change what a terminal shows, and in the characters that it has."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from netfl.errors import printable


class SafeConsole(Console):
    """A terminal whose text is printed as it is, without markup, by `printable`.

    Characters that its encoding lacks, such as ``ü`` in ASCII, become ``?``.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of *renderable*; only those of rich itself have control codes."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                text = printable(segment.text).encode(self.encoding, "replace").decode(self.encoding)
                yield Segment(text, segment.style)


def open_console(*, stderr: bool = False) -> Console:
    """Return the terminal: the standard output, or the standard error."""
    return SafeConsole(stderr=stderr, markup=False, highlight=False)
