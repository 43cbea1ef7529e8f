"""Schedules in the console, in a real Chromium: the calendar, the list, the form with its preview, the history of fires, and each action, by mouse and by keyboard."""

import datetime
import json
import re

import pytest
from browser import DESK, PHONE, Browser, axe_text, client, no_harm, server  # pylint: disable=unused-import
from conftest import FLAGS
from selenium.webdriver.common.keys import Keys
from server import Server, eventually
from tokens import Token, TokenFile

pytestmark = pytest.mark.plain("a browser does not know the certificate of a test")


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"), server.url)
    browser.command("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    yield browser
    browser.close()


def put(client, name, **spec):
    answer = client.call("PUT", f"/v1/schedules/{name}", json.dumps({"topic": "reports", **spec}).encode(), {"Content-Type": "application/json"})
    assert answer.status in (200, 201), answer.body
    return answer.json()


def get(client, name):
    answer = client.call("GET", f"/v1/schedules/{name}")
    return answer.json() if answer.status == 200 else None


def row(browser, name):
    return [one for one in browser.all("table.schedules tbody tr") if one.text.startswith(name)][0]  # IndexError: browser.wait tries again


def lane(browser, name):
    return [one for one in browser.all(".lanes li") if one.text.startswith(name)][0]


def ready(client, topic):
    """How many jobs are ready; 0 before the first push creates the topic."""
    reply = client.call("GET", f"/v1/topics/{topic}")
    return reply.json()["counts"]["ready"] if reply.ok else 0


def set_time(browser, path, value):
    """The value of a field for date and time, and the event of a person who typed it."""
    browser.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", browser.find(path), value)


# ---- the list and the calendar ----


def test_the_list_shows_plan_next_fire_and_result(browser, client):
    put(client, "hourly", cron="0 * * * *", zone="Europe/Berlin", topic="reports")
    put(client, "poll", every="1s", topic="poll")
    put(client, "yearly", cron="0 0 1 1 *", topic="reports", owner="shop")
    browser.open("#/schedules", is_new=True)
    browser.wait(lambda: re.search(r"0 \* \* \* \*\s+Europe/Berlin", row(browser, "hourly").text), "the plan with its zone")
    assert "every 1s" in row(browser, "poll").text and "in " in row(browser, "hourly").text
    browser.wait(lambda: get(client, "poll")["totals"]["fired"], "a fire")
    browser.press("Refresh")
    browser.wait(lambda: "fired" in row(browser, "poll").text, "the result of the last fire")
    browser.type("Of the owner", "shop")
    browser.press("Search")
    browser.wait(lambda: [one.text for one in browser.all("table.schedules tbody th")] == ["yearly"], "one found")
    assert "owner=shop" in browser.driver.current_url
    browser.type("Of the owner", "nobody-has-it")
    browser.press("Search")
    browser.sees("No schedule matches")
    client.call("DELETE", "/v1/schedules/poll")


def test_the_calendar_shows_the_fires_of_a_day(browser, client):
    put(client, "hourly", cron="0 * * * *", zone="Europe/Berlin")
    put(client, "minutely", cron="* * * * *")
    put(client, "held", every="6h", paused=True)
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3)).strftime("%M %H %d %m *")
    put(client, "later", cron=later)
    browser.open("#/schedules", is_new=True)
    browser.wait(lambda: "24 fires" in lane(browser, "hourly").text, "one mark for each hour")
    assert len(browser.all(".mark", lane(browser, "hourly"))) == 24
    assert "at least 300 fires" in lane(browser, "minutely").text and len(browser.all(".mark", lane(browser, "minutely"))) == 1
    assert "4 fires" in lane(browser, "held").text and "paused" in lane(browser, "held").text
    picture = browser.find("svg.lane", lane(browser, "hourly"))
    assert picture.get_attribute("aria-label").startswith("hourly: 24 fires")
    assert not [one for one in browser.all(".lanes li") if one.text.startswith("later")], "a fire after 24 hours is not drawn"
    for name in ("minutely", "held", "later"):
        client.call("DELETE", f"/v1/schedules/{name}")


# ---- the form ----


def test_the_preview_shows_the_effect_of_daylight_saving(browser):
    browser.open("#/schedules", is_new=True)
    browser.press("New schedule")
    dialog = browser.dialog()
    assert browser.field("Time zone").get_attribute("value") == "Europe/Berlin", "the browser's zone is offered"
    browser.type("cron expression", "30 2 * * *", dialog)
    fires = lambda: [one.text for one in browser.all(".preview .fires li")]  # noqa: E731
    browser.wait(lambda: len(fires()) == 6 and all("02:30:00" in one for one in fires()), "six fires")
    set_time(browser, "#preview-from", "2026-03-28T00:00")
    browser.wait(lambda: any("2026-03-29 03:00:00 +02:00" in one and "moved: 02:30:00 does not exist" in one for one in fires()), "the fire in the gap")
    set_time(browser, "#preview-from", "2026-10-24T00:00")
    browser.wait(lambda: any("2026-10-25 02:30:00 +02:00" in one and "occurs twice; this is the first" in one for one in fires()), "the fire in the fold")
    browser.press("Exceptions*", dialog)
    browser.type("Fixed times that occur twice when clocks go back", "both", dialog)
    browser.wait(lambda: any("2026-10-25 02:30:00 +01:00" in one and "this is the second" in one for one in fires()), "both of them")
    browser.type("cron expression", "61 2 * * *", dialog)
    browser.wait(lambda: "61" in browser.find(".preview .form-error").text, "the mistake, named")
    browser.type("cron expression", "0 0 31 2 *", dialog)
    browser.wait(lambda: "never" in browser.find(".preview .form-error").text, "that it never fires")


def test_a_schedule_is_made_and_changed(browser, client):
    browser.open("#/schedules", is_new=True)
    browser.press("New schedule")
    dialog = browser.dialog()
    browser.type("Name", "nightly", dialog)
    browser.type("Topic", "reports", dialog)
    browser.type("cron expression", "0 2 * * *", dialog)
    browser.press("Exceptions*", dialog)
    browser.type("Does not fire on", "2026-12-24", dialog)
    browser.type("If the job of an earlier fire is unfinished", "skip: no fire while a job is unfinished", dialog)
    browser.press("Body*", dialog)
    browser.type("Body", '{"kind": "daily"}', dialog)
    browser.type("max_attempts", "3", dialog)
    browser.press("Save", dialog)
    browser.wait(lambda: "#/schedules/nightly" in browser.driver.current_url, "its page")
    assert get(client, "nightly")["spec"] == {"topic": "reports", "cron": "0 2 * * *", "zone": "Europe/Berlin", "except": "2026-12-24", "overlap": "skip",
                                              "body": {"kind": "daily"}, "max_attempts": 3} or get(client, "nightly")["spec"]["except"] == ["2026-12-24"]
    for text in ("Next fires", "Last ten fires", "has not fired yet", "02:00:00", '"kind": "daily"'):
        browser.sees(text)
    browser.press("Edit*")
    dialog = browser.dialog()
    browser.type("Fires by", "interval", dialog)
    browser.type("interval", "45m", dialog)
    browser.press("Save", dialog)
    browser.sees("nightly changed")
    spec = get(client, "nightly")["spec"]
    assert spec["every"] == "45m" and "cron" not in spec and spec["max_attempts"] == 3 and spec["body"] == {"kind": "daily"}, "other members stay"
    browser.sees("every 45m")
    browser.press("Edit*")
    browser.press("Save", browser.dialog)
    browser.sees("nightly did not change")


def test_a_rejected_schedule_shows_the_reason_and_changes_nothing(browser, client):
    browser.open("#/schedules", is_new=True)
    browser.press("New schedule")
    dialog = browser.dialog()
    browser.type("Name", "bad", dialog)
    browser.type("Topic", "reports", dialog)
    browser.type("Time zone", "Europe/Bärlin", dialog)
    browser.press("Save", dialog)
    browser.wait(lambda: "zone" in browser.find("dialog form > .form-error").text, "the reason")
    assert get(client, "bad") is None


# ---- one schedule ----


def test_the_history_shows_fires_and_the_reasons_of_skips(browser, client):
    put(client, "busy", every="1s", overlap="skip", topic="busy")
    browser.wait(lambda: get(client, "busy")["totals"]["skipped"]["overlap"], "a skipped fire")
    browser.open("#/schedules/busy", is_new=True)
    browser.sees("the job of an earlier fire was unfinished")
    browser.press("Pause*")
    browser.press("Pause", browser.dialog)
    browser.sees("busy is paused")
    browser.sees("the schedule was paused", 30)
    browser.sees("these fires will be skipped")
    browser.wait(lambda: len(browser.all(".history li")) == 10, "ten fires", 30)
    client.call("DELETE", "/v1/schedules/busy")


def test_a_fire_leads_to_its_job(browser, client):
    put(client, "once", every="1s", count=1, topic="once", body="hello")
    browser.wait(lambda: get(client, "once")["totals"]["fired"] == 1, "the fire")
    browser.open("#/schedules/once", is_new=True)
    job = browser.wait(lambda: browser.find(".history a").text, "the job")
    browser.press(job)
    browser.sees("hello")
    assert "#/topics/once/jobs/" in browser.driver.current_url
    browser.open("#/schedules/once")
    browser.sees("No more fires")
    client.call("DELETE", "/v1/schedules/once")


def test_run_pause_resume_backfill_and_delete(browser, client):
    put(client, "acts", cron="0 3 * * *", topic="acts")
    browser.open("#/schedules/acts", is_new=True)
    browser.press("Run now")
    eventually(lambda: ready(client, "acts") == 1, 20)
    browser.press("Pause*")
    browser.type("Pause for", "1h", browser.dialog())
    browser.press("Pause", browser.dialog)
    eventually(lambda: get(client, "acts")["paused_until"], 20)
    browser.press("Resume")
    eventually(lambda: not get(client, "acts")["paused"], 20)
    browser.press("Backfill*")
    dialog = browser.dialog()
    set_time(browser, "#backfill-from", "2026-11-01T00:00")
    set_time(browser, "#backfill-to", "2026-11-04T00:00")
    browser.type("One job per", "10ms", dialog)
    browser.press("Push the jobs", dialog)
    browser.sees("3 jobs pushed")
    eventually(lambda: ready(client, "acts") == 4, 20)
    browser.more("Delete*")
    browser.keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")
    assert get(client, "acts"), "Escape deletes nothing"
    browser.more("Delete*")
    browser.press("Delete the schedule", browser.dialog)
    eventually(lambda: get(client, "acts") is None, 20)
    browser.wait(lambda: browser.driver.current_url.endswith("#/schedules"), "the list")
    assert ready(client, "acts") == 4, "its jobs stay"


def test_a_schedule_that_does_not_exist_is_reported(browser):
    browser.open("#/schedules/none", is_new=True)
    browser.sees("there is no schedule 'none'")


# ---- for everybody ----


def test_hostile_texts_of_a_schedule_run_nothing(browser, client):
    name = "<img/src=x/onerror=window.P=1>"
    text = "<script>window.P=1</script>\u202e"
    escaped = "".join(char if char.isalnum() else "%" + format(ord(char), "02X") for char in name)
    put(client, escaped, every="1h", note=text, owner=text[:40], body=text, meta={"note": text}, topic="reports")
    for place in ("#/schedules", f"#/schedules/{escaped}"):
        browser.open(place, is_new=True)
        browser.sees(name)
        browser.unharmed()
    browser.press("Edit*")
    browser.dialog()
    browser.unharmed()
    client.call("DELETE", f"/v1/schedules/{escaped}")


@pytest.mark.parametrize("size, is_dark", [(DESK, False), (PHONE, True)])
def test_the_pages_fit_and_nothing_serious_keeps_people_out(browser, client, size, is_dark):
    put(client, "hourly", cron="0 * * * *", zone="Europe/Berlin", body={"a": 1}, note="every hour")
    put(client, "a-schedule-with-a-long-name-that-has-no-blank-and-fits-nowhere", every="15m", paused=True, topic="a.topic.with.a.long.name/that/has/no/blank")
    source, found = axe_text(), {}
    browser.size(size, is_dark)
    try:
        for place, words in (("#/schedules", None), ("#/schedules/hourly", None), ("#/schedules/hourly", "Edit*"), ("#/schedules/hourly", "Pause*"), ("#/schedules/hourly", "Backfill*")):
            browser.open(place, is_new=True)
            browser.wait(lambda: browser.all(".lanes li") or browser.all(".fires li"), "its content")
            if words:
                browser.press(words)
                browser.dialog()
                browser.wait(lambda: words != "Edit*" or browser.all(".preview .fires li"), "the preview")  # noqa: B023
            if faults := browser.axe(source):
                found[f"{place} {words}"] = faults
            width = browser.script("const d = document.querySelector('dialog[open]') ?? document.documentElement; return [d.scrollWidth, d.clientWidth, document.documentElement.scrollWidth, window.innerWidth]")
            assert width[0] <= width[1] and width[2] <= width[3], (place, words, width)
            browser.picture(f"{place.replace('#/', '').replace('/', '-')}-{(words or 'page').strip('*')}-{'phone' if size == PHONE else 'desk'}")
    finally:
        browser.size(DESK)
    assert not found, json.dumps(found, indent=1)


def test_a_schedule_is_made_with_only_the_keyboard(browser, client):
    browser.open("#/schedules", is_new=True)
    browser.script("document.activeElement.blur()")

    def reach(words):
        for _ in range(80):
            browser.keys(Keys.TAB)
            if browser.script("const a = document.activeElement; return document.querySelector(`label[for='${a.id}']`)?.textContent || a.textContent.trim()").startswith(words):
                return
        raise AssertionError(f"'{words}' is not reached by Tab")

    reach("New schedule")
    browser.keys(Keys.ENTER)
    browser.dialog()
    assert browser.script("return document.activeElement.id") == "schedule-name", "the first field has the focus"
    browser.keys("typed", Keys.TAB, "reports")
    reach("Fires by")
    browser.keys("int")
    reach("interval")
    browser.keys(Keys.CONTROL + "a", "7m", Keys.ENTER)
    browser.wait(lambda: get(client, "typed"), "the schedule")
    assert get(client, "typed")["spec"]["every"] == "7m"
    browser.wait(lambda: "#/schedules/typed" in browser.driver.current_url and browser.script("return document.activeElement.tagName") == "H1", "the focus on its page")
    reach("More")
    browser.keys(Keys.ENTER)
    reach("Delete")
    browser.keys(Keys.ENTER)
    browser.dialog()
    browser.keys(Keys.ESCAPE)
    browser.wait(lambda: browser.script("return document.activeElement.textContent") == "More", "the focus back")


def test_schedules_speak_chinese(browser, client):
    put(client, "hourly", cron="0 * * * *", zone="Europe/Berlin")
    browser.open("#/schedules", is_new=True)
    browser.type("Language", "中文")
    browser.sees("未来 24 小时")
    english = r"\b(?:Schedules|Next|Last|Plan|fires|Pause|Delete|Edit|Run|Missed|moved|Specification)\b"
    for place in ("#/schedules", "#/schedules/hourly"):
        browser.open(place)
        assert not re.findall(english, browser.text()), place
    browser.press("编辑…")
    browser.type("cron 表达式", "30 2 * * *", browser.dialog())
    set_time(browser, "#preview-from", "2026-03-28T00:00")
    browser.sees("已移动：当天不存在 02:30:00")
    browser.press("例外*", browser.dialog)
    browser.press("每个作业*", browser.dialog)
    assert not re.findall(english, browser.dialog().text)
    browser.keys(Keys.ESCAPE)
    browser.type("语言", "English")
    browser.sees("Schedules")


def test_a_reader_sees_why_the_buttons_are_disabled(tmp_path, tmp_path_factory):
    reader, writer = Token("reader", ["read"]), Token("writer", ["push", "read"])
    TokenFile(tmp_path / "tokens", reader, writer)
    server = Server(tmp_path / "server", [*FLAGS, "--tokens", tmp_path / "tokens"]).start()
    browser = Browser(tmp_path_factory.mktemp("who"), server.url)
    try:
        server.client().call("PUT", "/v1/schedules/shown", b'{"topic":"t","every":"1h"}', {"Content-Type": "application/json", "Authorization": f"Bearer {writer.secret}"})
        browser.driver.get(f"{server.url}/console/#/schedules/shown")
        browser.type("Token", reader.secret, browser.dialog())
        browser.press("Log in", browser.dialog)
        browser.sees("Next fires")
        browser.press("More")
        for words in ("Run now", "Pause*", "Backfill*", "Edit*", "Delete*"):
            button = browser.button(words)
            assert button.get_attribute("aria-disabled") == "true" and "lacks the scope" in button.get_attribute("title")
        browser.unharmed()
    finally:
        browser.close()
        assert server.terminate() == 0


def test_a_page_that_is_open_follows_the_schedule(browser, client):
    put(client, "moving", every="2s", topic="moving")
    browser.open("#/schedules/moving", is_new=True)
    first = browser.wait(lambda: browser.find(".fires .fire-local").text, "a fire")
    browser.wait(lambda: browser.find(".fires .fire-local").text != first, "the next one, without loading anything", 30)
    client.call("DELETE", "/v1/schedules/moving")
