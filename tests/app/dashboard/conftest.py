"""A browser, a service for it, and pages that are signed in."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.app.dashboard.house import House, open_house
from tests.fakes.lending import make_lending
from tests.patience import BOUND
from tests.published import save_two

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 1000 * BOUND
REQUIRED = "RECOURSE_REQUIRE_BROWSER"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """No longer than a module: while Playwright is open its event loop runs, and no other test could have one."""
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"chromium is not on the PATH, but {REQUIRED} is set: install it")
        pytest.skip("chromium is not on the PATH: the dashboard was not tried in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def house(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    lending = make_lending()
    saved = save_two(lending, tmp_path_factory.mktemp("saved"))
    var_dir = tmp_path_factory.mktemp("var")
    shutil.copy(sqlite_template, var_dir / "recourse.db")
    with open_house(lending, saved, f"sqlite:///{var_dir / 'recourse.db'}", var_dir) as house:
        yield house


@pytest.fixture(scope="module")
def signed_in(browser: Browser, house: House) -> Iterator[BrowserContext]:
    """A context whose cookies are those of an admin."""
    context = browser.new_context(base_url=house.url, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    sign_in(page, house.key)
    page.close()
    yield context
    context.close()


@pytest.fixture
def page(signed_in: BrowserContext) -> Iterator[Page]:
    page = signed_in.new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: failures.append(said.text) if "Security Policy" in said.text else None)
    yield page
    page.close()
    assert not failures, failures


def sign_in(page: Page, key: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
