"""A headless Chromium, driven over its DevTools protocol by two pipes; nothing needs to be installed for it.

Messages are JSON objects with a zero byte behind each (`--remote-debugging-pipe`).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60.0
"""The longest that an answer is waited for."""
# The browser reads commands from file 3 and answers in file 4.
_WIRE = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Tab": 9}
_CODES |= {"Escape": 27}


def executable() -> str | None:
    """The browser that this machine has."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser, with all that its console and its network reported."""

    def __init__(self, program: str, profile: Path) -> None:
        """
        Args:
            profile: an empty folder.
        """
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]
        command = [program, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WIRE, str(commands), str(answers), *command],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._number, self._read, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        try:
            self._send("Browser.close", {})
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a command."""
        number = self._send(method, params)
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def _next(self) -> dict[str, Any]:
        """The next message; an event is kept too."""
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has ended"
            self._read += part
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, file: Path) -> None:
        """Open a file from the disk and wait until it is loaded."""
        self.events.clear()
        self.ask("Page.navigate", url=file.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, or what its promise comes to."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        code = _CODES[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def hover(self, selector: str) -> None:
        """Move the mouse to the middle of an element."""
        x, y = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({behavior: 'instant', block: 'center'});"
            "for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);"  # it is drawn there
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def look(self, width: int, height: int, scheme: str) -> None:
        """The size of the window, and `light` or `dark`."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    @property
    def problems(self) -> list[str]:
        """Errors and warnings of the console, and requests to a network."""
        found = []
        for event in self.events:
            of = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    details = of["exceptionDetails"]
                    found.append(str(details.get("exception", {}).get("description", details["text"])))
                case "Runtime.consoleAPICalled" if of["type"] in ("error", "warning", "assert"):
                    found.append(" ".join(str(x.get("value", x.get("description"))) for x in of["args"]))
                case "Log.entryAdded" if of["entry"]["level"] in ("error", "warning"):
                    found.append(of["entry"]["text"])
                case "Network.requestWillBeSent":
                    url = of["request"]["url"]
                    if not url.startswith(("file:", "data:", "blob:")):
                        found.append(f"asked for {url[:200]}")
        return found
