"""A real browser, headless and cut off from every network, with a profile of its own."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # It won't start for root otherwise; it reads our own page only.
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)
ENDED_WITHIN_S = 10.0


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """Start a browser, and end it with all of its processes.

    Fails where there is none: a page that nobody opened isn't tested.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.fail("no Chromium and chromedriver on PATH: scripts/setup-browser installs them")
    options = ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(executable_path=driver)
    chrome = Chrome(options=options, service=service)
    server = psutil.Process(service.process.pid)
    try:
        yield chrome
    finally:
        started = [server, *server.children(recursive=True)]
        with suppress(WebDriverException):
            chrome.quit()
        _, alive = psutil.wait_procs(started, timeout=ENDED_WITHIN_S)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=ENDED_WITHIN_S)


def open_page(chrome: Chrome, page: Path, *, width: int = 1280, scheme: str = "light") -> None:
    """Load a file in a window of this width in CSS pixels, in a colour scheme; forget old logs."""
    chrome.get_log("browser")
    chrome.get_log("performance")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    chrome.get(page.as_uri())


def requested(chrome: Chrome) -> list[str]:
    """The addresses that were asked for since the last page was opened, the page's own first."""
    events = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
