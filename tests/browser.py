"""Chromium without a window, driven over its debugging pipe: load a page, ask it, photograph it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patience import HANGS

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page; ``requests`` and ``errors`` are what it asked the network for and what went wrong in it."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.mkdtemp()
        read_commands, self._write = os.pipe()
        self._read, write_answers = os.pipe()

        def pipes() -> None:  # chromium reads from 3 and writes to 4
            given, taken = os.dup(read_commands), os.dup(write_answers)
            os.dup2(given, 3)
            os.dup2(taken, 4)

        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self._folder}"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._number, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._write)
        self._process.terminate()
        self._process.wait(HANGS)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "chromium has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: Mapping[str, Any]) -> None:
        given = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.errors.append(str(details.get("exception", {}).get("description", details["text"])))
        elif event["method"] == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif event["method"] == "Runtime.consoleAPICalled" and given["type"] == "error":
            self.errors.append(str(given["args"]))

    def look(self, width: int, height: int, dark: bool) -> None:
        """The size of the screen, and what the reader prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path, ready: str = "true") -> None:
        """Load a file and wait until the expression ``ready`` is true."""
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait(f"location.href !== 'about:blank' && document.readyState === 'complete' && ({ready})")

    def wait(self, expression: str) -> None:
        end = time.monotonic() + HANGS
        while not self.ask(expression):
            assert time.monotonic() < end, f"not within {HANGS} s: {expression}"
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def photograph(self, selector: str, path: Path) -> bytes:
        """What the first element of a selector shows, as a PNG."""
        box = self.ask(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
            "return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()"
        )
        answer = self.call("Page.captureScreenshot", clip={**box, "scale": 1}, captureBeyondViewport=True)
        image = base64.b64decode(answer["data"])
        path.write_bytes(image)
        return image
