"""A headless Chromium driven over a pipe by its DevTools protocol: no library, no port, no network."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


def find_chromium():
    """The path of a Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


def _high(descriptor):
    """The same descriptor under a number that is neither 3 nor 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Browser:
    """One page. ``events`` are all messages that no command asked for, in order."""

    def __init__(self, profile):
        theirs_in, ours_out = (_high(end) for end in os.pipe())
        ours_in, theirs_out = (_high(end) for end in os.pipe())

        def connect():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self.process = subprocess.Popen(
            [find_chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=connect,  # noqa: PLW1509 - the child does two system calls, then becomes the browser
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.source, self.buffer = ours_out, ours_in, b""
        self.number, self.session, self.events = 0, None, []
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.source, 1 << 20)
            assert chunk, "the browser is gone"
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def open(self, path):
        """Load a file and wait until it is all there."""
        self.events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        for _ in range(200):
            if self.run("document.readyState + location.protocol") == "completefile:":
                return
            time.sleep(0.05)
        raise AssertionError("the page did not load")

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def resize(self, width, height):
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path):
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def media(self, name):
        """Look at the page as on ``print`` or on ``screen``."""
        self.send("Emulation.setEmulatedMedia", media=name)

    def pdf(self, path):
        path.write_bytes(base64.b64decode(self.send("Page.printToPDF")["data"]))

    def seen(self, method):
        """The parameters of all events of this name."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def close(self):
        self.session = None
        self.send("Browser.close")
        self.process.wait(timeout=20)
        os.close(self.out)
        os.close(self.source)
