"""The picture in the README: an explained applicant. The browser test takes it of its own small lender.

`python -m tests.app.dashboard.picture URL KEY_FILE PICTURE.png` takes it of a running demo.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from app.commands.demo import refused_applicants
from tests.app.dashboard.conftest import FLAGS, PATIENCE_MS, sign_in

SIZE = (1280, 900)


def fill_in(page: Page, record: Mapping[str, object]) -> None:
    """The applicant into the form of /explain."""
    page.locator("#feature-0").wait_for()
    for name, value in record.items():
        control = page.locator(f"[data-feature='{name}']")
        text = "" if value is None else str(value)
        if control.evaluate("node => node.tagName") == "SELECT":
            control.select_option(text)
        else:
            control.fill(text)


def take_picture(page: Page, record: Mapping[str, object], path: Path) -> None:
    page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    page.goto("/explain")
    fill_in(page, record)
    page.get_by_role("button", name="Find what could change").click()
    page.get_by_role("link", name="Printable record").wait_for()
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    page.screenshot(path=path)


def main(url: str, key_file: str, picture: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        context = browser.new_context(base_url=url, color_scheme="light", reduced_motion="reduce")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        sign_in(page, Path(key_file).read_text(encoding="utf-8").strip())
        take_picture(page, refused_applicants(1)[0], Path(picture))
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
