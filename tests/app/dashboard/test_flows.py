"""What people do with the dashboard, in a real browser."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app.dashboard.conftest import PATIENCE_MS, sign_in
from tests.app.dashboard.house import House
from tests.app.dashboard.picture import fill_in
from tests.servers.api import MODEL

FROZEN = "savings"

expect.set_options(timeout=PATIENCE_MS)


def test_a_wrong_key_is_told_and_a_right_one_opens(browser: Browser, house: House) -> None:
    context = browser.new_context(base_url=house.url)
    page = context.new_page()
    page.goto("/jobs")
    assert page.url.endswith("/sign-in?next=/jobs")
    page.get_by_label("API key").fill("rk_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("unknown or was revoked")
    assert not context.cookies()

    sign_in(page, house.key)
    assert context.cookies()
    for cookie in context.cookies():
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert house.key not in cookie["value"]
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.goto("/")
    assert "/sign-in" in page.url
    context.close()


def test_explain_with_a_frozen_feature(page: Page, house: House) -> None:
    page.goto("/explain")
    fill_in(page, dict(house.refused[0]))
    for name in ("Age", "Sex", "Dependents"):
        assert page.get_by_label(f"{name} may change").count() == 0
        expect(page.locator(".feature", has=page.get_by_label(name, exact=False)).first).to_contain_text("protected")
    page.get_by_label("Savings may change").uncheck()
    page.get_by_label("How sure?").select_option("0")
    page.get_by_role("button", name="Find what could change").click()
    expect(page.locator("#answers h2").first).not_to_have_text("The answer appears here")
    page.locator("a", has_text="Printable record").wait_for()
    assert page.locator("[data-changed]").count() + page.get_by_text("Why not").count() > 0
    assert page.locator(f"[data-changed='{FROZEN}']").count() == 0

    page.locator("a", has_text="Printable record").click()
    expect(page.get_by_role("heading", name="Decision record")).to_be_visible()
    assert f'"{FROZEN}"' in page.locator("article").inner_text()


def test_an_income_that_nobody_in_the_training_data_had_can_be_entered(page: Page, house: House) -> None:
    """The browser refused what the API answers with a notice."""
    version = house.client.get(f"/models/{MODEL}").json()["versions"][-1]
    income = next(one for one in version["schema"]["features"] if one["name"] == "income")
    page.goto("/explain")
    fill_in(page, dict(house.refused[0]) | {"income": int(2 * income["upper"])})
    page.get_by_label("How sure?").select_option("0")
    page.get_by_role("button", name="Find what could change").click()
    expect(page.get_by_text(re.compile("'income' is .* beyond the .* of the training data"))).to_be_visible()


def test_why_not_is_told_where_there_is_no_way(page: Page, house: House) -> None:
    page.goto("/explain")
    fill_in(page, dict(house.refused[2]))
    for box in page.locator("[data-change]").all()[1:]:
        box.uncheck()
    page.get_by_label("How sure?").select_option("0")
    page.get_by_role("button", name="Find what could change").click()
    expect(page.get_by_role("heading", name="No way within these limits")).to_be_visible()
    expect(page.get_by_text("Nothing that this applicant may change is enough.")).to_be_visible()
    expect(page.get_by_role("heading", name="Why not")).to_be_visible()


@pytest.mark.parametrize("queries", ["0", "10"])
def test_where_everything_is_frozen_no_way_is_told(page: Page, house: House, queries: str) -> None:
    page.goto("/explain")
    fill_in(page, house.hopeless())
    for box in page.locator("[data-change]").all():
        box.uncheck()
    page.get_by_label("How sure?").select_option(queries)
    page.get_by_role("button", name="Find what could change").click()
    expect(page.get_by_role("heading", name="No way within these limits")).to_be_visible()
    expect(page.get_by_text(re.compile("Nothing may change, because .*savings.* are frozen"))).to_be_visible()
    assert page.get_by_text("If 0 things change").count() == page.locator("[data-changed]").count() == 0


def test_where_an_answer_lies_against_the_trust_region(page: Page, house: House) -> None:
    page.goto("/explain")
    fill_in(page, dict(house.answered()))
    page.get_by_label("How many of the models must accept?").select_option("0.6")
    page.get_by_role("button", name="Find what could change").click()
    way = page.get_by_label(re.compile("the expected share .* as things are, to .* at the answer"))
    expect(way).to_be_visible()
    curves = way.evaluate("(chart) => chart.data.map((curve) => [curve.name, curve.x.at(0), curve.x.at(-1)])")
    (_, bend, end), (_, start, same), (answer, *_) = curves
    assert (start, same, end, answer) == (0, bend, 1, "the answer"), "from the record to the answer, without a gap"
    gauge = page.get_by_role("img", name=re.compile("who were accepted are less typical")).first
    expect(gauge).to_be_visible()
    told = re.match(r"(\d+)% of the real applicants", str(gauge.get_attribute("aria-label")))
    assert told is not None
    if page.get_by_text("inside the trust region").count():
        assert int(told[1]) >= 5
    for track in page.locator("[data-changed] svg.track").all():
        old, new = (float(str(track.locator(f".{name}").get_attribute("cx"))[:-1]) for name in ("old", "new"))
        assert min(old, new) >= 3 and max(old, new) <= 97 and abs(old - new) > 10, "the step can be seen"


def test_a_job_is_watched_until_it_is_done(page: Page, house: House) -> None:
    held = house.start_job()
    page.goto(f"/jobs?job={held.id}")
    for step in (1, 50, 100):
        progress = {"phase": "surrogate", "step": step, "steps": 100, "loss": 4 / step, "queries": 7}
        held.save_progress(progress, event=True)
    expect(page.get_by_text("Imitating them: step 100 of 100")).to_be_visible()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    house.finish_job(held, house.lender.versions[0])
    expect(page.get_by_text("Done: the new version")).to_be_visible()
    expect(page.get_by_role("link", name="See the new version")).to_be_visible()


def test_a_job_is_cancelled(page: Page, house: House) -> None:
    held = house.start_job()
    page.goto(f"/jobs?job={held.id}")
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("status").filter(has_text="Cancelling")).to_be_visible()
    held.cancel()
    expect(page.get_by_text("Cancelled. What it had asked stays charged.")).to_be_visible()


def test_the_limit_is_hit_said_plainly_and_raised(page: Page, house: House) -> None:
    house.set_limit(1)
    try:
        page.goto("/explain")
        fill_in(page, dict(house.refused[9]))
        page.get_by_label("How sure?").select_option("30")
        page.get_by_role("button", name="Find what could change").click()
        expect(page.get_by_role("heading", name="The budget is used up")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("The query budget does not allow this")

        page.goto("/")
        expect(page.get_by_text("The budget is used up.")).to_be_visible()
        page.get_by_label("Queries allowed").fill("800")
        page.get_by_role("button", name="Save the limit").click()
        expect(page.locator("[data-figure=limit]")).to_have_text("800")
        expect(page.locator("[data-alert]")).to_be_hidden()
        expect(page.locator("[data-refusals]")).to_contain_text("The query budget does not allow it")
        page.get_by_label("Queries allowed").fill("0")
        page.get_by_role("button", name="Save the limit").click()
        expect(page.locator("[data-alert]")).to_contain_text("The limit is 0.")
        expect(page.locator("[data-projection]")).to_have_text("The limit is 0, so nothing may be asked.")
    finally:
        house.set_limit(800)


def test_the_budget_falls_while_one_watches(page: Page, house: House) -> None:
    page.goto("/")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    used = page.locator("[data-figure=used]")
    before = int(re.sub(r"\D", "", used.inner_text()))
    answer = house.explain(queries=5, first=20)
    assert answer.status_code == 200
    after = house.client.get("/budgets").json()["items"][0]["used"]
    assert after > before
    expect(used).to_have_text(str(after))


def test_a_correction_shows_its_reason(page: Page, house: House) -> None:
    page.goto("/")
    used = house.client.get("/budgets").json()["items"][0]["used"]
    form = page.locator("[data-correction-form]")
    form.get_by_label("Queries").fill("2")
    form.get_by_label("Reason").fill("asked by hand")
    form.get_by_role("button").click()
    expect(page.locator("[data-ledger] tbody tr").first).to_contain_text("asked by hand (key ")
    assert house.client.get("/budgets").json()["items"][0]["used"] == used + 2


def test_the_ledger_is_filtered_and_downloaded(page: Page, house: House, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Kind").select_option("limit")
    expect(page.locator("[data-ledger] tbody tr").first).to_contain_text("limit changed")
    assert "asked" not in page.locator("[data-ledger] tbody").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    assert download.value.suggested_filename == f"ledger-{MODEL}.csv"
    download.value.save_as(tmp_path / "ledger.csv")
    with (tmp_path / "ledger.csv").open(encoding="utf-8") as file:
        kinds = {row["kind"] for row in csv.DictReader(file)}
    assert {"reserve", "dispatch", "settle", "limit"} <= kinds


def test_the_quality_of_a_version_stands_beside_the_oracle(page: Page, house: House) -> None:
    page.goto("/models")
    lines = page.locator("[data-oracle] tbody tr")
    expect(lines).to_have_count(3)
    assert lines.nth(0).inner_text().split("\t")[1:] == ["70%", "96%", "1.87"]
    assert lines.nth(2).inner_text().split("\t") == ["Oracle, up to 100 questions", "100%", "100%", "2.07"]
    expect(page.get_by_text("0.91 times as large a change")).to_be_visible()
    expect(page.get_by_text("Protected, never suggested: Age, Sex, Dependents.")).to_be_visible()
    expect(page.get_by_role("row", name="knn")).to_contain_text("0.81")
    expect(page.get_by_text("On 60 labelled records; an AUC of 0.5 is chance.")).to_be_visible()
    expect(page.get_by_text("'knn' answers 0 or 1, never a probability")).to_be_visible()


def test_roll_back_and_forth(page: Page, house: House) -> None:
    page.goto("/models")
    page.get_by_role("button", name="Activate version 2").click()
    expect(page.get_by_role("button", name="Go back to version 1")).to_be_visible()
    assert house.client.get(f"/models/{MODEL}").json()["active_version"] == 2
    page.get_by_role("button", name="Go back to version 1").click()
    expect(page.get_by_role("button", name="Activate version 2")).to_be_visible()


def test_a_key_is_made_shown_once_and_revoked(page: Page, house: House) -> None:
    page.goto("/keys")
    page.get_by_label("What is it for?").fill("auditor")
    page.get_by_label("Role").select_option("analyst")
    page.get_by_label("Last day (UTC)").fill("2100-12-31")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("[data-secret]")).to_contain_text("rk_")
    cells = page.get_by_role("row").filter(has_text="auditor").get_by_role("cell")
    expect(cells.nth(1)).to_have_text("analyst")
    expect(cells.nth(4)).to_have_text("never")
    expect(cells.nth(5)).to_have_text("2100-12-31 23:59")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Revoke auditor").click()
    expect(page.get_by_text("revoked", exact=True)).to_be_visible()
