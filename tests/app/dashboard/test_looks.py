"""How the pages look and weigh: screenshots for the eye, accessibility by axe-core, size and speed by numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from tests.app.dashboard.conftest import PATIENCE_MS
from tests.app.dashboard.house import House
from tests.app.dashboard.picture import take_picture
from tests.patience import PATIENCE

PICTURES = Path(__file__).parents[2] / "artifacts" / "dashboard"
PAGES = {
    "budgets": "/",
    "explain": "/explain",
    "models": "/models",
    "jobs": "/jobs",
    "keys": "/keys",
    "decision": "/explanations/{explanation}",
}
READY = {
    "budgets": "[data-chart] .main-svg, [data-chart] .plain",
    "explain": "#earlier",
    "models": ".chart .main-svg",
    "jobs": ".job",
    "keys": "#place table",
    "decision": "article",
}
WIDTHS = {1280: 900, 390: 844}
ASSET_LIMIT = 150_000
INTERACTIVE_MS = 1500
FOCUS_IS_SEEN = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
WATCH_SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.shift += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def go(page: Page, house: House, name: str) -> None:
    explanation = house.client.get("/explanations").json()["items"][0]["id"]
    page.goto(PAGES[name].format(explanation=explanation))
    page.locator(READY[name]).first.wait_for(state="attached")


@pytest.fixture(scope="module", params=["light", "dark"])
def themed(
    request: pytest.FixtureRequest, browser: Browser, house: House, signed_in: BrowserContext
) -> Iterator[tuple[str, Page]]:
    context = browser.new_context(
        base_url=house.url,
        color_scheme=request.param,
        reduced_motion="reduce",
        storage_state=signed_in.storage_state(),
    )
    context.set_default_timeout(PATIENCE_MS)
    yield request.param, context.new_page()
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_and_can_be_used_by_all(themed: tuple[str, Page], house: House, name: str) -> None:
    scheme, page = themed
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": 1280, "height": 900})
    go(page, house, name)
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide on a screen of {width}"
    assert not grave_findings(page)


def grave_findings(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


def test_an_answer_fits_and_can_be_used_by_all(themed: tuple[str, Page], house: House) -> None:
    scheme, page = themed
    take_picture(page, house.answered(), PICTURES / f"answer-1280-{scheme}.png")
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        page.screenshot(path=PICTURES / f"answer-whole-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not grave_findings(page)


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_light_and_come_from_here(page: Page, house: House, name: str) -> None:
    seen: list[Response] = []
    page.on("response", lambda answer: seen.append(answer))
    go(page, house, name)
    page.wait_for_load_state("load")
    assert all(answer.url.startswith((house.url, "data:")) for answer in seen)
    own = {answer.url: answer for answer in seen if "/assets/" in answer.url and "plotly" not in answer.url}
    assert 0 < sum(len(answer.body()) for answer in own.values()) < ASSET_LIMIT


def test_the_first_page_is_interactive_at_once_and_stays_in_place(page: Page, house: House) -> None:
    page.add_init_script(WATCH_SHIFTS)
    times = []
    for _ in range(3):
        go(page, house, "budgets")
        page.wait_for_function("document.documentElement.dataset.ready !== undefined")
        times.append(float(page.evaluate("document.documentElement.dataset.ready")))
    assert min(times) < INTERACTIVE_MS * PATIENCE
    assert page.evaluate("window.shift") < 0.1


def test_the_keyboard_is_enough(page: Page, house: House) -> None:
    go(page, house, "budgets")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
        assert page.evaluate(FOCUS_IS_SEEN), page.evaluate("document.activeElement.outerHTML")
    assert {"INPUT", "SELECT", "BUTTON", "A"} <= reached


def test_the_page_of_the_calls_works_under_its_policy(page: Page) -> None:
    """The page fixture fails for whatever the policy forbids."""
    page.goto("/docs")
    expect(page.get_by_text("List keys", exact=True)).to_be_visible()
    page.get_by_text("Make key", exact=True).click()
    expect(page.get_by_role("button", name="Try it out")).to_be_visible()
