"""A headless Chromium for tests: pages are opened, asked and pictured over its debugging pipe."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_S = 120.0


class Browser:
    """One page of one browser; ``with Browser(folder) as page: page.open(path)``.

    Args:
        folder: where it may keep what it needs.
        dark: whether pages are to be dark.
        size: width and height of the page.
    """

    def __init__(self, folder, *, dark=False, size=(1200, 900)):
        self.folder, self.dark, self.size = folder, dark, size
        self.number, self.rest, self.errors = 0, b"", []

    def __enter__(self):
        ours, theirs = zip(*(_far(os.pipe()) for _ in range(2)), strict=True)
        (read, write), (hears, says) = (theirs[1], ours[1]), (ours[0], theirs[0])
        # the first pipe carries what we say, the second what we hear
        (hears, says), (read, write) = (ours[0], theirs[0]), (ours[1], theirs[1])
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        size = "--window-size={},{}".format(*self.size)

        def wire():
            os.dup2(hears, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *flags, size, f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=wire,  # noqa: PLW1509 - Chromium wants its pipes to be 3 and 4
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hears)
        os.close(write)
        self.says, self.hears = says, read
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Runtime.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        return self
