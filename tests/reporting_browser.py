"""A headless Chromium driven over WebDriver with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def available() -> bool:
    """Whether Chromium and its driver are installed."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class Browser:
    """One browser with a profile of its own: `with Browser() as browser: browser.open(path)`."""

    def __enter__(self) -> Browser:
        self._profile = tempfile.TemporaryDirectory()
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        line = next(x for x in self._driver.stdout if "started successfully on port" in x)
        port = re.search(r"port (\d+)", line).group(1)
        self._url = f"http://127.0.0.1:{port}/session"
        options = {"binary": shutil.which("chromium"), "args": [*FLAGS, f"--user-data-dir={self._profile.name}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        wanted["goog:loggingPrefs"] = {"browser": "ALL", "performance": "ALL"}
        self._url += "/" + self._post("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        return self

    def __exit__(self, *exc) -> None:
        try:
            self._call("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.wait()
            self._driver.stdout.close()
            self._profile.cleanup()

    def _call(self, verb: str, path: str, body: dict | None) -> object:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=verb)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def _post(self, path: str, body: dict) -> object:
        return self._call("POST", path, body)

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file at a window size, light or dark."""
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])  # fmt: skip
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._post("/url", {"url": path.resolve().as_uri()})

    def cdp(self, command: str, **params) -> dict:
        """A DevTools command."""
        return self._post("/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script: str) -> object:
        """The value a script returns."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def log(self, kind: str) -> list[dict]:
        """Messages of the `browser` console or the `performance` log since the last call."""
        return self._post("/se/log", {"type": kind})

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path: Path) -> None:
        """The visible part as PNG."""
        path.write_bytes(base64.b64decode(self.cdp("Page.captureScreenshot")["data"]))
