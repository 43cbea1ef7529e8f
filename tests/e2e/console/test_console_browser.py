"""
The console in a real Chromium: every action is done as a person does it, and the server is asked whether it was; hostile texts run no script
and break no page; nothing keeps people out; no request leaves the server.
"""

import json
import re
import shutil
import subprocess
import time

import pytest
from browser import DESK, PHONE, Browser, axe_text, browser, client, no_harm  # pylint: disable=unused-import
from conftest import FLAGS
from delivery import settle
from endpoint import Endpoint, write_policy
from fake_clock import FakeClock, fake_time_library
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from server import REPO, Server, eventually
from tokens import Token, TokenFile

pytestmark = pytest.mark.plain("a browser does not know the certificate of a test")


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint() as one:
        yield one


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("console")
    write_policy(directory / "policy")
    server = Server(directory, [*FLAGS, "--deliver", directory / "policy", "--trace-url", "https://jaeger.example/trace/{trace_id}"]).start()
    yield server
    assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-3000:]
    shutil.rmtree(server.data, ignore_errors=True)


def fail(client, topic, ident, error, final=True, body=b"x", content_type="text/plain", **options):
    """The job has one more failed attempt."""
    client.push(topic, ident, body, content_type, **options)
    job = next(job for job in client.take(topic, max=100, wait="5s") if job["id"] == ident)
    client.nack(job["lease"], error=error, final=str(final).lower())


# ---- the first page ----


def test_the_first_page_is_live(browser, client):
    browser.open("#/", is_new=True)
    client.push("fresh", "one", delay="1h")
    browser.sees("fresh")
    row = lambda: next(one.text for one in browser.all("table.topics tbody tr") if one.text.startswith("fresh"))  # noqa: E731
    browser.wait(lambda: re.search(r"fresh\s+1\b", row()), "one delayed job")
    client.push_batch([{"topic": "fresh", "body": "x", "delay": "2h"} for _ in range(4)])
    browser.wait(lambda: re.search(r"fresh\s+5\b", row()), "five of them, without loading anything")
    assert browser.find("#status-sentence").text and browser.find("#live").text == "Live"


def test_the_first_view_is_small_and_quick(browser):
    browser.open("#/", is_new=True)
    browser.wait(lambda: browser.find("#status").get_attribute("data-well") != "unknown", "the first snapshot")
    entries = browser.script("""return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
        .filter((one) => one.name.includes('/console/')).map((one) => [one.name, one.transferSize || 0, one.responseEnd])""")
    loaded = browser.script("return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    print(f"first view: {sum(size for _, size, _ in entries)} bytes in {len(entries)} files, ready after {loaded:.0f} ms")
    assert 10 < len(entries) and 0 < sum(size for _, size, _ in entries) <= 100_000


def test_the_overview_shows_problems_and_remedies(browser, client):
    fail(client, "bills", "b1", "http 410 gone")
    browser.open("#/", is_new=True)
    browser.wait(lambda: browser.find("#status").get_attribute("data-well") == "warning", "a warning")
    problem = browser.wait(lambda: browser.find('[data-code="dead"]'), "the problem")
    assert "bills" in problem.text or "dead" in problem.text
    browser.sees("http 410 gone")
    browser.press("Runbook", lambda: browser.find('[data-code="dead"]'))
    browser.wait(lambda: browser.all(".runbook h1") and browser.all(".runbook pre"), "the runbook as a page")
    assert browser.driver.current_url.endswith("#/runbooks/dead?topic=bills")


def test_the_commands_of_a_runbook_name_the_topic_of_the_problem(browser):
    browser.open("#/runbooks/dead?topic=orders.eu", is_new=True)
    browser.sees("tarry list orders.eu --state dead")
    browser.sees("/v1/topics/orders.eu/dead-errors")
    assert "bills" not in "".join(one.text for one in browser.all(".runbook pre") if "tarry redrive" in one.text)
    browser.open("#/runbooks/stuck?topic=orders.eu")
    browser.sees("tarry consumers orders.eu")
    browser.open("#/runbooks/stuck?topic=$(reboot)/x")
    browser.sees("tarry consumers '$(reboot)/x'")
    browser.open("#/runbooks/stuck")
    browser.sees("tarry consumers TOPIC")


def test_a_problem_of_a_target_is_named_so_in_chinese(browser):
    browser.open("#/", is_new=True)
    browser.type("Language", "中文")

    def sentence(code, words):
        problem = {"code": code, "severity": "critical", "topic": "hooks", "value": 90_000, "limit": 60_000, "sentence": words}
        return browser.driver.execute_async_script("const [problem, done] = arguments; import('/console/state.js').then((m) => done(m.sentenceOf(problem)), (e) => done(String(e)))", problem)

    try:
        assert "目标" in sentence("stuck", "the ready jobs of 'hooks' do not reach its target: the oldest was due 2 min ago")
        assert "目标" in sentence("late", "the target of 'hooks' is too slow or fails: its oldest ready job was due 2 min ago")
        assert "无人处理" in sentence("stuck", "no worker takes the ready jobs of 'hooks': the oldest was due 2 min ago")
    finally:
        browser.type("语言", "English")


def test_a_range_of_the_curves_shows_the_day_that_the_server_keeps(tmp_path, tmp_path_factory):
    clock = FakeClock(tmp_path / "clock")
    server = Server(tmp_path / "server", FLAGS, clock.env(fake_time_library(tmp_path))).start()
    client = server.client()
    browser = Browser(tmp_path_factory.mktemp("range"), server.url)
    history = lambda **options: client.call("GET", "/v1/history?" + "&".join(f"{name}={value}" for name, value in options.items())).json()  # noqa: E731
    points = lambda **options: [point for point in history(**options)["points"] if point]  # noqa: E731
    try:
        for n in range(6):
            for _ in range(60 if n == 3 else 6):
                client.push("paced", delay="0")
            client.call("GET", "/v1/status")
            clock.sleep(600)
            client.call("GET", "/v1/status")
        figures = history(topic="paced")["figures"]
        ready = [point[figures.index("ready")] for point in points(topic="paced")]
        assert len(ready) >= 5 and ready == sorted(ready) and max(ready) == 6 * 5 + 60, ready
        pushed = [rate for point in points(topic="paced") if (rate := point[figures.index("pushed_per_s")])]  # a minute may begin while nothing is pushed
        assert len(pushed) >= 5 and max(pushed) > 5 * min(pushed), pushed
        assert points() and len(history()["points"]) == 1440 and len(history(**{"for": "1h"})["points"]) == 60
        assert client.call("GET", "/v1/history?for=25h").code == "bad_option"
        before = points(topic="paced")
        server.terminate()
        server.start(port=server.port)
        client = server.client()
        assert [point for point in points(topic="paced")][:len(before)] == before, "kept over a restart"
        browser.open("#/", is_new=True)
        browser.wait(lambda: browser.find("#live").text == "Live", "life")
        for name in ("24 hours", "6 hours"):
            browser.press(name)
            browser.wait(lambda: "peak" in browser.find(".tile-in").text and "over " + name in browser.find(".tile-in svg").get_attribute("aria-label"), name)  # noqa: B023
        assert not browser.axe(axe_text())
        browser.picture("range-desk")
        browser.open("#/topics/paced")
        browser.wait(lambda: browser.find(".tile-oldest path.line-0").get_attribute("d").count("L") >= 5, "ten minutes, which began before the page was opened")
        browser.size(PHONE)
        browser.press("24 hours")
        browser.wait(lambda: "peak" in browser.find(".tile-in").text, "the curve of a day")
        browser.picture("range-phone")
        browser.type("Language", "中文")
        browser.press("1 小时")
        browser.unharmed()
    finally:
        browser.close()
        assert server.terminate() == 0


def test_problems_are_grouped_and_collapsed_after_three_kinds_and_silenced_with_a_note(tmp_path, tmp_path_factory):
    server = Server(tmp_path / "server", FLAGS).start()
    client = server.client()
    browser = Browser(tmp_path_factory.mktemp("silence"), server.url)
    try:
        for n in range(12):
            fail(client, f"dead.{n:02}", "x", "no")
        client.put_topic("full.1", max_jobs=1)
        client.push("full.1", "a", delay="1h")
        browser.open("#/", is_new=True)
        group = browser.wait(lambda: browser.find('.status li[data-code="dead"] details'), "the group")
        assert "10 topics have dead jobs" in group.text and "dead.00" not in group.text and "and 2 more" in browser.find("#status").text
        browser.size(PHONE)
        assert browser.find("#status").size["height"] < 300, "the figures stay in view on a phone"
        browser.picture("problems-phone")
        browser.size(DESK)
        browser.press("10 topics*", lambda: browser.find("#status"))
        inside = lambda: browser.all('.status li[data-code="dead"] li')  # noqa: E731
        topic = browser.wait(lambda: re.search(r"dead\.\d\d", inside()[3].text)[0], "a problem of the group")
        browser.press("Silence*", lambda: [one for one in inside() if topic in one.text][0])
        browser.press("Silence", browser.dialog)
        eventually(lambda: [(one["code"], one["topic"]) for one in client.call("GET", "/v1/silences").json()["silences"]] == [("dead", topic)], 20)
        browser.wait(lambda: (texts := [one.text for one in inside()]) and all(texts) and topic not in " ".join(texts), "the others of the group, still open")
        client.good("DELETE", f"/v1/silences/dead?topic={topic}")
        browser.wait(lambda: "silenced problem" not in browser.text(), "the end of the silence")
        browser.press("Silence*", lambda: next(one for one in browser.all('.status li[data-code="full"]') if "full.1" in one.text))
        assert not browser.axe(axe_text())
        browser.type("For", "24h", browser.dialog())
        browser.type("Note", "it is meant so", browser.dialog())
        browser.press("Silence", browser.dialog)
        browser.sees("1 silenced problem")
        assert browser.find('.status li[data-code="dead"] details').get_attribute("open") is not None, "what was open stays open"
        browser.press("1 silenced problem")
        browser.sees("it is meant so")
        server.terminate()
        server.start(port=server.port)
        client = server.client()
        (silence,) = client.call("GET", "/v1/silences").json()["silences"]
        assert (silence["code"], silence["topic"], silence["note"]) == ("full", "full.1", "it is meant so"), "kept over a restart"
        browser.open("#/", is_new=True)
        browser.type("Language", "中文")
        browser.press("1 个已静默的问题")
        browser.press("结束静默")
        eventually(lambda: client.call("GET", "/v1/silences").json()["silences"] == [], 20)
        browser.type("语言", "English")
        assert 'action="problem silenced"' in server.log() and "detail=\"full for 1d: it is meant so\"" in server.log() and 'action="silence removed"' in server.log()
        browser.unharmed()
    finally:
        browser.close()
        assert server.terminate() == 0


def test_kinds_of_problems_after_the_third_are_folded(browser):
    browser.open("#/", is_new=True)
    problems = [{"code": code, "severity": "warning", "sentence": f"the {code}"} for code in ("memory", "disk", "clock", "certificate", "background")]
    fault = browser.driver.execute_async_script("""const [problems, done] = arguments; import('/console/problems.js').then(({ statusBox }) => {
        const box = statusBox();
        box.node.id = 'kinds';
        document.querySelector('main').append(box.node);
        box.update({ well: false, sentence: '', problems });
        const few = statusBox();
        few.node.id = 'few';
        document.querySelector('main').append(few.node);
        few.update({ well: false, sentence: '', problems: ['orders', 'bills'].map((topic) => ({ code: 'stuck', severity: 'critical', topic, sentence: topic })) });
        done('');
    }, (fault) => done(String(fault)))""", problems)
    assert not fault, fault
    box = lambda: browser.find("#kinds")  # noqa: E731
    codes = lambda: [one.get_attribute("data-code") for one in browser.all("li[data-code]", box())]  # noqa: E731
    assert codes() == ["memory", "disk", "clock"]
    assert browser.find("#few summary").text == "2 topics have ready jobs that are not taken: orders, bills", "few topics are named"
    browser.press("Show 2 more kinds of problems", box)
    browser.wait(lambda: codes() == [one["code"] for one in problems], "all kinds")
    assert browser.script("return document.activeElement.textContent") == "Show fewer"
    browser.press("Show fewer", box)
    browser.wait(lambda: len(codes()) == 3, "three kinds again")


def test_the_coming_load_is_drawn(browser, client):
    client.push_batch([{"topic": "load", "body": "x", "delay": f"{20 * n + 60}s"} for n in range(30)])
    browser.open("#/topics/load", is_new=True)
    browser.sees("Upcoming load")
    browser.sees("within a minute")
    browser.wait(lambda: sum(1 for one in browser.all("svg rect") if float(one.get_attribute("height") or 0) > 0) > 3, "bars")
    browser.open("#/")
    browser.press("Week")
    browser.sees("Upcoming load")


def test_a_page_that_is_hidden_holds_no_stream(browser, client):
    open_streams = lambda: int(re.search(r"^tarry_http_streams (\d+)", client.call("GET", "/metrics").body.decode(), re.MULTILINE)[1])  # noqa: E731
    browser.open("#/", is_new=True)
    eventually(lambda: open_streams() == 1, 20)
    mine = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    browser.driver.get("about:blank")
    eventually(lambda: open_streams() == 0, 20)
    browser.driver.close()
    browser.driver.switch_to.window(mine)
    eventually(lambda: open_streams() == 1, 20)
    for place in ("#/topics/fresh", "#/server", "#/"):
        browser.open(place)
    eventually(lambda: open_streams() == 1, 20)


def test_a_lost_connection_is_shown_and_restored(browser, server):
    browser.open("#/", is_new=True)
    browser.wait(lambda: browser.find("#live").text == "Live", "life")
    port = server.port
    server.terminate()
    browser.wait(lambda: browser.find("#live").text.startswith("Not connected"), "that it is not connected")
    server.start(port=port)
    browser.wait(lambda: browser.find("#live").text == "Live", "life again", 40)


# ---- one topic ----


def test_a_topic_is_made_and_its_settings_changed(browser, client):
    browser.open("#/topics", is_new=True)
    browser.press("New topic*")
    browser.wait(lambda: browser.find("#new-topic"), "the name").send_keys("made.here")
    browser.keys(Keys.ENTER)
    browser.sees("Settings")
    field = browser.wait(lambda: browser.field("Attempts"), "the field")
    assert "16" in field.get_attribute("placeholder"), "the default is shown"
    browser.type("Attempts", "5")
    browser.type("Wait between attempts", "fixed:10s")
    browser.wait(lambda: "2 changes to be saved" in browser.find(".difference").text and "Default: 16 → 5" in browser.find(".difference").text, "a preview of the difference")
    browser.press("Save")
    browser.sees("2 settings saved")
    browser.wait(lambda: "by anonymous" in browser.find("#last-change").text, "who changed them last")
    assert client.topic("made.here")["settings"] == {"dead_letter_expired": False, "max_attempts": 5, "backoff": "fixed:10s"}
    browser.type("Attempts", "")
    browser.press("Save")
    browser.sees("1 setting saved")
    assert "max_attempts" not in client.topic("made.here")["settings"]
    browser.wait(lambda: "max_attempts: 5 -> unset" in browser.find("#last-change").text, "the values before and after")
    browser.type("Jobs in flight per group", "3")
    browser.type("Order within a group", "strict")
    assert not browser.find("#settings-history").is_displayed(), "the store keeps no history"
    browser.press("Save")
    browser.wait(lambda: 'group_limit: unset -> 3; group_order: unset -> "strict"' in browser.find("#last-change").text, "the saved settings")
    assert client.topic("made.here")["settings"] == {"dead_letter_expired": False, "backoff": "fixed:10s", "group_limit": 3, "group_order": "strict"}
    browser.type("Wait between attempts", "nonsense")
    browser.press("Save")
    browser.sees("'backoff' is 'nonsense'")
    assert client.topic("made.here")["settings"]["backoff"] == "fixed:10s"


def test_a_topic_is_paused_for_a_time_and_resumed(browser, client):
    client.push("held", "one")
    browser.open("#/topics/held", is_new=True)
    browser.press("Pause*")
    browser.dialog()
    browser.press("Pause*", browser.dialog)
    eventually(lambda: client.topic("held")["paused"], 20)
    browser.press("Resume")
    eventually(lambda: not client.topic("held")["paused"], 20)


def test_purge_and_redrive_show_the_number_of_jobs(browser, client):
    for n in range(6):
        fail(client, "bin", f"d{n}", "http 410" if n < 4 else "timed out")
    client.push("bin", "later", delay="1h")
    browser.open("#/topics/bin", is_new=True)
    browser.press("Redrive*")
    browser.wait(lambda: browser.button("Redrive 6 jobs", browser.dialog()), "how many")
    browser.type("Error contains", "timed")
    browser.press("Redrive 2 jobs", browser.dialog)
    eventually(lambda: client.topic("bin")["counts"]["ready"] == 2, 20)
    browser.more("Purge*")
    browser.type("Error contains", "410")
    browser.wait(lambda: browser.button("Purge 4 jobs", browser.dialog()), "how many")
    browser.keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")
    assert client.topic("bin")["counts"]["dead"] == 4, "Escape changes nothing"
    browser.more("Purge*")
    browser.type("Which jobs", "Delayed, including jobs that wait for a retry")
    browser.press("Purge 1 job", browser.dialog)
    eventually(lambda: client.topic("bin")["counts"]["delayed"] == 0, 20)
    assert client.topic("bin")["counts"]["dead"] == 4


def test_a_topic_is_deleted_only_by_its_name(browser, client):
    client.push("doomed", "one")
    browser.open("#/topics/doomed", is_new=True)
    browser.more("Delete*")
    browser.wait(lambda: browser.find("#delete-name"), "the name").send_keys("doome")
    assert not browser.button("Delete the topic", browser.dialog()).is_enabled()
    browser.find("#delete-name").send_keys("d")
    browser.press("Delete the topic", browser.dialog)
    eventually(lambda: client.call("GET", "/v1/topics/doomed").status == 404, 20)


def test_a_target_is_set_tried_and_removed(browser, client, endpoint):
    client.put_topic("calls")
    browser.open("#/topics/calls/delivery", is_new=True)
    form = lambda: browser.find('form[data-group="deliver"]')  # noqa: E731
    browser.wait(form, "the form")
    browser.type("URL", f"{endpoint.url}/hook/{{id}}", form())
    browser.wait(lambda: f"URL: Default: none → {endpoint.url}/hook/{{id}}" in browser.find(".difference", form()).text, "a preview of the difference")
    browser.press("Save", form)
    eventually(lambda: client.topic("calls")["settings"].get("deliver", {}).get("to") == f"{endpoint.url}/hook/{{id}}", 20)
    client.good("PATCH", "/v1/topics/calls", b'{"ttl":"1h"}', {"Content-Type": "application/json"})
    browser.open("#/topics/calls/delivery", is_new=True)
    browser.wait(lambda: re.search(r"by anonymous.* deliver\.to: unset -> http://127\.0\.0\.1:\d+", browser.find("#last-change").text), "who set the target, although another setting was changed later")
    browser.press("Send a sample")
    browser.sees("200")
    assert [call for call in endpoint.calls if call.path.startswith("/hook/")]
    browser.press("Close", browser.dialog)
    endpoint.answer = lambda call: 500
    client.push_batch([{"topic": "calls", "body": "x", "backoff": "fixed:100ms"} for _ in range(30)])
    browser.sees("open: nothing is sent", 40)
    endpoint.answer = lambda call: 200
    browser.size(PHONE)
    browser.more("Remove the target", form)
    browser.press("Cancel", browser.dialog)
    browser.press("More", form)
    edges = browser.script("const box = document.querySelector('form .menu-list').getBoundingClientRect(), button = document.querySelector('form summary').getBoundingClientRect(); return [box.left, box.right, box.top - button.bottom]")
    browser.size(DESK)
    assert edges[0] >= 0 and edges[1] <= PHONE[0] and 0 <= edges[2] < 20, f"the menu is below its button on a phone: {edges}"
    browser.more("Remove the target", form)
    browser.press("Remove the target", browser.dialog)
    eventually(lambda: "deliver" not in client.topic("calls")["settings"], 20)


# ---- one job ----


def test_an_open_breaker_is_shown_with_its_topic(browser, client):
    with Endpoint() as endpoint:
        client.put_topic("fragile", backoff="fixed:1s", deliver={"to": endpoint.url + "/x"})
        browser.open("#/topics/fragile").sees("delivers")
    client.push_batch([{"topic": "fragile"}] * 10)
    browser.sees("target fails")  # without a reload
    browser.open("#/topics").sees("target fails")
    browser.open("#/topics/fragile")
    browser.sees("The server sends the jobs of this topic to its target")
    assert browser.find("#dead-title + a").get_attribute("hidden"), "there are no dead jobs to show"
    browser.press("target fails*")
    browser.sees("Endpoints")
    browser.sees("connection refused")


def test_a_test_job_is_pushed_looked_at_moved_run_and_cancelled(browser, client):
    client.put_topic("try")
    browser.open("#/topics/try", is_new=True)
    browser.press("Push a job*")
    browser.type("Id", "test/1?#&%", browser.dialog())
    browser.type("Due", "after a delay", browser.dialog())
    browser.press("Add a pair", browser.dialog)
    name, value = browser.all(".pair input", browser.dialog())[:2]
    name.send_keys("customer")
    value.send_keys("Žofie 李")
    browser.press("Push", browser.dialog)
    eventually(lambda: client.call("GET", "/v1/topics/try/jobs/test%2F1%3F%23%26%25").status == 200, 20)
    job = client.call("GET", "/v1/topics/try/jobs/test%2F1%3F%23%26%25").json()
    assert job["state"] == "delayed" and job["meta"] == {"customer": "Žofie 李"} and job["body"] == {"test": True}
    browser.sees("What happens next")
    browser.sees("test/1?#&%")
    browser.press("Reschedule*")
    browser.type("after a delay", "2h", browser.dialog())
    before = job["due_at"]
    browser.press("Reschedule", browser.dialog)
    eventually(lambda: client.call("GET", "/v1/topics/try/jobs/test%2F1%3F%23%26%25").json()["due_at"] > before, 20)
    browser.press("Run now")
    eventually(lambda: client.topic("try")["counts"]["ready"] == 1, 20)
    browser.more("Cancel the job*")
    browser.press("Cancel the job", browser.dialog)
    eventually(lambda: client.topic("try")["totals"]["cancelled"] == 1, 20)


def test_the_holder_of_a_job_is_shown_and_gets_a_cancel_request(browser, client):
    client.push("held", "one", b"x", "text/plain")
    (job,) = client.take("held", consumer="worker <b>1</b>", lease_for="1h")
    browser.open("#/topics/held/jobs/one", is_new=True)
    browser.sees("worker <b>1</b>")
    browser.more("Cancel the job*")
    browser.press("Request the cancel", browser.dialog)
    browser.sees("A cancel was requested", 20)
    assert client.call("GET", "/v1/topics/held/jobs/one").json()["cancel_requested"] is True
    assert client.nack(job["lease"])[0]["result"] == "cancelled"


def group_row(browser, group):
    return browser.wait(lambda: next((one for one in browser.all("table.groups tbody tr") if one.get_attribute("data-group") == group), None), group)


def press_in_row(browser, group, words):
    """The row may be drawn again while it is looked at."""
    browser.wait(lambda: browser.button(words, group_row(browser, group)).click() or True, f"'{words}' of {group}")


def group_says(browser, group, pattern):
    browser.wait(lambda: re.search(pattern, " ".join(group_row(browser, group).text.split())), f"{group}: {pattern}")


def test_groups_are_listed_sorted_searched_and_changed(browser, client):
    client.good("PUT", "/v1/topics/tenants?group_limit=1")
    for group, count in (("shop-7", 3), ("shop-8", 5), ("shop-9", 1)):
        for n in range(count):
            client.push("tenants", f"{group}-{n}", group=group)
    client.push("tenants", "lonely")
    eventually(lambda: client.topic("tenants")["counts"]["ready"] == 10, 10)
    jobs = client.take("tenants", max=10, lease_for="1h")
    browser.open("#/topics/tenants/groups", is_new=True)
    group_says(browser, "shop-8", r"^shop-8 4 1 the group has 1 of 1 jobs in flight")
    order = lambda: [one.get_attribute("data-group") for one in browser.all("table.groups tbody tr")]  # noqa: E731
    assert order()[:2] == ["shop-8", "shop-7"]
    browser.type("Order", "By name")
    browser.wait(lambda: order() == ["", "shop-7", "shop-8", "shop-9"], "by name, the jobs without a group first")
    browser.type("Order", "Only held groups")
    browser.wait(lambda: order() == ["shop-7", "shop-8"], "only groups with jobs that wait")
    press_in_row(browser, "shop-7", "Settings*")
    browser.type("Weight", "101", browser.dialog())
    browser.press("Save", browser.dialog())
    browser.wait(lambda: "from 1 to 100" in browser.dialog().text, "the reason why not")
    browser.type("Weight", "5", browser.dialog())
    browser.type("Jobs in flight", "3", browser.dialog())
    browser.press("Save", browser.dialog())
    browser.wait(lambda: client.good("GET", "/v1/topics/tenants/groups/shop-7")["settings"] == {"weight": 5, "limit": 3}, "the settings")
    browser.wait(lambda: order() == ["shop-8"], "it is not held any more")
    press_in_row(browser, "shop-8", "Pause*")
    browser.type("Pause for", "1h", browser.dialog())
    browser.press("Pause", browser.dialog())
    group_says(browser, "shop-8", r"paused.*the group is paused, until")
    shown = client.good("GET", "/v1/topics/tenants/groups/shop-8")["settings"]
    assert shown["paused"] is True and shown["paused_until"]
    waiting = next(job["id"] for job in client.good("GET", "/v1/topics/tenants/jobs?state=ready")["jobs"] if job.get("group") == "shop-8")
    browser.open(f"#/topics/tenants/jobs/{waiting}")
    browser.sees("Held: the group is paused, until")
    browser.press("shop-8")
    group_says(browser, "shop-8", "the group is paused")
    assert order() == ["shop-8"], "the search has the name of the group"
    press_in_row(browser, "shop-8", "Resume*")
    group_says(browser, "shop-8", "the group has 1 of 1 jobs in flight")
    browser.open(f"#/topics/tenants/jobs/{waiting}")
    browser.sees("Held: the group has 1 of 1 jobs in flight")
    browser.open("#/topics/tenants/groups")
    browser.type("Name of a group", "shop-7")
    browser.press("Search")
    browser.wait(lambda: order() == ["shop-7"], "only the one that was searched for")
    press_in_row(browser, "shop-7", "Reset*")
    browser.press("Reset", browser.dialog())
    browser.wait(lambda: client.good("GET", "/v1/topics/tenants/groups/shop-7")["settings"] == {}, "no settings")
    for job in jobs:
        client.ack(job["lease"])


def test_groups_are_changed_by_keyboard_on_a_phone(browser, client):
    client.push("phones", "a", group="shop-1")
    client.push("phones", "b", group="a-name-of-sixty-four-characters-without-blanks-" + "x" * 17)
    browser.size(PHONE)
    try:
        browser.open("#/topics/phones/groups", is_new=True)
        group_row(browser, "shop-1")
        width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1]
        assert not browser.axe(axe_text())
        browser.find("#groups-name").send_keys("shop-1", Keys.ENTER)
        browser.wait(lambda: len(browser.all("table.groups tbody tr")) == 1, "one group")
        for _ in range(10):
            browser.keys(Keys.TAB)
            if browser.script("return document.activeElement.getAttribute('aria-label')") == "Pause shop-1\u2026":
                break
        browser.keys(Keys.ENTER)
        assert not browser.axe(axe_text())
        browser.keys(Keys.ENTER, Keys.ENTER) if browser.script("return document.activeElement.tagName") == "BUTTON" else browser.press("Pause", browser.dialog())
        browser.wait(lambda: client.good("GET", "/v1/topics/phones/groups/shop-1")["settings"].get("paused"), "the pause")
        browser.wait(lambda: browser.script("return document.activeElement.getAttribute('aria-label')") == "Resume shop-1", "the focus is in the same row")
        browser.keys(Keys.ENTER)
        browser.wait(lambda: not client.good("GET", "/v1/topics/phones/groups/shop-1")["settings"], "no pause")
    finally:
        browser.size(DESK)


def test_consumers_and_holders_are_shown(browser, client, server):
    client.put_topic("awaited.by")
    taker = server.connection()
    taker.send(b"POST /v1/take?topic=awaited.by&wait=60s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    eventually(lambda: client.call("GET", "/v1/topics/awaited.by/consumers").json()["waiting"] == 1)
    browser.open("#/topics/awaited.by", is_new=True)
    browser.sees("1 take waits for jobs, 1 without a consumer\u2019s name")
    taker.close()
    client.push_batch([{"topic": "held.by", "id": f"h{n}", "body": "x"} for n in range(3)])
    client.take("held.by", consumer="worker-7", max=2, lease_for="1h")
    client.take("held.by", lease_for="2h")
    client.push("held.by", "open")
    browser.open("#/topics/held.by")
    browser.wait(lambda: re.search(r"worker-7\s+2\s+2\s", browser.find("table.consumers").text), "the consumer and its jobs")
    browser.sees("1 job is held by consumers without a name")
    browser.open("#/topics/held.by/jobs?state=leased")
    browser.wait(lambda: len(browser.all("table.jobs tbody th")) == 3, "three leased jobs")
    assert {"Lease ends", "Held by"} <= {one.text for one in browser.all("table.jobs thead th")}
    cells = {row.find_element("css selector", "th").text: row.text for row in browser.all("table.jobs tbody tr")}
    assert sum("worker-7" in text and "in 59m" in text for text in cells.values()) == 2
    assert sum("a consumer without a name" in text and "in 1h 59m" in text for text in cells.values()) == 1
    browser.open("#/topics/held.by/jobs")
    browser.sees("Held by worker-7, lease ends in 59m")
    browser.press("ready*", lambda: browser.find(".states-choice"))
    browser.wait(lambda: [one.text for one in browser.all("table.jobs tbody th")] == ["open"], "the ready one")
    assert "Held by" not in [one.text for one in browser.all("table.jobs thead th")]


def test_figures_have_their_units_and_numbers_their_plurals(browser, client):
    client.push("figures", "f1", backoff="exp:1s..10m", delay="3h")
    client.push("figures", "f2", backoff="exp:1s..10m")
    client.take("figures", lease_for="1h", consumer="one")
    browser.open("#/topics/figures/jobs/f2", is_new=True)
    browser.sees("the job is retried after a wait that doubles from 1s to 10m")
    browser.open("#/topics/figures")
    later = lambda: {one.find_element("css selector", "dt").text: one.find_element("css selector", "dd").text for one in browser.all(".load .facts > div")}  # noqa: E731
    browser.wait(lambda: later()["later"] == "1", "the job that is due after the hour that is drawn")
    browser.press("Week")
    assert later()["later"] == "0"
    shown = browser.driver.execute_async_script("const done = arguments[0]; import('./format.js').then((f) => done([f.short(1e6), f.short(123456), f.duration(60000)]))")
    assert shown == ["1M", "123.5K", "1m"], "a million is not a minute"
    fail(client, "single", "s1", "http 410")
    browser.open("#/")
    browser.wait(lambda: re.search("'single' has 1 job that died", browser.text()), "one job")
    browser.type("Language", "中文")
    browser.sees("“single” 有 1 个死信作业")
    browser.type("语言", "English")


def test_bodies_are_shown_unchanged(browser, client):
    client.push("bodies", "json", b'{"a":[1,2,{"b":null}]}', "application/json")
    client.push("bodies", "text", "Grüße\n<b>not bold</b>".encode())
    client.push("bodies", "bytes", bytes(range(256)), "application/octet-stream")
    browser.open("#/topics/bodies/jobs/json", is_new=True)
    browser.sees('"b": null')
    browser.press("Hex")
    browser.sees("7b 22 61 22")
    browser.open("#/topics/bodies/jobs/text")
    browser.sees("<b>not bold</b>")
    browser.open("#/topics/bodies/jobs/bytes")
    browser.sees("00 01 02 03")


def test_an_encoded_body_is_described_in_place_of_its_bytes(browser, client):
    client.push("coded", "1", b"\x00\x01" * 20, content_type="application/vnd.tarry.encoded; steps=gzip+aes-gcm; key=2026-11", delay="1h")
    client.push("coded", "2", b"0123456789abcdef" * 2, content_type="application/vnd.tarry.encoded; steps=claim-check", delay="1h")
    browser.open("#/topics/coded/jobs/1", is_new=True)
    browser.sees("compressed, encrypted with the key 2026-11. A client")
    browser.press("Hex")
    browser.sees("00 01 00 01")
    browser.open("#/topics/coded/jobs/2")
    browser.sees("stored elsewhere. A client")


def test_a_dead_job_shows_its_history_and_is_redriven_with_another_body(browser, client):
    client.put_topic("story", backoff="fixed:100ms")
    client.push("story", "s1", b'{"amount":-1}', "application/json", meta={"customer": "c-17"})
    for error, final in (("bank is down", False), ("still down", False), ("amount is negative", True)):
        (job,) = client.take("story", wait="10s")
        client.nack(job["lease"], error=error, final=str(final).lower())
    browser.open("#/topics/story/jobs/s1", is_new=True)
    for text in ("bank is down", "still down", "amount is negative", "Attempt 1", "Attempt 3", "was rejected permanently"):
        browser.sees(text)
    browser.press("Edit and redrive*")
    text = browser.wait(lambda: browser.find("#edit-body"), "the body")
    text.clear()
    text.send_keys('{"amount":1}')
    browser.press("Replace and push", browser.dialog)
    eventually(lambda: client.topic("story")["counts"]["ready"] == 1, 20)
    (job,) = client.take("story")
    assert (job["body"], job["attempt"], job["meta"]) == ({"amount": 1}, 1, {"customer": "c-17"})
    client.nack(job["lease"], final="true")
    browser.press("Redrive")
    eventually(lambda: client.topic("story")["counts"]["ready"] == 1, 20)


def test_a_json_body_that_does_not_parse_is_pushed_only_if_forced(browser, client):
    fail(client, "broken", "b1", "no", body=b'{"order": 5}', content_type="application/json")
    browser.open("#/topics/broken/jobs/b1", is_new=True)
    browser.press("Edit and redrive*")
    text = browser.wait(lambda: browser.find("#edit-body"), "the body")
    assert not browser.find("#force-json").is_displayed()
    text.clear()
    text.send_keys('{"order": 5,')
    browser.press("Replace and push", browser.dialog)
    browser.wait(lambda: "The body is not valid JSON" in browser.dialog().text, "the reason")
    assert client.topic("broken")["counts"]["dead"] == 1
    browser.find("#force-json").click()
    browser.press("Replace and push", browser.dialog)
    eventually(lambda: client.topic("broken")["counts"]["ready"] == 1, 20)
    (job,) = client.take("broken")
    assert job["body"] == '{"order": 5,'
    browser.open("#/topics/broken")
    browser.press("Push a job*")
    browser.wait(lambda: browser.find("#push-body"), "the dialog").clear()
    browser.find("#push-body").send_keys("{]")
    browser.press("Push", browser.dialog)
    browser.wait(lambda: "The body is not valid JSON" in browser.dialog().text, "the reason")
    browser.type("Content type", "text/plain", browser.dialog())
    browser.press("Push", browser.dialog)
    eventually(lambda: client.topic("broken")["counts"]["ready"] == 1, 20)


def test_the_copied_curl_command_works(browser, client):
    body = "it's \"quoted\" $HOME `id` \\ \n<&>"
    client.push("copy", "a'b", body.encode(), "text/plain", meta={"who": "O'Neil"}, delay="1h")
    browser.open("#/topics/copy/jobs/a%27b", is_new=True)
    browser.press("Copy as curl*")
    command = browser.wait(lambda: browser.find("dialog textarea").get_property("value"), "the command")
    client.call("DELETE", "/v1/topics/copy/jobs/a%27b")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    job = client.call("GET", "/v1/topics/copy/jobs/a%27b").json()
    assert (job["body"], job["meta"], job["state"]) == (body, {"who": "O'Neil"}, "delayed")


# ---- many jobs ----


def test_jobs_are_searched(browser, client):
    client.push_batch([{"topic": "many", "id": f"{kind}-{n}", "body": "x", "delay": "1h", "meta": {"customer": f"c{n}"}} for kind in ("order", "mail") for n in range(60)])
    fail(client, "many", "bad-1", "http 410 gone")
    browser.open("#/topics/many/jobs", is_new=True)
    browser.sees("order-1")
    browser.type("Id starts with", "mail-5")
    browser.press("Search")
    browser.wait(lambda: len(browser.all("table.jobs tbody tr")) == 11, "mail-5 and mail-50 to mail-59")
    assert "id_prefix=mail-5" in browser.driver.current_url, "the search is in the address"
    browser.press("Clear")
    browser.type("Meta as name:value", "customer:c7")
    browser.press("Search")
    browser.wait(lambda: len(browser.all("table.jobs tbody tr")) == 2, "two of that customer")
    browser.press("Clear")
    browser.type("Error contains", "410")
    browser.press("Search")
    browser.wait(lambda: [one.text for one in browser.all("table.jobs tbody th")] == ["bad-1"], "the one with that error")
    browser.press("Clear")
    browser.press("Next")
    browser.sees("Page 2")


def find(browser, text):
    browser.wait(lambda: browser.find("#find"), "the search box").clear()
    browser.find("#find").send_keys(text + Keys.ENTER)


def test_one_box_finds_topics_and_jobs_the_exact_match_first(browser, client):
    client.push_batch([{"topic": f"find.{n % 3}", "id": f"inv-{n}", "body": "x", "delay": "1h"} for n in range(30)])
    client.push("find.0", "both", delay="1h")
    client.push("find.1", "both", delay="1h")
    client.push("both", "x1", delay="1h")
    browser.open("#/", is_new=True)
    find(browser, "inv-7")
    browser.wait(lambda: "#/topics/find.1/jobs/inv-7" in browser.driver.current_url, "the only job of that id")
    find(browser, "find.2")
    browser.wait(lambda: browser.driver.current_url.endswith("#/topics/find.2"), "the topic of that name")
    find(browser, "both")
    browser.wait(lambda: [one.text.split()[0] for one in browser.all("#exact li")] == ["both", "both", "both"], "the topic and the two jobs")
    assert "find.0" in browser.find("#exact").text and "find.1" in browser.find("#exact").text
    find(browser, "inv-1")
    browser.wait(lambda: "#/topics/find.1/jobs/inv-1" in browser.driver.current_url, "the exact match of an id that begins others")
    browser.open("#/search?q=inv-1")
    browser.press("Search *")
    browser.wait(lambda: re.search(r"10 found in [\d,]+ jobs", browser.find("#scan-line").text), "inv-10 to inv-19")


def test_an_unknown_topic_offers_to_create_it_and_nothing_else(browser, client):
    browser.open("#/", is_new=True)
    find(browser, "no.such.one")
    browser.sees("There is no such topic: no.such.one")
    browser.sees("No topic has a job with the id no.such.one")
    browser.open("#/topics/no.such.one")
    browser.sees("There is no such topic: no.such.one")
    assert not [one.text for one in browser.all("main button") if one.text.startswith(("Pause", "Purge", "Delete", "Redrive"))]
    browser.press("Create no.such.one")
    eventually(lambda: client.call("GET", "/v1/topics/no.such.one").status == 200, 20)
    browser.wait(lambda: browser.driver.current_url.endswith("#/topics/no.such.one/settings"), "its settings")


def test_a_scan_shows_its_progress_and_can_be_stopped(browser, client):
    for start in range(0, 60_000, 1000):
        client.push_batch([{"topic": "scan", "id": f"s{n:05}", "body": "x", "delay": "1h"} for n in range(start, start + 1000)])
    browser.open("#/topics/scan/jobs", is_new=True)
    browser.sees("s00000")
    browser.type("Id starts with", "s59999")
    started = time.monotonic()
    browser.press("Search")
    browser.wait(lambda: browser.all("table.jobs tbody th") and browser.find("table.jobs tbody th").text == "s59999", "the exact id")
    print(f"the exact id after {time.monotonic() - started:.2f} s")
    browser.slow(400)
    browser.type("Id starts with", "s5999")
    browser.press("Search")
    browser.wait(lambda: re.search(r"0 found, [1-9][\d,]* of 60,000 searched", browser.find("#jobs-status").text) and float(browser.find("#jobs-progress").get_property("value")) > 0, "progress")
    browser.press("Stop", lambda: browser.find(".pager"))
    browser.slow(0)
    browser.wait(lambda: browser.find("#jobs-status").text.startswith("Stopped after"), "that it stopped")
    browser.open("#/search?q=s5999")
    browser.slow(200)
    browser.press("Search *")
    browser.wait(lambda: re.search(r"0 found, [1-9][\d,]* of", browser.find("#scan-line").text) and browser.find("#scan-progress").is_displayed(), "progress")
    browser.press("Stop")
    browser.wait(lambda: browser.find("#scan-line").text.startswith("Stopped:"), "that it stopped")
    browser.slow(0)


@pytest.mark.parametrize("verb, action, state", [("Run now", "Run *", "ready"), ("Reschedule", "Reschedule *", "delayed"), ("Cancel", "Cancel *", None)])
def test_all_that_a_search_finds_is_changed(browser, client, verb, action, state):
    topic = f"bulk-{verb.split()[0].lower()}"
    client.push_batch([{"topic": topic, "id": f"{kind}-{n:04}", "body": "x", "delay": "1h"} for kind in ("this", "that") for n in range(450)])
    browser.open(f"#/topics/{topic}/jobs?id_prefix=this", is_new=True)
    browser.sees("this-0001")
    browser.press(verb, lambda: browser.find(".bulk"))
    browser.wait(lambda: browser.button(action.replace("*", "450 jobs"), browser.dialog()), "how many")
    browser.press(action.replace("*", "450 jobs"), browser.dialog)
    browser.wait(lambda: "450 jobs done" in browser.dialog().text, "the end")
    counts = client.topic(topic)["counts"]
    if state == "ready":
        assert counts["ready"] == 450 and counts["delayed"] == 450
    elif state == "delayed":
        soon = [job for job in client.list(topic, limit=1000)["jobs"] if job["id"].startswith("this")]
        assert len({job["due_at"][:13] for job in soon}) <= 2 and counts["delayed"] == 900
    else:
        assert counts["delayed"] == 450 and client.topic(topic)["totals"]["cancelled"] == 450


@pytest.mark.parametrize("verb, action", [("Run now", "Run *"), ("Reschedule", "Reschedule *"), ("Cancel", "Cancel *")])
def test_waiting_jobs_are_changed_by_a_filter_after_they_are_counted(browser, client, verb, action):
    topic = f"waiting-{verb.split()[0].lower()}"
    client.push_batch([{"topic": topic, "id": f"{kind}-{n:04}", "body": "x", "at": f"20{30 + n % 2}-01-15T12:00:00Z"} for kind in ("this", "that") for n in range(450)])
    browser.open(f"#/topics/{topic}/jobs?id_prefix=this&state=delayed", is_new=True)
    browser.sees("this-0002")
    browser.press(verb, lambda: browser.find(".bulk"))
    browser.wait(lambda: browser.button(action.replace("*", "450 jobs"), browser.dialog()), "how many")
    browser.script("const field = document.getElementById('waiting-before'); field.value = '2030-06-01T00:00:00'; field.dispatchEvent(new Event('change'));")
    browser.wait(lambda: browser.button(action.replace("*", "225 jobs"), browser.dialog()), "how many are due before then")
    assert client.topic(topic)["counts"]["delayed"] == 900, "a count changes nothing"
    browser.press(action.replace("*", "225 jobs"), browser.dialog)
    browser.sees("225 jobs done")
    left = client.list(topic, state="delayed", limit=1000)["jobs"]
    assert len([job for job in left if job["id"].startswith("that")]) == 450
    assert len([job for job in left if job["id"].startswith("this") and job["due_at"][:4] == "2030"]) == 0
    assert len(left) == {"Run now": 675, "Reschedule": 900, "Cancel": 675}[verb]


def test_chosen_dead_jobs_are_redriven(browser, client):
    for n in range(5):
        fail(client, "graves", f"g{n}", "no")
    browser.open("#/topics/graves/jobs?state=dead", is_new=True)
    for name in ("g1", "g3"):
        browser.wait(lambda: browser.field(f"Select {name}"), "the box").click()  # noqa: B023
    browser.press("Redrive", lambda: browser.find(".bulk"))
    browser.press("Redrive 2 jobs", browser.dialog)
    eventually(lambda: {job["id"] for job in client.list("graves", state="ready")["jobs"]} == {"g1", "g3"}, 20)


def test_a_change_to_many_can_be_stopped(browser, client):
    for start in range(0, 20_000, 1000):
        client.push_batch([{"topic": "heap", "id": f"h{n:05}", "body": "x", "delay": "1h"} for n in range(start, start + 1000)])
    browser.open("#/topics/heap/jobs", is_new=True)
    browser.sees("h00000")
    browser.press("Cancel", lambda: browser.find(".bulk"))
    browser.wait(lambda: browser.button("Cancel 20,000 jobs", browser.dialog()), "how many")
    browser.slow(300)  # forty batches: long enough for a hand
    browser.press("Cancel 20,000 jobs", browser.dialog)
    browser.wait(lambda: re.search(r"[1-9][\d,]* of 20,000 done", browser.dialog().text), "progress")
    browser.press("Stop", browser.dialog)
    browser.wait(lambda: "Stopped" in browser.dialog().text, "that it stopped")
    browser.slow(0)
    time.sleep(0.5)  # a batch that was on its way
    left = client.topic("heap")["counts"]["delayed"]
    assert 0 < left < 20_000
    time.sleep(0.3)  # nothing more is changed
    assert client.topic("heap")["counts"]["delayed"] == left


# ---- dead and retrying jobs ----


def ids(browser):
    return [one.text for one in browser.all("table.jobs tbody th")]


def test_dead_jobs_have_a_time_of_death_and_are_sorted(browser, client):
    for n in (2, 0, 1):
        time.sleep(0.01)  # the times of death have milliseconds
        fail(client, "grave", f"g{n}", f"error {n}", body=json.dumps({"order": {"sku": f"s{5 - n}"}}).encode(), content_type="application/json")
    browser.open("#/topics/grave/jobs?state=dead", is_new=True)
    browser.wait(lambda: len(ids(browser)) == 3, "three dead jobs")
    assert "Died" in [one.text for one in browser.all("table.jobs thead th")] and re.search(r"\ds ago|now", browser.find("table.jobs tbody tr").text)
    head = lambda words: browser.press(words, lambda: browser.find("table.jobs thead"))  # noqa: E731
    head("Died")
    browser.wait(lambda: ids(browser) == ["g2", "g0", "g1"], "the order of death")
    head("Died")
    browser.wait(lambda: ids(browser) == ["g1", "g0", "g2"], "the newest first")
    browser.type("Field of the body as a column", "order.sku")
    browser.press("Search")
    browser.wait(lambda: all(f"s{n}" in browser.find("table.jobs").text for n in (3, 4, 5)), "the field")
    assert "field=order.sku" in browser.driver.current_url
    head("order.sku")
    browser.wait(lambda: ids(browser) == ["g2", "g1", "g0"], "the order of the field")
    assert not browser.axe(axe_text())
    browser.size(PHONE)
    width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
    browser.picture("dead-phone")
    browser.size(DESK)
    assert width[0] <= width[1]


def test_retrying_jobs_have_a_tab(browser, client):
    client.put_topic("again", backoff="fixed:1h")
    for n in range(3):
        fail(client, "again", f"r{n}", "not yet", final=False)
    client.push_batch([{"topic": "again", "id": f"d{n:02}", "body": "x", "delay": "30m"} for n in range(70)])
    browser.open("#/topics/again", is_new=True)
    browser.press("retrying*", lambda: browser.find(".states"))
    browser.wait(lambda: sorted(ids(browser)) == ["r0", "r1", "r2"], "only those that failed before")
    browser.press("Run now", lambda: browser.find(".bulk"))
    browser.press("Run 3 jobs", browser.dialog)
    eventually(lambda: client.topic("again")["counts"]["ready"] == 3, 20)
    assert client.topic("again")["counts"]["delayed"] == 70


def test_only_actions_that_can_work_are_offered(browser, client):
    actions = lambda: {one.text for one in browser.all(".actions button, .bulk button") if one.text}  # noqa: E731
    client.push("acts", "late", delay="1h")
    client.push("acts", "held")
    client.take("acts", lease_for="1h")
    fail(client, "acts", "over", "no")
    for ident, offered in (("late", {"Run now", "Reschedule…"}), ("held", set()), ("over", {"Redrive", "Edit and redrive…", "Redrive all jobs with this error…"})):
        browser.open(f"#/topics/acts/jobs/{ident}", is_new=True)
        assert actions() == offered | {"Copy as curl…"}, ident
    for state, offered in (("", {"Run now", "Reschedule", "Cancel"}), ("delayed", {"Run now", "Reschedule", "Cancel"}), ("ready", {"Reschedule", "Cancel"}), ("leased", set()), ("dead", {"Redrive", "Cancel"})):
        browser.open(f"#/topics/acts/jobs?state={state}", is_new=True)
        browser.wait(lambda: {one.text for one in browser.all(".bulk button")} == offered, state)  # noqa: B023
    client.push("calm", "one", delay="1h")
    browser.open("#/topics/calm", is_new=True)
    assert not [one for one in actions() if one.startswith("Redrive")], "nothing is dead"
    browser.press("More")
    browser.wait(lambda: {one.text for one in browser.all(".menu-list button")} == {"Purge…", "Delete…"}, "what cannot be undone")
    browser.keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("details.menu[open]"), "the menu closed")
    browser.size(PHONE)
    browser.press("More")
    edges = browser.script("const box = document.querySelector('.menu-list').getBoundingClientRect(); const nav = document.querySelector('header nav'); return [box.left, box.right, nav.scrollWidth - nav.clientWidth]")
    browser.size(DESK)
    assert edges[0] >= 0 and edges[1] <= PHONE[0] and edges[2] <= 0, f"the menu and the links to the pages fit on a phone: {edges}"


def test_a_job_leads_to_its_trace_and_its_audit(browser, client):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    fail(client, "traced", "t1", "no", meta={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    client.good("POST", "/v1/topics/traced/redrive?id=t1")
    browser.open("#/topics/traced/jobs/t1", is_new=True)
    link = browser.wait(lambda: browser.find("#trace-id a"), "the trace id")
    assert (link.text, link.get_attribute("href"), link.get_attribute("rel")) == (trace, f"https://jaeger.example/trace/{trace}", "noopener noreferrer")
    browser.press("Redrives of this job in the log of the server")
    browser.wait(lambda: "topic redriven" in browser.find("#audit").text, "the redrive")
    for at, strange in enumerate((f"00-{trace.upper()}-00f067aa0ba902b7-01", "00-javascript:alert(1)//4bf92f3577b34d-00f067aa0ba902b7-01", f"00-{trace}/..-00f067aa0ba902b7-01")):
        client.push("traced", f"strange-{at}", delay="1h", meta={"traceparent": strange})
        browser.open(f"#/topics/traced/jobs/strange-{at}")
        browser.wait(lambda: browser.find("h1 bdi").text == f"strange-{at}", "the job")  # noqa: B023
        assert browser.find("#trace-id").text == "\u2014" and not browser.all("#trace-id a"), strange


# ---- events, runbooks, keys ----


def test_events_are_listed_live(browser, client):
    browser.open("#/events?topic=seen", is_new=True)
    browser.wait(lambda: browser.find("#live").text == "Live", "life")
    client.push("seen", "e<1>")
    client.push("unseen", "e2")
    browser.wait(lambda: "e<1>" in browser.find("table.events").text, "the event")
    fail(client, "seen", "e3", "broken")
    browser.wait(lambda: {"pushed", "delivered", "dead"} <= {one.get_attribute("data-event") for one in browser.all("table.events tbody tr")}, "its kinds")
    assert "unseen" not in browser.find("table.events").text
    browser.press("Hold")
    client.push("seen", "e4")
    browser.wait(lambda: "not shown" in browser.find("#events-status").text, "that some are not shown")
    assert "e4" not in browser.find("table.events").text
    browser.press("Continue")
    browser.type("Event", "dead")
    browser.wait(lambda: browser.find("#live").text == "Live" and not browser.all("table.events tbody tr"), "an empty list")
    assert "event=dead" in browser.driver.current_url
    assert not browser.axe(axe_text())


def test_runbooks_are_pages_with_live_links(browser, client):
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, place in (("/", "console/"), ("/runbooks", "console/#/runbooks"), ("/runbooks/", "../console/#/runbooks"), ("/runbooks/late", "../console/#/runbooks/late"), ("/runbooks/late.md", "../console/#/runbooks/late")):
        answer = client.call("GET", path, headers=html)
        assert (answer.status, answer.headers["location"]) == (303, place), path
        assert client.call("GET", path).status == 200, "others get text"
    assert client.call("GET", "/runbooks/none", headers=html).status == 404
    for path in ("", "runbooks/", "runbooks/stuck"):
        browser.driver.get("about:blank")
        browser.driver.get(f"{browser.url}/{path}")
        browser.settled()
    browser.wait(lambda: browser.all(".runbook pre") and browser.all(".runbook h2"), "the page")
    browser.press("All runbooks")
    browser.wait(lambda: len(browser.all(".runbook table a")) >= 10, "the index")
    names = [one.get_attribute("href") for one in browser.all(".runbook table a")]
    for address in names:
        browser.open(address[address.index("#"):])
        assert browser.find(".runbook h1").text
        assert not re.search(r"\]\(|```|^#+ |\*\*", browser.find(".runbook").text, re.MULTILINE), f"{address} has raw Markdown"
        for link in browser.all(".runbook a"):
            assert link.get_attribute("href").startswith((browser.url + "/console/#/runbooks", "http")), link.get_attribute("href")
    assert not browser.axe(axe_text())


def test_the_keyboard_has_shortcuts_and_shows_them(browser, client):
    client.push_batch([{"topic": "keyed", "id": f"k{n:02}", "body": "x", "delay": f"{n + 1}h"} for n in range(60)])
    body = lambda *keys: [browser.driver.switch_to.active_element.send_keys(key) for key in keys]  # noqa: E731
    browser.open("#/topics/keyed/jobs", is_new=True)
    browser.wait(lambda: len(ids(browser)) == 50, "a page")
    body("j", "j", "k", "j")
    assert browser.script("return document.activeElement.textContent") == "k01"
    body("x")
    browser.wait(lambda: "1 selected" in browser.find(".bulk").text, "one selected")
    body("n")
    browser.wait(lambda: ids(browser)[0] == "k50", "the next page")
    body("p")
    browser.wait(lambda: ids(browser)[0] == "k00", "the page before")
    body("?")
    browser.wait(lambda: "Keyboard shortcuts" in browser.dialog().text and len(browser.all("dialog kbd")) > 10, "the list")
    assert not browser.axe(axe_text())
    body(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")
    body("g", "t")
    browser.wait(lambda: browser.driver.current_url.endswith("#/topics"), "the topics")
    browser.settled()
    body("/")
    assert browser.script("return document.activeElement.id") == "find"
    body("g", "o")
    assert browser.find("#find").get_property("value") == "go", "a field gets what is typed"
    browser.find("#find").clear()
    body(Keys.ESCAPE, "g", "o")
    browser.wait(lambda: browser.driver.current_url.endswith("#/"), "the overview")


# ---- the server, and who looks ----


def test_the_server_page_shows_the_server(browser, client, server):
    browser.open("#/server", is_new=True)
    for text in ("Durability of an answered push", "Every push is on disk before it is answered", "Disk", "Shards", "Connections", "Limits reached", "embedded", "Log"):
        browser.sees(text)
    client.call("POST", "/v1/topics/many/pause")
    browser.sees("pause")
    client.call("POST", "/v1/topics/many/resume")


def test_a_token_is_requested_kept_out_of_cookies_and_forgotten(tmp_path, tmp_path_factory):
    reader = Token("reader", ["read"])
    TokenFile(tmp_path / "tokens", reader)
    server = Server(tmp_path / "server", [*FLAGS, "--tokens", tmp_path / "tokens"]).start()
    browser = Browser(tmp_path_factory.mktemp("who"), server.url)
    try:
        browser.driver.get(f"{server.url}/console/")
        browser.wait(lambda: browser.find("#token"), "the question").send_keys("tarry_wrong")
        browser.press("Log in", browser.dialog)
        browser.sees("Unknown or revoked token")
        browser.type("Token", reader.secret, browser.dialog())
        browser.press("Log in", browser.dialog)
        browser.wait(lambda: browser.find("#live").text == "Live", "life")
        assert browser.driver.get_cookies() == []
        assert reader.secret not in browser.script("return JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location.href")
        browser.open("#/topics")
        button = browser.button("New topic*")
        assert button.get_attribute("aria-disabled") == "true" or not button.is_enabled()
        browser.press("Log out")
        browser.wait(lambda: browser.all("#token") or browser.button("Log in"), "the question again")
        browser.unharmed()
    finally:
        browser.close()
        assert server.terminate() == 0


# ---- strangers' texts ----

SCRIPTS = ["window.P=1", "alert(1)", "top.P=1"]
HOSTILE = [form.replace("S", script) for script in SCRIPTS for form in (
    "<script>S</script>", "<img src=x onerror=S>", "<svg onload=S>", "\"><script>S</script>", "'><img src=x onerror=S>", "javascript:S", "<iframe srcdoc='<script>S</script>'>",
    "<a href=javascript:S>x</a>", "</textarea><script>S</script>", "</title><script>S</script>", "<body onload=S>", "<input autofocus onfocus=S>", "<details open ontoggle=S>",
    "<style>@import'x'</style><img src=x onerror=S>", "<math><mtext></form><form><mglyph><style></math><img src onerror=S>", "{{constructor.constructor('S')()}}", "${S}", "`${S}`",
    "<base href=//evil.example/>", "<link rel=stylesheet href=//evil.example/x.css>", "<meta http-equiv=refresh content='0;url=javascript:S'>", "<object data=javascript:S>",
    "<embed src=javascript:S>", "<video><source onerror=S>", "<marquee onstart=S>", "<!--><script>S</script>-->", "<![CDATA[<script>S</script>]]>", "&lt;script&gt;S&lt;/script&gt;",
    "%3Cscript%3ES%3C/script%3E", "\\u003cscript\\u003eS\\u003c/script\\u003e", "'-S-'", "\";S;//", "';S;//", "<x onclick=S>y", "data:text/html,<script>S</script>",
    "<form action=javascript:S><button>go</button></form>", "<template><script>S</script></template>", "<div style=background:url(javascript:S)>", "<button popovertarget=x onclick=S>",
    "<a id=harm name=harm href=x>", "<slot onslotchange=S>", "<noscript><p title='</noscript><img src=x onerror=S>'>", "vbscript:S", "<svg><a xlink:href=javascript:S><text>x</text></a></svg>",
    "<svg><animate onbegin=S attributeName=x dur=1s>", "<xmp><img src=x onerror=S></xmp>", "<select><option><script>S</script>", "<table><td background=javascript:S>")]
ODD = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "null", "undefined", "NaN", "true", "[object Object]", "..", "../../x", "a/b", "%2e%2e", "%00", "%", "?", "#", "&x=1", "+", "\\", "'",
       "\"", "`", "$&", "$1", "{id}", "{topic}", "{n|a|b}", "{0}", "0", "-1", "1e999", "A" * 128, "//evil.example", "http://evil.example", "mailto:x@y", ";", ",", "|", "~", "^", "()", "[]", "<>", "<b>", "</b>", "&amp;", "&lt;", "&#0;",
       "@import", "*/", "/*", "//", "--", "=1+1", "@SUM(1)", "-2+3", "\"); drop", "' or 1=1--", "${jndi:ldap://x}", "{{7*7}}", "<%= 7*7 %>", "#{7*7}", "%s%s%n", "true;", "eval(1)", "then", "valueOf", "length", "watch", "isPrototypeOf"]
TEXTS = ["\u202e\u2066reversed", "a\u0001b", "\ufeffbom", "zero\u200bwidth", "é" * 60, "李" * 60, "🎉" * 40, "\u0301" * 40, "line\u2028sep", "tab\there", "long " * 50, "&#x3c;script&#x3e;", "\ud7ff", "١٢٣", "İI", "ﷺ"]


def test_hostile_texts_run_nothing_and_break_no_page(browser, client):
    """Strange texts as id, body, content type, error, value and name of meta: over 200, on every page that shows them."""
    strangers = list(dict.fromkeys([*HOSTILE, *ODD, *TEXTS]))
    assert len(strangers) >= 200
    encode = lambda text: re.sub(r"[^\x21-\x7e]", "", text)[:128] or "none"  # noqa: E731
    ids = list(dict.fromkeys(encode(text) for text in strangers if encode(text) not in (".", "..")))
    items = []
    for at, text in enumerate(strangers):
        ident = ids[at % len(ids)]
        clean = "".join(char for char in text if char.isprintable()) or "x"
        items.append({"topic": "strange", "id": ident, "body": text, "content_type": "text/plain", "meta": {"note": clean[:300], "x-" + re.sub(r"[^a-z0-9-]", "", text.lower())[:40]: clean[:300]}})
    results = json.loads(client.call("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"}).body)["results"]
    assert sum(one["result"] in ("created", "replaced") for one in results) == len(items), [one for one in results if one["result"] not in ("created", "replaced")][:5]
    while jobs := client.take("strange", max=100):
        for job in jobs:
            text = job["body"] if isinstance(job.get("body"), str) else "x"
            client.call("POST", "/v1/nack", json.dumps({"leases": [{"lease": job["lease"], "error": text[:200], "final": True}]}).encode(), {"Content-Type": "application/json"})
    for name in ("__proto__", "constructor", "toString", "null", "a.b-c_d"):
        client.push(name, "x")
    total = client.topic("strange")["counts"]["dead"]
    assert total >= 150
    for place in ("#/", "#/topics", "#/topics/strange", "#/topics/strange/jobs?state=dead", "#/topics/strange/settings", "#/server", "#/topics/__proto__", "#/topics/constructor/jobs", "#/topics/null"):
        browser.open(place, is_new=place == "#/")
        browser.unharmed()
        assert browser.find("h1").text or browser.find("h1").get_attribute("textContent"), place
    shown, cursor = set(), ""
    browser.open("#/topics/strange/jobs?state=dead")
    while True:
        browser.wait(lambda: browser.all("table.jobs tbody th") and not browser.all("table.jobs tbody[aria-busy]"), "rows")
        shown |= {browser.script("return arguments[0].textContent", one) for one in browser.all("table.jobs tbody th")}
        cursor = browser.button("Next")
        if cursor.get_attribute("aria-disabled") == "true" or not cursor.is_enabled():
            break
        page = browser.find(".pager").text
        browser.press("Next", lambda: browser.find(".pager"))
        browser.wait(lambda: browser.find(".pager").text != page, "the next page")  # noqa: B023
    client.close()  # the pages may take longer than the server keeps a silent connection
    dead = {job["id"] for job in client.list("strange", state="dead", limit=1000)["jobs"]}
    assert shown == dead, (sorted(dead - shown)[:5], sorted(shown - dead)[:5])
    for ident in sorted(dead):
        browser.open("#/topics/strange/jobs/" + "".join(char if char.isalnum() else "%" + format(ord(char), "02X") for char in ident))
        assert browser.script("return document.querySelector('h1 bdi').textContent") == ident
        browser.unharmed()
    for words in ("Edit and redrive*", "Copy as curl*"):
        browser.press(words)
        browser.dialog()
        browser.unharmed()
        browser.keys(Keys.ESCAPE)
        browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")


def test_no_request_leaves_the_server(browser, server):
    browser.requests()
    for place in ("#/", "#/topics", "#/topics/strange", "#/topics/strange/jobs", "#/topics/calls/delivery", "#/server"):
        browser.open(place, is_new=place == "#/")
    asked = [address for address in browser.requests() if not address.startswith(("about:", "data:"))]
    assert len(asked) > 20 and all(address.startswith(server.url + "/") for address in asked), [address for address in asked if not address.startswith(server.url)]


# ---- for everybody ----

PAGES = {"overview": "#/", "topics": "#/topics", "topic": "#/topics/story", "jobs": "#/topics/many/jobs", "job": "#/topics/bodies/jobs/json", "settings": "#/topics/story/settings", "groups": "#/topics/story/groups",
         "delivery": "#/topics/calls/delivery", "search": "#/search?q=story", "events": "#/events", "runbooks": "#/runbooks", "runbook": "#/runbooks/stuck", "nothing": "#/topics/not.there", "server": "#/server"}


@pytest.mark.parametrize("size, is_dark", [(DESK, False), (PHONE, True)])
def test_nothing_serious_keeps_people_out(browser, size, is_dark):
    source, found = axe_text(), {}
    browser.size(size, is_dark)
    try:
        for name, place in PAGES.items():
            browser.open(place, is_new=True)
            if faults := browser.axe(source):
                found[name] = faults
            width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert width[0] <= width[1], f"{name} is {width[0]} wide in {width[1]}"
            browser.picture(f"{name}-{'phone' if size == PHONE else 'desk'}-{'dark' if is_dark else 'light'}")
    finally:
        browser.size(DESK)
    assert not found, json.dumps(found, indent=1)


def test_dialogs_are_accessible(browser):
    source = axe_text()
    for place, words in (("#/topics/story", "Push a job*"), ("#/topics/story", "Purge*"), ("#/topics/story", "Delete*"), ("#/topics/story", "Pause*")):
        browser.open(place, is_new=True)
        (Browser.more if words in ("Purge*", "Delete*") else Browser.press)(browser, words)
        browser.dialog()
        assert not browser.axe(source), words


def test_the_console_works_by_keyboard(browser, client):
    client.push("keys", "k1", delay="1h")
    browser.open("#/topics/keys", is_new=True)
    browser.script("document.body.focus(); document.activeElement.blur()")
    browser.keys(Keys.TAB)
    assert browser.script("return document.activeElement.className") == "skip"
    browser.keys(Keys.ENTER)
    assert browser.script("return document.activeElement.tagName") == "H1"

    def reach(words):
        for _ in range(60):
            browser.keys(Keys.TAB)
            if (browser.script("return document.activeElement.textContent || ''")).strip().startswith(words):
                return
        raise AssertionError(f"'{words}' is not reached by Tab")

    reach("Pause")
    outline = browser.script("const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.boxShadow")
    assert outline != "nonenone", "where the focus is can be seen"
    browser.keys(Keys.ENTER)
    browser.dialog()
    browser.keys(Keys.ESCAPE)
    browser.wait(lambda: browser.script("return document.activeElement.textContent").startswith("Pause"), "the focus back")


def use_each_page(browser, client):
    for n in range(3):
        fail(client, "by.keys", f"key-{n}", "no")
    client.good("PUT", "/v1/schedules/by-keys", json.dumps({"topic": "by.keys", "every": "24h"}).encode(), {"Content-Type": "application/json"})
    seen = set()
    focused = lambda: browser.script("return document.activeElement && nameOf(document.activeElement)")  # noqa: E731
    watch = """
        window.nameOf = (one) => (one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent || '').trim();
        window.trail = [];
        document.addEventListener('focusin', ({ target }) => {
            const look = getComputedStyle(target);
            trail.push([nameOf(target), target, look.outlineStyle + look.boxShadow !== 'nonenone']);
        });
        window.found = (words, within) => trail.findIndex(([name, node]) => name.startsWith(words) && node.isConnected && node.closest(within));"""

    def at(name, mark):
        browser.wait(lambda: browser.all(f".page-{name}") and mark in browser.driver.current_url, f"the page {name}")
        browser.settled()
        seen.add(name)

    def press(*keys):
        ActionChains(browser.driver).send_keys(*keys).perform()

    def reach(words, within="body", at_once=10):
        """Presses Tab until the element has the focus: some times at once, then back."""
        browser.script("trail.length = 0")
        for _ in range(120 // at_once):
            press(*[Keys.TAB] * at_once)
            place, length = browser.script("return [found(arguments[0], arguments[1]), trail.length]", words, within)
            if place >= 0:
                back = length - 1 - place
                while not (focused().startswith(words) and browser.script("return !!document.activeElement.closest(arguments[0])", within)):
                    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(*[Keys.TAB] * max(back, 1)).key_up(Keys.SHIFT).perform()
                    assert (back := min(back, 0) - 1) > -4, f"'{focused()}' has the focus, not '{words}'"  # the window itself may be between the last element and the first
                assert browser.script("return trail[arguments[0]][2]", place), f"the focus on '{words}' cannot be seen"
                return
        raise AssertionError(f"'{words}' is not reached by Tab: {browser.script('return trail.map(([name]) => name.slice(0, 30))')}")

    def tab(words, name, mark):
        reach(words, ".tabs")
        press(Keys.ENTER)
        at(name, mark)

    browser.open("#/", is_new=True)
    browser.script(watch)
    at("overview", "#/")
    browser.wait(lambda: browser.find('[data-code="dead"] a'), "the problem")
    reach("Runbook", '[data-code="dead"]')
    press(Keys.ENTER)
    at("runbook", "#/runbooks/dead")
    reach("All runbooks")
    press(Keys.ENTER)
    browser.wait(lambda: browser.driver.current_url.endswith("#/runbooks") and browser.all(".runbook table a"), "all runbooks")
    for keys, name in (("ge", "events"), ("gv", "server"), ("gs", "schedules")):
        press(*keys)
        at(name, "#/" + name)
    press("j")
    assert focused() == "by-keys"
    press(Keys.ENTER)
    at("schedule", "#/schedules/by-keys")
    press("g", "t")
    at("topics", "#/topics")
    press("/", *"nothing.like.it", Keys.ENTER)
    at("search", "#/search")
    press("/", *"by.keys", Keys.ENTER)
    at("topic", "#/topics/by.keys")
    reach("More", ".actions")
    press(Keys.ENTER)
    reach("Purge", ".menu-list", at_once=1)  # a menu closes when the focus leaves it
    press(Keys.ENTER)
    browser.dialog()
    press(Keys.ESCAPE)
    browser.wait(lambda: not browser.all("dialog[open]"), "no dialog")
    tab("Groups", "groups", "#/topics/by.keys/groups")
    tab("Delivery", "delivery", "#/topics/by.keys/delivery")
    tab("Settings", "settings", "#/topics/by.keys/settings")
    reach("Attempts", "form")
    press("5")
    reach("If the id exists", "form")
    press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    reach("Save", "form")
    press(Keys.ENTER)
    eventually(lambda: client.topic("by.keys")["settings"].get("max_attempts") == 5, 20)
    assert client.topic("by.keys")["settings"]["on_conflict"] == "keep"
    browser.sees("2 settings saved")
    browser.wait(lambda: focused() == "Save", "the focus where it was")
    press("/", *"by.keys", Keys.ENTER)
    at("topic", "#/topics/by.keys")
    reach("dead", ".states")
    press(Keys.ENTER)
    at("jobs", "state=dead")
    browser.wait(lambda: len(ids(browser)) == 3, "the dead jobs")
    press("j", "x", "j", "x")
    browser.wait(lambda: "2 selected" in browser.find(".bulk").text, "two selected")
    reach("Redrive", ".bulk")
    press(Keys.ENTER)
    browser.wait(lambda: focused() == "Redrive 2 jobs", "the question")
    press(Keys.ENTER)
    eventually(lambda: client.topic("by.keys")["counts"]["dead"] == 1, 20)
    browser.wait(lambda: focused() == "Close", "the end of the change")
    press(Keys.ENTER)
    browser.wait(lambda: not browser.all("dialog[open]") and len(ids(browser)) == 1, "one dead job")
    press("j", Keys.ENTER)
    at("job", "#/topics/by.keys/jobs/key-")
    press("g", "o")
    at("overview", "#/")
    pages = set(re.findall(r"^    (\w+): \(\) => import", (REPO / "console" / "main.js").read_text(encoding="utf-8"), re.MULTILINE))
    assert seen == pages, pages ^ seen


def test_each_page_is_reached_and_used_by_keyboard_alone(tmp_path, tmp_path_factory):
    """From the first page on, by Tab, Enter, arrows and shortcuts: nothing is clicked, and no address is opened."""
    server = Server(tmp_path / "server", [*FLAGS, "--deliver", write_policy(tmp_path / "policy")]).start()
    browser = Browser(tmp_path_factory.mktemp("keys"), server.url)
    try:
        use_each_page(browser, server.client())
        browser.unharmed()
    finally:
        browser.close()
        assert server.terminate() == 0


def test_it_speaks_chinese(browser):
    browser.open("#/topics/story", is_new=True)
    browser.type("Language", "中文")
    browser.sees("主题")
    assert browser.script("return document.documentElement.lang") == "zh-CN"
    for place in PAGES.values():
        browser.open(place)
        left = re.findall(r"\b(?:Settings|Overview|Topics|Delivery|Durability|Search|Cancel|Redrive|Attempts)\b", browser.text())
        assert not left, (place, left)
    browser.type("语言", "English")
    browser.sees("Overview")
