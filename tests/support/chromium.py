"""A headless Chromium for tests, controlled over its debugging pipe."""

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
        folder: the data folder of the browser.
        dark: whether dark pages are preferred.
        calm: whether reduced motion is preferred.
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
        self.number, self.session, self.rest, self.errors = 0, None, b"", []

    def __enter__(self):
        (browser_in, self.writer), (self.reader, browser_out) = _pipe(), _pipe()

        def wire():
            os.dup2(browser_in, 3)
            os.dup2(browser_out, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *self.flags],
            preexec_fn=wire,  # noqa: PLW1509 - the browser wants its pipe to be 3 and 4
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_in)
        os.close(browser_out)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Runtime.enable")
        self.ask("Log.enable")
        features = [{"name": name, "value": value} for name, value in self.media.items()]
        self.ask("Emulation.setEmulatedMedia", features=features)
        return self

    def __exit__(self, *error):
        os.close(self.writer)
        os.close(self.reader)
        self.process.kill()
        self.process.wait()

    def ask(self, method, **params):
        """Send a command of the DevTools protocol and return the result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while True:
            reply = self._receive(end)
            entry = reply.get("params", {}).get("entry", {})
            if reply.get("method") == "Runtime.exceptionThrown" or entry.get("level") == "error":
                self.errors.append(reply["params"])
            if reply.get("id") == self.number:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, path, until):
        """Open a file and wait until a JavaScript expression is true in it."""
        self.ask("Page.navigate", url=path.absolute().as_uri())
        end = time.monotonic() + PATIENCE_S
        while not self.js(f"document.readyState === 'complete' && Boolean({until})"):
            assert time.monotonic() < end, self.errors
            time.sleep(0.1)

    def js(self, expression):
        """Return the value of a JavaScript expression, and wait for it if it is a promise."""
        message_ = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in message_, message_
        return message_["result"].get("value")

    def press(self, key, *, shift=False):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0)

    def picture(self, path):
        """Write a screenshot of the page as a PNG file."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
        return path

    def _receive(self, end):
        """Return the next message of the browser."""
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.reader], [], [], left)[0]:
                part = os.read(self.reader, 1 << 20)
                assert part, "the browser is gone"
                self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)


def _pipe():
    """Create a pipe with file descriptors above those that the browser uses."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved
