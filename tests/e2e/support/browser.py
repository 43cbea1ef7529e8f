"""A real Chromium, headless, driven through its own driver as a person would drive it: by roles, labels and words, not by the insides of the page."""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import time

import pytest
from pinned import environment
from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, ElementNotInteractableException, NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from server import FLAGS, Server

DESK, PHONE = (1440, 900), (390, 844)
# Set before any script of a page runs: what a hostile text would do first, and what the page may not do.
WATCH = """
window.harm = [];
for (const name of ['alert', 'confirm', 'prompt']) window[name] = () => window.harm.push(name);
Object.defineProperty(window, 'P', {set() { window.harm.push('script'); }, get() { return 0; }});
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
window.addEventListener('error', (event) => window.violations.push('error: ' + event.message));
"""


def axe_text():
    """axe-core, as one script."""
    return next(environment("axe").rglob("axe.min.js")).read_text(encoding="utf-8")


class Browser:
    """A browser window. `wait(...)` waits for what a person would wait for; nothing here sleeps for luck."""

    def __init__(self, directory, url):
        self.url, self.directory = url, pathlib.Path(directory)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        flags = ["--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", "--lang=en-US", f"--user-data-dir={directory}/profile"]
        for flag in flags + (["--no-sandbox"] if os.geteuid() == 0 else []):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(60)
        self.command("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.size(DESK)

    def close(self):
        self.driver.quit()

    def command(self, name, **words):
        return self.driver.execute_cdp_cmd(name, words)

    def script(self, text, *words):
        return self.driver.execute_script(text, *words)

    # ---- going ----

    def size(self, size, is_dark=False):
        self.command("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=size == PHONE)
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, place="#/", is_new=False):
        """A page by its address; `is_new`: loaded as by a first visitor."""
        address = f"{self.url}/console/{place}"
        if is_new or not self.driver.current_url.startswith(f"{self.url}/console/"):
            self.driver.get("about:blank")
            self.driver.get(address)
        elif self.driver.current_url == address:
            self.driver.refresh()
        else:
            self.script("location.hash = arguments[0]", place)
        self.settled()
        return self

    def settled(self):
        """The page that the address names is there."""
        self.wait(lambda: self.script("const m = document.querySelector('main'); return m && m.querySelector('h1') && !m.hasAttribute('aria-busy')"), "the page")

    def wait(self, check, what, seconds=20.0):
        limit, fault = time.monotonic() + seconds, None
        while True:
            try:
                if found := check():
                    return found
            except (NoSuchElementException, StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException, IndexError) as missing:
                fault = missing
            if time.monotonic() > limit:
                self.picture("failed")
                raise AssertionError(f"no {what} within {seconds} s ({fault}): {self.text()[:1500]}")
            time.sleep(0.03)

    # ---- looking ----

    def text(self):
        return self.script("return document.body ? document.body.innerText : ''")

    def sees(self, text, seconds=20.0):
        self.wait(lambda: text in self.text(), f"'{text}'", seconds)

    def find(self, path, within=None):
        return (within or self.driver).find_element(By.CSS_SELECTOR, path)

    def all(self, path, within=None):
        return (within or self.driver).find_elements(By.CSS_SELECTOR, path)

    def dialog(self):
        return self.wait(lambda: self.all("dialog[open]")[-1], "dialog")

    def button(self, words, within=None):
        """The button or link that is called so."""
        for one in self.all("button, a, summary", within):
            name = (one.get_attribute("aria-label") or one.text).strip()
            if name == words or (words.endswith("*") and name.startswith(words[:-1])):
                return one
        raise NoSuchElementException(words)

    def picture(self, name):
        data = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        path = self.directory / f"{name}.png"
        path.write_bytes(base64.b64decode(data))
        return path

    # ---- doing ----

    def press(self, words, within=None):
        def click():
            one = self.button(words, within() if callable(within) else within)
            if not one.is_displayed() or one.get_attribute("aria-disabled") == "true" or not one.is_enabled():
                return False
            one.click()
            return True

        self.wait(click, f"button '{words}' to press")

    def more(self, words, within=lambda: None):
        """Chooses an action of the menu."""
        self.wait(lambda: self.all("details.menu", within())[0], "the menu")
        if not self.all("details.menu[open]", within()):
            self.press("More", within)
        self.press(words, lambda: self.find(".menu-list", within()))

    def type(self, label, text, within=None):
        """Types into the field with that label."""
        def enter():
            field = self.field(label, within)
            if field.tag_name == "select":
                Select(field).select_by_visible_text(text)
            else:
                self.script("arguments[0].focus(); arguments[0].select && arguments[0].select()", field)
                field.clear()
                if text:
                    field.send_keys(text)
            return True

        self.wait(enter, f"field '{label}'")

    def field(self, label, within=None):
        for one in self.all("label", within):
            if one.text.strip() == label and one.is_displayed():
                return self.driver.find_element(By.ID, one.get_attribute("for"))
        for one in self.all("[aria-label]", within):
            if one.get_attribute("aria-label") == label and one.is_displayed():
                return one
        raise NoSuchElementException(label)

    def keys(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def slow(self, milliseconds):
        """Delays each answer by so long from now on; 0: no delay."""
        self.command("Network.enable")
        self.command("Network.emulateNetworkConditions", offline=False, latency=milliseconds, downloadThroughput=-1, uploadThroughput=-1)

    # ---- judging ----

    def unharmed(self):
        harm, violations = self.script("return [window.harm, window.violations]")
        assert not harm and not violations, (self.driver.current_url, harm, violations)

    def requests(self):
        """Addresses of all requests since the last time."""
        out = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                out.append(message["params"]["request"]["url"])
        return out

    def axe(self, source):
        """[(rule, weight, where)] of what is worse than moderate."""
        self.script(source + "; return 1")
        found = self.driver.execute_async_script("const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations), (e) => done([{id: String(e), impact: 'critical', nodes: []}]))")
        return [(one["id"], one["impact"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found if one["impact"] in ("serious", "critical")]


# ---- fixtures: a module imports those that it needs; `client` and `browser` use its own `server` if it has one ----


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("console")
    server = Server(directory, FLAGS).start()
    yield server
    assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-3000:]
    shutil.rmtree(server.data, ignore_errors=True)


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"), server.url)
    yield browser
    browser.close()


@pytest.fixture
def client(server):
    return server.client()


@pytest.fixture(autouse=True)
def no_harm(request):
    """After a test: no script of a stranger ran, and nothing violated the policy. A module that imports this has a fixture `browser`."""
    yield
    if "browser" in request.fixturenames:
        browser = request.getfixturevalue("browser")
        browser.unharmed()
        browser.script("for (const one of document.querySelectorAll('dialog[open]')) one.close()")  # in one step: an answer may close it meanwhile


@contextlib.contextmanager
def opened(directory, url):
    browser = Browser(directory, url)
    try:
        yield browser
    finally:
        browser.close()


# Sizes, themes and languages in which pages are checked.
LOOKS = [(DESK, False, "English"), (PHONE, True, "English"), (DESK, True, "中文"), (PHONE, False, "中文")]


def check_pages(browser, look, pages, title, english, waits=lambda name: None):
    """Checks that nothing on the pages (name: place) keeps people out, that they fit, and that Chinese ones contain no word of `english`."""
    size, is_dark, language = look
    source, found, left = axe_text(), {}, {}

    def choose(language):
        browser.type("Language" if browser.script("return document.documentElement.lang") == "en" else "语言", language)

    browser.size(size, is_dark)
    try:
        browser.open("#/", is_new=True)
        choose(language)
        for name, place in pages.items():
            browser.open(place)
            waits(name)
            if faults := browser.axe(source):
                found[name] = faults
            width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert width[0] <= width[1], f"{name} is {width[0]} wide in {width[1]}"
            if language != "English":
                left[name] = re.findall(english, browser.text())
            browser.picture(f"{title}-{name}-{'phone' if size == PHONE else 'desk'}-{browser.script('return document.documentElement.lang')}")
    finally:
        choose("English")
        browser.size(DESK)
    assert not found, json.dumps(found, indent=1)
    assert not any(left.values()), left
