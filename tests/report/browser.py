"""Chromium, driven by Selenium: pages from disk, in any size and theme, with everything that they log and request."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODE_MODULES = ROOT / "build" / "page" / "node_modules"
AXE = NODE_MODULES / "axe-core" / "axe.min.js"
DESKTOP, PHONE = (1280, 800), (390, 844)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """A browser without a window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, size: tuple[int, int] = DESKTOP, *, dark: bool = False) -> None:
        """Load a page and wait until it is complete; what an earlier page logged is forgotten."""
        width, height = size
        self._cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self._cdp("Emulation.setTouchEmulationEnabled", enabled=width < 500)
        self.media(dark=dark)
        self.driver.get("about:blank")
        self.logged()
        self.requested()
        self.driver.get(page.as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait until the page has been drawn in its present size."""
        self.driver.set_script_timeout(30)
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60)))"
        )

    def media(self, *, dark: bool = False, kind: str = "") -> None:
        scheme = "dark" if dark else "light"
        self._cdp(
            "Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def keys(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def hover(self, element: Any) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver, duration=0).move_to_element(element).perform()

    def drag(self, element: Any, start: tuple[float, float], by: tuple[float, float]) -> None:
        """Draw a rectangle from a point, which is relative to the middle of the element."""
        from selenium.webdriver.common.action_chains import ActionChains

        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        chain = ActionChains(self.driver, duration=0).move_to_element_with_offset(element, *map(int, start))
        chain.click_and_hold().move_by_offset(*(int(step / 2) for step in by)).move_by_offset(
            *(int(step / 2) for step in by)
        )
        chain.release().perform()

    def logged(self) -> list[str]:
        """Return what the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> list[str]:
        """Return the addresses that have been asked for since the last call, but for data in the page itself."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def screenshot(self) -> bytes:
        return base64.b64decode(self._cdp("Page.captureScreenshot", format="png")["data"])

    def violations(self) -> list[str]:
        """Return the serious violations of accessibility that axe-core finds."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: make build/page/node_modules")
        self._cdp("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
        script = "axe.run({resultTypes: ['violations']}).then(arguments[0], (e) => arguments[0]({error: String(e)}))"
        result = self.driver.execute_async_script(script)
        assert "violations" in result, result
        return [
            f"{item['id']}: {item['nodes'][0]['html'][:200]} {item['nodes'][0].get('failureSummary', '')[:300]}"
            for item in result["violations"]
            if item["impact"] in ("serious", "critical")
        ]

    def _cdp(self, command: str, **parameters: object) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """Start Chromium; skip the test if it, its driver or Selenium is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(running)
    finally:
        running.quit()
