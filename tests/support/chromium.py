"""A headless Chromium for tests: a page is opened, asked and pictured over the browser's debugging pipe."""

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
    """One page: ``with Browser(folder) as page: page.open(path)``.

    Args:
        folder: where the browser may keep what it needs.
        dark: whether its user likes dark pages.
        calm: whether its user wants less motion.
        size: width and height of the page in pixels.
    """

    def __init__(self, folder, *, dark=False, calm=False, size=(1200, 900)):
        self.flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--window-size={size[0]},{size[1]}",
            f"--user-data-dir={folder}",
        ]
        self.media = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce" if calm else "no-preference",
        }
        self.number, self.session, self.rest, self.faults = 0, None, b"", []

    def __enter__(self):
        (its_in, self.says), (self.hears, its_out) = _pipe(), _pipe()

        def wire():
            os.dup2(its_in, 3)
            os.dup2(its_out, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *self.flags],
            preexec_fn=wire,  # noqa: PLW1509 - the browser wants its pipe to be 3 and 4
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Runtime.enable")
        self.ask("Log.enable")
        features = [{"name": name, "value": value} for name, value in self.media.items()]
        self.ask("Emulation.setEmulatedMedia", features=features)
        return self

    def __exit__(self, *error):
        os.close(self.says)
        os.close(self.hears)
        self.process.kill()
        self.process.wait()

    def ask(self, method, **params):
        """What the browser answers to a command of the DevTools protocol."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.says, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while True:
            told = self._hear(end)
            entry = told.get("params", {}).get("entry", {})
            if told.get("method") == "Runtime.exceptionThrown" or entry.get("level") == "error":
                self.faults.append(told["params"])
            if told.get("id") == self.number:
                assert "error" not in told, told
                return told["result"]

    def open(self, path, until):
        """Open a file, and wait until an expression of JavaScript is true in it."""
        self.ask("Page.navigate", url=path.absolute().as_uri())
        end = time.monotonic() + PATIENCE_S
        while not self.js(f"document.readyState === 'complete' && Boolean({until})"):
            assert time.monotonic() < end, self.faults
            time.sleep(0.1)

    def js(self, expression):
        """The value of an expression of JavaScript, or of what it promises."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def press(self, key, *, shift=False):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0)

    def picture(self, path):
        """Write what is seen of the page as a PNG file."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path

    def _hear(self, end):
        """The next message of the browser."""
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.hears], [], [], left)[0]:
                part = os.read(self.hears, 1 << 20)
                assert part, "the browser is gone"
                self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)


def _pipe():
    """A pipe whose ends have numbers above those that the browser wants for its own."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved
