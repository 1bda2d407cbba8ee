# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, spoken to over its debugging pipe (Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess

STOP_SECONDS = 60


class Browser:
    """One page, of a size: `with Browser() as browser: browser.resize(390, 844); browser.open(url)`."""

    def __init__(self, folder):
        chromium = shutil.which("chromium")
        assert chromium, "no chromium here; ./setup.sh --tests installs it"
        theirs, self._out = os.pipe()
        self._in, answers = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                 "--no-first-run", "--hide-scrollbars", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        # It reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs} 4>&{answers}', chromium, *flags], pass_fds=(theirs, answers),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(answers)
        self._answers = os.fdopen(self._in, "rb")
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def _message(self):
        while b"\0" not in self._buffer:
            read = os.read(self._in, 1 << 16)
            assert read, "the browser has ended"
            self._buffer += read
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        """A command of the protocol; its result. Events are left unread."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while (message := self._message()).get("id") != number:
            pass
        assert "error" not in message, message
        return message["result"]

    def before_each_page(self, script):
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """Of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def await_true(self, expression):
        while not self.value(expression):
            assert self.process.poll() is None

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def close(self):
        os.close(self._out)
        self._answers.close()
        self.process.terminate()
        self.process.wait(timeout=STOP_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
