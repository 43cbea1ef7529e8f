"""Batches in the console, in a real Chromium: the card of a waiting job, its members, close, and cancel with members."""

import json
import re

import pytest
from browser import LOOKS, browser, check_pages, client, no_harm, server  # pylint: disable=unused-import
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.plain("a browser does not know the certificate of a test")


def batch(client, ident, names, topic="rows", **options):
    client.push("reports", ident, waits="true", **options)
    for name in names:
        client.push(topic, name, batch_topic="reports", batch_id=ident)


def end(client, topic, verb="ack", **options):
    (job,) = client.take(topic, consumer="importer-1", wait="5s")
    client.good("POST", f"/v1/{verb}", json.dumps({"leases": [{"lease": job["lease"], **options}]}).encode(), {"Content-Type": "application/json"})
    return job["id"]


def card(browser):
    return browser.wait(lambda: browser.find("#batch"), "the card of the batch")


def members(browser):
    return [re.sub(r"\s+", " ", one.text) for one in browser.all("#batch .members li")]


def counts(browser):
    return {one.get_attribute("data-outcome"): int(browser.find(".choice-count", one).text) for one in browser.all("#batch [data-outcome]")}


def story(client, ident, topic):
    """Of six members one is acked, one dead, one cancelled and one leased; two are ready."""
    client.put_topic(topic, keep_finished="1h", max_attempts=1)
    batch(client, ident, [f"{ident}-{n}" for n in range(6)], topic)
    end(client, topic)
    end(client, topic, "nack", error="row 1 has no price", final=True)
    client.cancel(topic, f"{ident}-2")
    (job,) = client.take(topic, consumer="importer-2", lease_for="10m")
    client.good("POST", f"/v1/extend?lease={job['lease']}&progress=3/4")


def test_a_waiting_job_shows_the_outcomes_and_the_missing_members(browser, client):
    story(client, "import-1", "rows1")
    browser.open("#/topics/reports/jobs/import-1", is_new=True)
    browser.wait(lambda: len(members(browser)) == 3, "the missing members")
    assert browser.find("#batch-line").text == "3 of 6 members have ended" and float(browser.find("#batch progress").get_attribute("value")) == 0.5
    assert counts(browser) == {"unfinished": 3, "acked": 1, "dead": 1, "cancelled": 1, "expired": 0}
    assert sorted(members(browser)) == ["leased rows1 / import-1-3 Held by importer-2 3/4", "ready rows1 / import-1-4", "ready rows1 / import-1-5"]
    assert "Falls due when its batch is closed and 3 more members have ended." in browser.text() and "A dead member counts as ended." in browser.text()
    assert "waits for 3 members" in browser.find(".line-of-time").text
    browser.press("dead*", lambda: card(browser))
    browser.wait(lambda: members(browser) == ["dead rows1 / import-1-1 row 1 has no price"], "the dead member")
    for name, ident in (("acked", 0), ("cancelled", 2)):
        browser.press(f"{name}*", lambda: card(browser))
        browser.wait(lambda: [one.split(" ", 4)[:4] for one in members(browser)] == [[name, "rows1", "/", f"import-1-{ident}"]], f"the {name} member")  # noqa: B023
    browser.press("expired*", lambda: card(browser))
    browser.wait(lambda: members(browser) == ["No members are listed. Finished members are kept only if their topics keep finished jobs."], "no member")
    browser.open("#/topics/reports/jobs", is_new=True)
    browser.sees("waits for 3 members")


def test_a_member_links_to_its_waiting_job_and_back(browser, client):
    batch(client, "import-2", ["a"], "rows2")
    browser.open("#/topics/rows2/jobs/a", is_new=True)
    assert not browser.find("#batch").is_displayed()
    browser.press("reports / import-2")
    browser.wait(lambda: members(browser) == ["ready rows2 / a"], "the member")
    browser.press("rows2 / a", lambda: card(browser))
    browser.wait(lambda: browser.find("h1").text.startswith("a"), "the page of the member")


def test_numbers_and_members_follow_while_the_page_is_open(browser, client):
    batch(client, "import-3", ["a", "b"], "rows3", members="2")
    browser.open("#/topics/reports/jobs/import-3", is_new=True)
    browser.wait(lambda: len(members(browser)) == 2, "both members")
    assert browser.find("#batch-title").text.split() == ["Batch", "closed"] and "Close the batch" not in card(browser).text
    assert end(client, "rows3") == "a"
    browser.wait(lambda: members(browser) == ["ready rows3 / b"], "the member that is left")
    assert browser.find("#batch-line").text == "1 of 2 members have ended"
    end(client, "rows3")
    browser.wait(lambda: browser.find("#batch-line").text == "2 of 2 members have ended" and browser.find("#job-marks").text == "ready", "the job that is due")


def test_a_batch_is_closed_with_the_keyboard(browser, client):
    batch(client, "import-4", ["a"], "rows4")
    browser.open("#/topics/reports/jobs/import-4", is_new=True)
    browser.wait(lambda: len(members(browser)) == 1, "the member")
    browser.script("document.querySelector('h1').focus()")
    reached = []
    for _ in range(30):
        browser.keys(Keys.TAB)
        reached.append(browser.script("return document.activeElement.textContent"))
        if reached[-1] == "Close the batch…":
            break
    browser.keys(Keys.ENTER)
    assert "falls due when all members have ended" in browser.dialog().text, reached
    browser.keys(Keys.TAB, Keys.ENTER)
    browser.sees("The batch of import-4 is closed")
    browser.wait(lambda: browser.find("#batch-title").text.split() == ["Batch", "closed"] and "Close the batch" not in card(browser).text, "a closed batch")
    assert client.get("reports", "import-4")["closed"] is True and client.get("reports", "import-4")["waits_for"] == 1
    assert "Falls due when 1 more member has ended." in browser.text()


def test_the_focus_stays_on_a_member_while_the_batch_changes(browser, client):
    batch(client, "import-5", ["a", "b"], "rows5")
    browser.open("#/topics/reports/jobs/import-5", is_new=True)
    browser.wait(lambda: len(members(browser)) == 2, "both members")
    browser.script("document.querySelectorAll('#batch .members a')[1].focus()")
    end(client, "rows5")
    browser.wait(lambda: counts(browser)["acked"] == 1, "the new number")
    assert browser.script("return document.activeElement.textContent") == "rows5 / b" and len(members(browser)) == 2
    browser.script("document.activeElement.blur()")
    browser.wait(lambda: members(browser) == ["ready rows5 / b"], "the member that is left")


def test_a_waiting_job_is_cancelled_with_its_members(browser, client):
    batch(client, "import-6", ["a", "b"], "rows6")
    browser.open("#/topics/reports/jobs/import-6", is_new=True)
    browser.press("More")
    browser.press("Cancel with its members…")
    assert "2 members have not ended" in browser.dialog().text
    browser.press("Cancel the job and its members", browser.dialog)
    browser.sees("import-6 and its members are cancelled")
    assert [client.call("GET", f"/v1/topics/{place}").status for place in ("reports/jobs/import-6", "rows6/jobs/a", "rows6/jobs/b")] == [404, 404, 404]


def test_members_are_listed_in_pages(browser, client):
    batch(client, "import-7", [f"m{n:02}" for n in range(60)], "rows7")
    browser.open("#/topics/reports/jobs/import-7", is_new=True)
    browser.wait(lambda: len(members(browser)) == 50, "the first page")
    browser.press("Next", lambda: card(browser))
    browser.wait(lambda: len(members(browser)) == 10, "the second page")
    browser.press("Back", lambda: card(browser))
    browser.wait(lambda: len(members(browser)) == 50, "the first page again")


def test_a_batch_that_was_not_closed_shows_what_a_redrive_does(browser, client):
    batch(client, "import-8", ["a"], "rows8", close_within="1ms")
    browser.open("#/topics/reports/jobs/import-8", is_new=True)
    browser.wait(lambda: browser.find("#job-marks").text == "dead", "the dead job")
    assert "A redrive closes the batch." in browser.text() and "batch was not closed" in browser.text()
    browser.press("Redrive")
    browser.sees("Falls due when 1 more member has ended.")


def test_curl_pushes_the_same_waiting_job(browser, client):
    batch(client, "import-9", [], on_dead="hold", wait_at_most="2d")
    browser.open("#/topics/reports/jobs/import-9", is_new=True)
    browser.press("More")
    browser.press("Copy as curl…")
    text = browser.find("textarea", browser.dialog()).get_attribute("value")
    assert "waits=true" in text and "on_dead=hold" in text and "wait_at_most=2d" in text and "at=" not in text.replace("wait_at", ""), text


PAGES = {"waiting": "#/topics/reports/jobs/everyone", "member": "#/topics/rows0/jobs/everyone-4", "list": "#/topics/reports/jobs"}


@pytest.mark.parametrize("look", LOOKS)
def test_batches_are_accessible_at_both_sizes_in_both_languages(browser, client, look):
    if client.call("GET", "/v1/topics/rows0").status == 404:
        story(client, "everyone", "rows0")
    check_pages(browser, look, PAGES, "batch", r"\b(?:Batch|members?|Member|open|missing|Close|waits)\b", waits=lambda name: name == "waiting" and browser.wait(lambda: len(members(browser)) == 3, "the members"))
