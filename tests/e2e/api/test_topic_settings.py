"""Settings of topics that deliver, by the API and by `tarry topic` and `tarry deliver`, on a server that may reach this machine."""

import json

import pytest
from client import Refused
from test_cli import NOTHING, OK, REFUSED, USAGE

FLAGS = ("--sync", "never", "--wal-file", "16MiB")


@pytest.fixture
def server(start_delivering):
    return start_delivering(*FLAGS)


@pytest.fixture
def tarry(server):
    def run(*arguments, code=OK, stdin=b""):
        ended = server.cli(*arguments, input=stdin)
        out, err = ended.stdout.decode(), ended.stderr.decode()
        assert ended.returncode == code, (arguments, ended.returncode, out, err)
        assert "Sanitizer" not in err and "runtime error" not in err, err
        return out + err

    return run


def patch(client, topic, **settings):
    return client.good("PATCH", f"/v1/topics/{topic}", json.dumps(settings).encode())


# ---- by the API ----


def test_delivery_is_set_shown_changed_and_taken_away(server, endpoint):
    client = server.client()
    assert client.good("GET", "/v1/info")["delivers"] is True
    settings = {"max_attempts": 5, "deliver": {"to": endpoint.url + "/a", "max_in_flight": 9, "callback": True}, "dead_letter": {"keep": {"age": "30d"}}}
    assert client.put_topic("t", **settings)["settings"] == {"dead_letter_expired": False, **settings}
    assert client.put_topic("t", **client.topic("t")["settings"])["settings"] == {"dead_letter_expired": False, **settings}, "it can be put back"
    changed = patch(client, "t", max_attempts=None, ttl="1h", deliver={"rate": "10/s", "max_in_flight": None})["settings"]
    assert changed == {"dead_letter_expired": False, "ttl": "1h", "deliver": {"to": endpoint.url + "/a", "callback": True, "rate": "10/s"},
                       "dead_letter": {"keep": {"age": "30d"}}}
    with pytest.raises(Refused) as refused:
        patch(client, "t", deliver={"to": "https://elsewhere.example/"})
    assert refused.value.status == 400 and refused.value.code == "bad_delivery" and "allow-host" in refused.value.reply.json()["detail"]
    assert client.topic("t")["settings"] == changed, "nothing changed"
    assert patch(client, "t", deliver=None)["settings"].keys() == {"dead_letter_expired", "ttl", "dead_letter"}
    client.call("PUT", "/v1/topics/t?ttl=2h")
    assert client.topic("t")["settings"] == {"dead_letter_expired": False, "ttl": "2h"}, "a put replaces all"


def test_settings_outlive_a_restart_without_delivery(start_server, server, endpoint):
    client = server.client()
    settings = client.put_topic("t", max_attempts=5, deliver={"to": endpoint.url})["settings"]
    server.terminate()
    server.flags = server.flags[:server.flags.index("--deliver")]
    client = server.start().client()
    assert client.topic("t")["settings"] == settings
    assert patch(client, "t", max_attempts=6)["settings"] == {**settings, "max_attempts": 6}, "other settings can be changed"
    with pytest.raises(Refused, match="delivery_is_off"):
        patch(client, "t", deliver={"max_in_flight": 2})
    with pytest.raises(Refused, match="delivery_is_off"):
        client.push("t", "a", callback="https://shop.example/")
    assert patch(client, "t", deliver=None)["settings"] == {"dead_letter_expired": False, "max_attempts": 6}


def test_a_callback_goes_with_the_job(server, endpoint):
    client = server.client()
    url = endpoint.url + "/x?a=1"
    client.push("t", "a", callback=url, meta={"k": "v"}, delay="1h")
    client.push_batch([{"topic": "t", "id": "b", "callback": url, "delay": "1h"}])
    for ident, meta in (("a", {"k": "v"}), ("b", {})):
        job = client.get("t", ident)
        assert (job["callback"], job["meta"]) == (url, meta)
    assert [job["callback"] for job in client.list("t")["jobs"]] == [url, url]
    client.run("t", "a")
    client.run("t", "b")
    assert client.take("t")[0]["callback"] == url
    raw = client.call("POST", "/v1/topics/t/take", headers={"Accept": "application/octet-stream"})
    assert raw.headers["tarry-callback"] == url and not [name for name in raw.headers if name.startswith("tarry-meta")]
    for wrong, code in (("ftp://127.0.0.1/", "bad_callback"), ("https://elsewhere.example/", "bad_callback"), ("x" * 1025, "bad_option")):
        with pytest.raises(Refused) as refused:
            client.push("t", "c", callback=wrong)
        assert refused.value.code == code, wrong


def test_delivery_and_callbacks_come_over(server, start_server, start_delivering, endpoint, tmp_path):
    client = server.client()
    client.put_topic("t", deliver={"callback": True}, dead_letter={"keep": {"count": 10}})
    client.push("t", "a", callback=endpoint.url + "/own", meta={"k": "v"}, delay="1h")
    file = str(tmp_path / "all.ndjson")
    assert server.cli("export", "--output", file).returncode == OK
    target = start_delivering(*FLAGS)
    ended = target.cli("import", file)
    assert ended.returncode == OK, ended.stderr
    assert target.client().topic("t")["settings"] == client.topic("t")["settings"]
    before, after = client.get("t", "a"), target.client().get("t", "a")
    assert (after["callback"], after["meta"]) == (before["callback"], before["meta"])
    silent = start_server(*FLAGS)
    ended = silent.cli("import", file)
    assert ended.returncode == REFUSED and b"delivery_is_off" in ended.stderr, "reported for each line"


# ---- from the command line ----


def test_a_topic_is_set_up_from_the_command_line(tarry, server, endpoint, tmp_path):
    client = server.client()
    out = tarry("topic", "set", "orders", "--deliver-to", endpoint.url + "/close", "max_attempts=5", "deliver.rate=100/s", "deliver.dead_on=[404]")
    shown = {"dead_letter_expired": False, "max_attempts": 5, "deliver": {"to": endpoint.url + "/close", "rate": "100/s", "dead_on": [404]}}
    assert client.topic("orders")["settings"] == shown
    lines = [f"deliver.to={endpoint.url}/close", "deliver.rate=100/s", "deliver.dead_on=[404]", "max_attempts=5", "dead_letter_expired=false"]
    assert out.startswith("orders: delayed 0, retrying 0, ready 0, leased 0, dead 0\n") and sorted(out.splitlines()[1:]) == sorted(lines)
    assert tarry("topic", "show", "orders") == out.replace("dead 0\n", "dead 0; due within a minute 0\n")
    assert tarry("topic", "set", "copy", *lines).splitlines()[1:] == out.splitlines()[1:], "what is shown can be set"

    tarry("topic", "set", "orders", "max_attempts=", "ttl=1h", "deliver.rate=")
    del shown["max_attempts"], shown["deliver"]["rate"]
    shown["ttl"] = "1h"
    assert client.topic("orders")["settings"] == shown, "the rest stays"
    (tmp_path / "dead.json").write_text('{"keep": {"age": "7d"}}')
    tarry("topic", "set", "orders", "--deliver", "none", "--dead-letter", f"@{tmp_path / 'dead.json'}")
    assert client.topic("orders")["settings"] == {"dead_letter_expired": False, "ttl": "1h", "dead_letter": {"keep": {"age": "7d"}}}
    tarry("topic", "set", "orders", "--replace", "priority=3")
    assert client.topic("orders")["settings"] == {"dead_letter_expired": False, "priority": 3}
    assert json.loads(tarry("topic", "show", "orders", "--json"))["settings"] == {"dead_letter_expired": False, "priority": 3}
    assert "unpaid: " in tarry("topic", "set", "unpaid", "ttl=", "priority=1"), "a new topic, with nothing to take away"


WRONG = [
    (["topic", "set", "t"], USAGE, "nothing to set"),
    (["topic", "set", "t", "ttl"], USAGE, "write NAME=VALUE"),
    (["topic", "set", "t", "=1"], USAGE, "write NAME=VALUE"),
    (["topic", "set", "t", "ttl=1s", "ttl=2s"], USAGE, "set twice"),
    (["topic", "set", "t", "deliver=1", "deliver.to=2"], USAGE, "set twice"),
    (["topic", "set", "t", "--deliver", "none", "--deliver-to", "http://a"], USAGE, "choose one"),
    (["topic", "set", "t", "--deliver", "{"], USAGE, "bad value for '--deliver'"),
    (["topic", "set", "t", "--deliver", "[]"], USAGE, "give a JSON object"),
    (["topic", "set", "t", "--dead-letter", "@/nowhere/x"], REFUSED, "cannot read '/nowhere/x'"),
    (["topic", "set", "t", "tll=1h"], REFUSED, "did you mean 'ttl'"),
    (["topic", "set", "t", "--deliver-to", "https://elsewhere.example/"], REFUSED, "(bad_delivery)"),
    (["topic", "show", "t", "x"], USAGE, "did you mean 'tarry topic set'"),
    (["topic", "show", "nobody"], NOTHING, "not_found"),
    (["topic", "frobnicate", "t"], USAGE, "unknown 'frobnicate'"),
    (["deliver", "frobnicate", "t"], USAGE, "unknown 'frobnicate'"),
    (["deliver", "test", "nobody"], NOTHING, "(no_target)"),
    (["push", "t", "--callback", "https://elsewhere.example/", "--body", "x"], REFUSED, "(bad_callback)"),
]


def test_errors_are_answered(tarry):
    for arguments, code, text in WRONG:
        assert text in tarry(*arguments, code=code), arguments


def test_a_target_is_tested_from_the_command_line(tarry, endpoint):
    tarry("topic", "set", "t", "--deliver-to", endpoint.url + "/hook")
    out = tarry("deliver", "test", "t", "--body", "hello")
    assert out.endswith("ok, the target received the sample\n") and f"to            {endpoint.url}/hook\n" in out
    assert endpoint.calls[-1].body == b"hello" and endpoint.calls[-1].path == "/hook"
    assert "< HTTP/1.1 200\n" in out and "signed with   default\n" in out
    tarry("topic", "set", "t", "deliver.sign=false")
    assert "signed with   none, 'sign' is false or " in tarry("deliver", "test", "t")
    endpoint.answer = lambda call: 500
    out = tarry("deliver", "test", "t", code=REFUSED)
    assert "code          500\n" in out and out.endswith("failed\n")
    output = json.loads(tarry("deliver", "test", "t", "--json", code=REFUSED))
    assert output["code"] == 500 and output["outcome"] == "failed"
    port = endpoint.port
    endpoint.stop()
    out = tarry("deliver", "test", "t", code=REFUSED)
    assert "error " in out and str(port) in out


def test_a_server_without_delivery_reports_that(start_server):
    server = start_server(*FLAGS)
    server.client().push("t", "a")
    assert server.client().good("GET", "/v1/info")["delivers"] is False
    ended = server.cli("deliver", "test", "t")
    assert ended.returncode == REFUSED and b"--deliver FILE" in ended.stderr and b"(no_delivery)" in ended.stderr
    ended = server.cli("topic", "set", "t", "--deliver-to", "https://shop.example/")
    assert ended.returncode == REFUSED and b"--deliver FILE" in ended.stderr and b"(delivery_is_off)" in ended.stderr
