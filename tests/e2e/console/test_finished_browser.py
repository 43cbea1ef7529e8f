"""Finished jobs in the console, in a real Chromium: the list, the job with its result, progress, a copy, purge and settings."""

import re

import pytest
from browser import LOOKS, browser, check_pages, client, no_harm, server  # pylint: disable=unused-import
from server import eventually

pytestmark = pytest.mark.plain("a browser does not know the certificate of a test")


def finish(client, topic, ident, result=b"", content_type="application/json", **push):
    client.push(topic, ident, **push)
    (job,) = client.take(topic, consumer="worker-7", wait="5s")
    assert client.call("POST", f"/v1/ack?lease={job['lease']}", result, {"Content-Type": content_type}).status == 200


def rows(browser):
    browser.wait(lambda: browser.all("table.jobs tbody td") and not browser.all("table.jobs tbody[aria-busy]"), "rows")
    return [one.text for one in browser.all("table.jobs tbody tr")]


def story(client, topic, **settings):
    client.put_topic(topic, keep_finished="1h", **settings)
    finish(client, topic, "first", b'{"sum": 3}', meta={"order": "1001"})
    finish(client, topic, "second", b"\xff\x00" * 700, "image/png", meta={"order": "1002"})
    client.push(topic, "third", delay="1h")
    client.cancel(topic, "third")
    client.push(topic, "live", delay="1h")


def test_finished_jobs_have_a_tab_with_outcome_result_duration_and_time(browser, client):
    story(client, "sums")
    browser.open("#/topics/sums", is_new=True)
    browser.wait(lambda: "3 finished jobs kept" in browser.find("#finished-line").text, "the number of finished jobs")
    browser.press("Show finished jobs")
    browser.wait(lambda: browser.find('[data-state="finished"]').get_attribute("aria-pressed") == "true", "the tab")
    assert browser.find('[data-state="finished"]').text.split() == ["finished", "3"] and browser.find('[data-state="all"]').text.split() == ["All", "1"]
    third, second, first = rows(browser)
    assert re.search(r"^third.*cancelled", third, re.S) and re.search(r"^second.*acked.*1\.4 KiB, image/png", second, re.S), (third, second)
    assert re.search(r"^first.*acked.*worker-7.*\{\"sum\":3\}.*order: 1001", first, re.S), first
    heads = [one.text for one in browser.all("table.jobs thead th")][1:]
    assert heads == ["Id", "Outcome", "Finished", "Duration", "Attempt", "Held by", "Result", "Meta"], heads
    assert browser.find(".bulk-what").text == "Finished jobs are dropped when their time ends"
    assert "Error" not in [one.text for one in browser.all("form.search label") if one.is_displayed()]


def test_finished_jobs_are_searched_by_id_and_meta(browser, client):
    story(client, "found")
    browser.open("#/topics/found/jobs?state=finished", is_new=True)
    assert len(rows(browser)) == 3
    browser.type("Meta as name:value", "order:1002")
    browser.press("Search")
    browser.wait(lambda: [row.split()[0] for row in rows(browser)] == ["second"], "the job with this meta")
    browser.press("Clear")
    browser.type("Id starts with", "fir")
    browser.press("Search")
    browser.wait(lambda: [row.split()[0] for row in rows(browser)] == ["first"], "the job with this id")


def test_a_topic_that_keeps_nothing_shows_what_to_set(browser, client):
    client.push("plain", "x")
    browser.open("#/topics/plain/jobs?state=finished", is_new=True)
    browser.sees("This topic keeps no finished jobs")


def test_a_finished_job_shows_its_result_and_its_end(browser, client):
    story(client, "shown")
    browser.open("#/topics/shown/jobs/first", is_new=True)
    assert browser.find("#job-marks").text.split() == ["finished", "acked"]
    assert "Result" in browser.find("#result-title").text and '"sum": 3' in browser.find("pre.body").text
    assert "Nothing more happens" in browser.text() and "worker-7" in browser.text() and "The body was not kept" in browser.text()
    actions = browser.find(".actions").text
    assert "Cancel" not in actions and "Reschedule" not in actions and "Push a copy" not in actions and "curl" not in actions
    browser.open("#/topics/shown/jobs/third")
    browser.sees("The job has no result")
    assert browser.find("#job-marks").text.split() == ["finished", "cancelled"]


def test_a_job_that_finishes_while_it_is_shown_gets_its_result(browser, client):
    client.put_topic("watched", keep_finished="1h")
    client.push("watched", "w")
    browser.open("#/topics/watched/jobs/w", is_new=True)
    finish_lease = client.take("watched")[0]["lease"]
    assert client.call("POST", f"/v1/ack?lease={finish_lease}", b'"seen"', {"Content-Type": "application/json"}).status == 200
    browser.wait(lambda: '"seen"' in browser.find("pre.body").text and "acked" in browser.find("#job-marks").text, "the result")


def test_a_copy_of_a_kept_body_is_pushed(browser, client):
    client.put_topic("copied", keep_finished="1h", keep_body=True)
    finish(client, "copied", "text", body=b"total 12", meta={"order": "7"})
    finish(client, "copied", "bytes", body=b"\xff\x00\xfe")
    browser.open("#/topics/copied/jobs/text", is_new=True)
    browser.press("Push a copy*")
    browser.type("Body", "total 13", browser.dialog())
    browser.press("Push", browser.dialog)
    browser.wait(lambda: browser.driver.current_url.endswith("/jobs/text-copy"), "the page of the copy")
    job = client.get("copied", "text-copy")
    assert job["body"] == "total 13" and job["meta"] == {"order": "7"} and job["state"] == "ready"
    browser.open("#/topics/copied/jobs/bytes")
    browser.press("Push a copy*")
    assert "3 B and is not text" in browser.dialog().text
    browser.press("Push", browser.dialog)
    browser.wait(lambda: browser.driver.current_url.endswith("/jobs/bytes-copy"), "the page of the copy")
    assert client.good("GET", "/v1/topics/copied/jobs/bytes-copy?body=base64")["body_base64"] == "/wD+"


@pytest.mark.parametrize("text, share", [("45%", 0.45), ("3/7", 3 / 7), ("40 of 100 rows", 0.4), ("100 %", 1), ("copying the rows", None), ("7/3", None), ("3/0", None), ("120%", None)])
def test_progress_that_is_a_share_is_a_bar(browser, client, text, share):
    ident = re.sub(r"\W", "-", text)
    client.push("moving", ident, lease_for="10m")
    (job,) = client.take("moving")
    client.good("POST", "/v1/extend?lease=" + job["lease"] + "&progress=" + text.replace("%", "%25").replace(" ", "%20"))
    for place, within in ((f"#/topics/moving/jobs/{ident}", ".line-of-time .progress"), ("#/topics/moving/jobs?state=leased&id_prefix=" + ident, "table.jobs .progress")):
        browser.open(place, is_new=True)
        line = browser.wait(lambda: browser.find(within), "the progress")  # noqa: B023
        bars = browser.all("progress", line)
        assert text in line.text and len(bars) == (share is not None)
        if bars:
            assert float(bars[0].get_attribute("value")) == pytest.approx(share) and bars[0].get_attribute("aria-label") == "Progress"


def test_finished_jobs_are_purged_alone(browser, client):
    story(client, "dropped")
    browser.open("#/topics/dropped/jobs?state=finished", is_new=True)
    browser.press("Purge*", lambda: browser.find(".bulk"))
    browser.wait(lambda: "3 jobs" in browser.find("dialog[open] .count").text, "their number")
    browser.press("Purge 3 jobs", browser.dialog)
    eventually(lambda: client.topic("dropped")["counts"]["finished"] == 0)
    assert client.topic("dropped")["counts"]["delayed"] == 1
    browser.wait(lambda: browser.find('[data-state="finished"]').text.split() == ["finished", "0"], "the new number")


def test_the_settings_of_finished_jobs_have_labels(browser, client):
    client.put_topic("set")
    browser.open("#/topics/set/settings", is_new=True)
    for label, text in (("Keep finished jobs", "7d"), ("Number of kept jobs", "5000"), ("Size of kept jobs in bytes", "1000000"), ("Keep their bodies", "true")):
        browser.type(label, text)
    browser.press("Save")
    browser.sees("4 settings saved")
    settings = client.topic("set")["settings"]
    assert {name: settings[name] for name in ("keep_finished", "keep_finished_max", "keep_finished_bytes", "keep_body")} == {"keep_finished": "7d", "keep_finished_max": 5000, "keep_finished_bytes": 1000000, "keep_body": True}
    browser.type("Keep finished jobs", "")
    browser.press("Save")
    browser.sees("1 setting saved")
    assert "keep_finished" not in client.topic("set")["settings"]


PAGES = {"list": "#/topics/everyone/jobs?state=finished", "finished": "#/topics/everyone/jobs/first", "bytes": "#/topics/everyone/jobs/second", "leased": "#/topics/everyone/jobs/moving", "topic": "#/topics/everyone", "settings": "#/topics/everyone/settings"}


@pytest.mark.parametrize("look", LOOKS)
def test_finished_jobs_are_accessible_at_both_sizes_in_both_languages(browser, client, look):
    if client.call("GET", "/v1/topics/everyone").status == 404:
        story(client, "everyone")
        client.push("everyone", "moving", lease_for="1h")
        client.good("POST", "/v1/extend?lease=" + client.take("everyone")[0]["lease"] + "&progress=3/7")
    check_pages(browser, look, PAGES, "finished", r"\b(?:Outcome|Result|Duration|Finished|acked|cancelled|Progress|Keep|kept)\b", waits=lambda name: name == "list" and rows(browser))
