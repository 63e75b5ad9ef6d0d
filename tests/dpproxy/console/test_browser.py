"""The console in headless Chromium: every page at two widths and in both schemes, by what a browser can measure."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from dpproxy.console.app import PAGES
from tests.conftest import missing
from tests.dpproxy.console_world import PASSWORD, ask, make_world
from tests.dpproxy.serving import Running, serving

pytestmark = pytest.mark.client

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SIZES = {"desktop": ViewportSize(width=1200, height=800), "phone": ViewportSize(width=390, height=800)}
UNLABELLED = """() => [...document.querySelectorAll("input:not([type=hidden]):not([hidden]), select, button")]
    .filter(e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute("aria-label"))
    .map(e => e.outerHTML)"""
OUTLINE = """() => ({
    lang: document.documentElement.lang,
    h1: document.querySelectorAll("h1").length,
    main: document.querySelectorAll("main").length,
    title: document.title,
    levels: [...document.querySelectorAll("h1, h2, h3")].map(e => Number(e.tagName[1])),
    pictures: [...document.querySelectorAll("svg[role=img]")].filter(
        e => !e.getAttribute("aria-labelledby").split(" ").every(id => document.getElementById(id)?.textContent)
    ).length,
    unnamed: [...document.querySelectorAll("svg:not([role=img]):not([aria-hidden])")].length,
    tables: [...document.querySelectorAll("table")].filter(e => !e.caption?.textContent).length,
    width: document.documentElement.scrollWidth,
})"""
CONTRASTS = """() => {
    const parsed = c => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const light = c => { const [r, g, b] = parsed(c).map(v => {
        v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (parsed(c).length < 4 || parsed(c)[3] > 0) return c; } return "rgb(255, 255, 255)"; };
    const found = [];
    for (const e of document.querySelectorAll("body *")) {
        const text = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!text || !e.getClientRects().length || e.closest("title, desc")) continue;
        const style = getComputedStyle(e);
        const [a, b] = [light(e instanceof SVGElement ? style.fill : style.color), light(ground(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) found.push(`${e.tagName}.${e.getAttribute("class")} ${ratio.toFixed(2)}`);
    }
    return found;
}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    file = make_world(tmp_path_factory.mktemp("browser"))
    with serving(["serve", "-c", str(file), "--port", "0", "--http", "127.0.0.1:0"]) as running:
        ask(running)
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Watch:
    """What a page says on its console, and what it asks for elsewhere."""

    def __init__(self, page: Page, origin: str) -> None:
        self.said: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("requestfailed", lambda request: self._failed(f"{request.url} {request.failure}"))
        page.on("request", lambda request: self._asked(request.url, origin))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))

    def _failed(self, told: str) -> None:
        """What the next page has cut short is no failure."""
        if not told.endswith("net::ERR_ABORTED"):
            self.said.append(told)

    def _asked(self, url: str, origin: str) -> None:
        if not url.startswith(origin):
            self.elsewhere.append(url)


def looked_at(page: Page, width: int) -> dict[str, Any]:
    """What is measured on every page, once it holds."""
    outline: dict[str, Any] = page.evaluate(OUTLINE)
    assert outline["lang"] == "en"
    assert (outline["h1"], outline["main"]) == (1, 1)
    assert outline["levels"][0] == 1
    assert all(
        after - before <= 1 for before, after in zip(outline["levels"], outline["levels"][1:], strict=False)
    )
    assert outline["title"].endswith("· dpproxy")
    assert (outline["pictures"], outline["unnamed"], outline["tables"]) == (0, 0, 0)
    assert outline["width"] <= width, f"{page.url} scrolls sideways"
    assert page.evaluate(UNLABELLED) == []
    assert page.evaluate(CONTRASTS) == []
    return outline


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_in_a_browser(
    run: Running, chromium: Browser, size: str, scheme: Any, tmp_path: Path
) -> None:
    width = SIZES[size]["width"]
    with chromium.new_context(viewport=SIZES[size], color_scheme=scheme) as context:
        page = context.new_page()
        watch = Watch(page, run.console)
        page.goto(run.console)
        assert page.url == f"{run.console}login"
        looked_at(page, width)
        page.wait_for_function("document.activeElement.id === 'password'")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(run.console)
        titles = []
        for path in PAGES:
            page.goto(run.console.rstrip("/") + path)
            titles.append(looked_at(page, width)["title"])
            assert page.locator("nav [aria-current=page]").count() == 1
            assert page.screenshot(path=tmp_path / f"{len(titles)}.png", full_page=True)
        assert len(set(titles)) == len(PAGES)
        assert watch.said == []
        assert watch.elsewhere == []
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(re.compile("/login$"))
        page.goto(run.console)
        assert page.url.endswith("/login")


def test_every_page_by_keyboard(run: Running, chromium: Browser) -> None:
    with chromium.new_context(viewport=SIZES["desktop"]) as context:
        page = context.new_page()
        page.goto(f"{run.console}login")
        page.fill("#password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(run.console)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        reached = set()
        for _ in range(30):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.getAttribute('href') || ''"))
            outlined = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outlined != "none" or page.evaluate("document.activeElement === document.body")
        assert set(PAGES) <= reached


def test_forms_of_pages_work_without_scripts(run: Running, chromium: Browser) -> None:
    with chromium.new_context(viewport=SIZES["phone"], java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{run.console}login")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.goto(f"{run.console}limits")
        page.get_by_label("Budgets of information").fill("0.5, 50")
        page.get_by_role("button", name="Try").click()
        assert "information=0.5%2C+50" in page.url
        assert page.get_by_role("cell", name="2 of 2", exact=True).count() == 1
