"""The calls of mykit-delay, as its clients make them: with nothing but HTTP, and its own answers."""

import http.client
import json
import re
import subprocess
import threading
import time
import urllib.parse

import pytest
from conftest import FLAGS
from delivery import counts, settle, totals
from mariadb import MariadbServer
from server import BINARY, REPO, eventually, free_port

PAGE = REPO / "docs" / "moving" / "mykit-delay.md"
SHAPE = {"success", "data", "code", "message", "includes", "excludes", "onlyData", "callback"}


class Mykit:
    """A client of theirs, as far as its calls go."""

    def __init__(self, port):
        self.port = port

    def call(self, method, path, body=None, headers=None, **query):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        connection.request(method, target, None if body is None else json.dumps(body, ensure_ascii=False).encode(), headers or ({"Content-Type": "application/json"} if body is not None else {}))
        answer = connection.getresponse()
        output = answer.read()
        connection.close()
        return answer.status, json.loads(output)

    def good(self, *args, **query):
        status, output = self.call(*args, **query)
        assert status == 200 and set(output) == SHAPE, output
        assert output["success"] and output["code"] == 200 and output["message"] is None, output
        return output["data"]

    def error(self, *args, **query):
        status, output = self.call(*args, **query)
        assert status == 200 and set(output) == SHAPE, output
        assert not output["success"] and output["code"] == 500 and output["data"] is None, output
        return output["message"]


@pytest.fixture
def start(start_server):
    def start(*flags, **options):
        port = free_port()
        server = start_server("--mykit", f"127.0.0.1:{port}", *FLAGS, *flags, **options)
        return Mykit(port), server.client()

    return start


def test_a_job_is_pushed_with_its_id_and_falls_due_after_its_delay(start):
    mykit, client = start()
    began = time.time()
    assert mykit.good("POST", "/push", {"topic": "orders", "id": "o:1", "bizKey": "b-7", "subtopic": "paid", "delay": 300, "body": '{"总":12}', "status": 0, "ttl": 0,
                                        "buckedName": "x", "unknown": [1]}) == "o:1"
    job = client.get("orders", "o:1")
    assert (job["state"], job["body"], job["content_type"], job["meta"]) == ("delayed", '{"总":12}', "text/plain", {"bizkey": "b-7", "subtopic": "paid"})
    (taken,) = client.good("POST", "/v1/topics/orders/take?wait=10s")["jobs"]
    assert taken["id"] == "o:1" and time.time() - began >= 0.299


def test_the_delay_counts_from_when_the_job_was_made(start):
    mykit, client = start()
    made = int(time.time() * 1000) - 60_000
    mykit.good("POST", "/push", {"topic": "t", "id": "late", "delay": 1000, "createTime": made})
    mykit.good("POST", "/push", {"topic": "t", "id": "later", "delay": "3600000", "createTime": made, "status": 5})
    assert client.get("t", "late")["state"] == "ready"
    due = client.get("t", "later")["due_at"]
    assert due == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((made + 3600000) // 1000)) + f".{made % 1000:03}Z"


def test_without_an_id_one_is_made_and_the_same_id_replaces(start):
    mykit, client = start()
    made = mykit.good("POST", "/push", {"topic": "t", "id": None, "delay": 60000, "body": "x"})
    assert client.get("t", made)["body"] == "x"
    for body in ("1", "2"):
        mykit.good("POST", "/push", {"topic": "t", "id": "same", "delay": 60000, "body": body})
    assert client.get("t", "same")["body"] == "2" and counts(client, "t")["delayed"] == 2


def test_bad_pushes_are_rejected_with_a_reason(start):
    mykit, client = start()
    for body, part in (({"id": "1"}, "topic"), ({"topic": "bad topic", "id": "1"}, "topic"), ({"topic": "t", "id": "é"}, "id"), ([1], "JSON object"), ({"topic": "t", "status": 3}, "status"),
                       ({"topic": "t", "delay": "soon"}, "'delay'"), ({"topic": ["t"]}, "'topic'"), ({"topic": "t", "bizKey": "a\nb"}, "'bizKey'"), ({"topic": "t", "delay": 1 << 62}, "years")):
        assert part in mykit.error("POST", "/push", body), (body, part)
    assert client.good("GET", "/v1/topics")["topics"] == []


def test_delete_needs_no_topic_and_succeeds_without_a_job(start):
    mykit, client = start()
    for topic in ("a", "b", "c"):
        mykit.good("POST", "/push", {"topic": topic, "id": "1", "delay": 60000})
    mykit.good("POST", "/push", {"topic": "a", "id": "x:y+z/%", "delay": 60000})
    mykit.good("GET", "/delete", jobId="1")
    mykit.good("GET", "/delete", jobId="1")
    assert [counts(client, topic)["delayed"] for topic in "abc"] == [1, 0, 0]
    mykit.good("GET", "/delete", jobId="x:y+z/%")
    assert counts(client, "a")["delayed"] == 0
    assert "JobId" in mykit.error("GET", "/delete")


def test_get_topic_hands_a_job_out_and_delete_ends_it(start):
    mykit, client = start()
    settle(client, "t", lease_for="1s", backoff="fixed:100ms")
    mykit.good("POST", "/push", {"topic": "t", "id": "1", "bizKey": "b", "body": "hällo", "delay": 0})
    job = eventually(lambda: mykit.good("GET", "/get/topic", topic="t"))
    assert (job["id"], job["topic"], job["bizKey"], job["subtopic"], job["body"], job["status"]) == ("1", "t", "b", None, "hällo", 2)
    assert mykit.good("GET", "/get/topic", topic="t", wait="0s") is None
    mykit.good("GET", "/delete", jobId="1")
    eventually(lambda: totals(client, "t")["cancelled"] == 1)  # once the lease has ended, and no consumer gets it again
    assert mykit.good("GET", "/get/topic", topic="t", wait="0s") is None
    assert "topic" in mykit.error("GET", "/get/topic")


def test_get_topic_waits_for_a_job(start):
    mykit, client = start()
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(mykit.good("GET", "/get/topic", topic="t")))
    waiting.start()
    eventually(lambda: re.search(r"tarry_waiting_takes [1-9]", client.call("GET", "/metrics").body.decode()))
    mykit.good("POST", "/push", {"topic": "t", "id": "1", "delay": 100, "body": "x"})
    waiting.join(20)
    assert taken[0]["id"] == "1"
    began = time.time()
    assert mykit.good("GET", "/get/topic", topic="t", wait="500ms") is None and time.time() - began >= 0.499
    assert mykit.call("GET", "/get/topic", topic="t", wait="soon")[0] == 400


def test_priority_decides_the_order_and_ids_are_read_in_each_documented_form(start):
    mykit, client = start()
    for ident, more in (("a", {}), ("b", {"priority": 7}), ("c", {"priority": "3"}), ("d", {"priority": None}), ("e", {"priority": 65535})):
        mykit.good("POST", "/push", {"topic": "t", "id": ident, "delay": 0, **more})
    assert [client.get("t", ident)["priority"] for ident in "abcde"] == [100, 7, 3, 100, 65535]
    assert [mykit.good("GET", "/get/topic", topic="t")["id"] for _ in range(2)] == ["c", "b"]
    for wrong in (-1, 65536, "high", 1.5):
        assert "'priority'" in mykit.error("POST", "/push", {"topic": "t", "id": "f", "priority": wrong})
    mykit.good("GET", "/delete", id="a")
    mykit.good("GET", "/delete", jobId="d", id="e")
    assert [client.call("GET", f"/v1/topics/t/jobs/{ident}").status for ident in "ade"] == [404, 404, 200]


def test_restore_of_a_dead_job_sends_it_round_again(start):
    mykit, client = start()
    settle(client, "t", max_attempts=1)
    mykit.good("POST", "/push", {"topic": "t", "id": "1"})
    (taken,) = client.good("POST", "/v1/topics/t/take?wait=5s")["jobs"]
    client.good("POST", f"/v1/nack?lease={taken['lease']}")
    assert client.get("t", "1")["state"] == "dead"
    mykit.good("GET", "/reStoreJob", jobId="1")
    assert client.get("t", "1")["state"] == "ready"
    mykit.good("GET", "/reStoreJob", jobId="1")
    (taken,) = client.good("POST", "/v1/topics/t/take?wait=5s")["jobs"]
    client.good("POST", f"/v1/nack?lease={taken['lease']}")
    mykit.good("GET", "/reStore/1")
    assert client.get("t", "1")["state"] == "ready"
    assert "Job" in mykit.error("GET", "/reStoreJob", jobId="none") and "Job" in mykit.error("GET", "/reStore/none")


def test_unsupported_calls_are_answered_as_documented(start):
    mykit, _ = start()
    assert mykit.error("GET", "/finish", jobId="1") == "功能暂未开放"
    assert re.fullmatch(r"花费了\d+ ms，恢复 0 行数据", mykit.good("GET", "/reStore", expire="true"))


def test_clear_all_is_off_by_default(start):
    mykit, client = start()
    mykit.good("POST", "/push", {"topic": "t", "id": "1", "delay": 60000})
    assert "--mykit-clear" in mykit.error("GET", "/clearAll")
    assert counts(client, "t")["delayed"] == 1


def test_clear_all_removes_unleased_jobs(start):
    mykit, client = start("--mykit-clear")
    for at in range(250):
        mykit.good("POST", "/push", {"topic": f"t{at % 130}", "id": str(at), "delay": 0 if at == 7 else 60000})
    (taken,) = client.good("POST", "/v1/topics/t7/take?wait=5s")["jobs"]
    assert re.fullmatch(r"花费了\d+ ms，删除 249 行数据", mykit.good("GET", "/clearAll"))
    assert client.get("t7", taken["id"])["state"] == "leased"
    assert sum(sum(topic["counts"][state] for state in ("delayed", "ready", "dead")) for topic in client.good("GET", "/v1/topics")["topics"]) == 0


def test_the_calls_exist_only_at_their_address_and_not_for_pages(start):
    mykit, client = start()
    assert Mykit(client.port).call("GET", "/delete", jobId="1")[0] == 404
    mykit.good("POST", "/push", {"topic": "t", "id": "1", "delay": 60000})
    for header in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-origin"}, {"Referer": "http://evil.example/"}, {"Referer": ""},
                   {"Accept": "image/avif,image/webp,*/*;q=0.8"}, {"Accept": "Image/png"}, {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"},
                   {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0", "Accept": "*/*"}):
        for path, query in (("/delete", {"jobId": "1"}), ("/clearAll", {}), ("/reStoreJob", {"jobId": "1"}), ("/reStore/1", {}), ("/reStore", {}), ("/get/topic", {"topic": "t"})):
            status, output = mykit.call("GET", path, None, header, **query)
            assert (status, output["code"]) == (403, "cross_site"), (header, path)
    assert client.get("t", "1")["state"] == "delayed"
    for header in ({"Accept": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "User-Agent": "Java/1.8.0_292"}, {"Accept": "text/plain, application/json, */*"}, {"Accept": "*/*"}):
        mykit.good("GET", "/delete", None, header, jobId="1")
    assert mykit.call("GET", "/push")[0] == 405 and mykit.call("GET", "/nothing")[0] == 404


def test_a_server_without_them_has_no_such_path(start_server):
    server = start_server()
    assert Mykit(server.port).call("GET", "/delete", jobId="1")[0] == 404


def test_invalid_options_are_reported(tmp_path):
    for flags, part in ((["--mykit", "nowhere"], "--mykit"), (["--mykit-clear"], "without --mykit"), (["--mykit", "0.0.0.0:0"], "--insecure")):
        ended = subprocess.run([BINARY, "serve", "--data", tmp_path / "d", "--listen", "127.0.0.1:0", *flags], capture_output=True, text=True, timeout=20, check=False)
        assert ended.returncode != 0 and part in ended.stderr, ended.stderr


@pytest.mark.thorough("needs MariaDB")
def test_the_command_of_the_page_moves_pending_jobs_of_a_real_database(start, tmp_path):
    """The tables are theirs; the command is the page's, to the letter."""
    mykit, client = start()
    now = int(time.time() * 1000)
    rows = [("o-1", "biz", "orders", "sub", 3600000, now, '{"a":"b\\"c"}', 1), ("o-2", None, "orders", None, 0, now - 5000, "grüße 😀\nline", 2),
            ("o-3", None, "orders", None, 1000, now, "done", 3), ("o-4", None, "orders", None, 1000, now, "deleted", 4), ("o-5", "", "other", "", 60000, now, "", 5)]
    with MariadbServer() as database:
        database.run("CREATE DATABASE delay CHARACTER SET utf8mb4")
        database.run("CREATE TABLE mykit_delay_queue_job (id varchar(128) NOT NULL PRIMARY KEY, bizkey varchar(128), topic varchar(128), subtopic varchar(250), delay bigint(20),"
                     " create_time bigint(20), body text, status int(11), ttl int(11), update_time datetime(3)) CHARACTER SET utf8mb4", "delay")
        for row in rows:
            values = ",".join("NULL" if value is None else str(value) if isinstance(value, int) else "CONVERT(X'" + value.encode().hex() + "' USING utf8mb4)" for value in row)
            database.run(f"INSERT INTO mykit_delay_queue_job (id, bizkey, topic, subtopic, delay, create_time, body, status) VALUES ({values})", "delay")
        command = re.search(r"```sh\n(mysql .*?)```", PAGE.read_text(encoding="utf-8"), re.S).group(1)
        command = command.replace("mysql ", " ".join(map(str, database.client())) + " ", 1).replace("tarry import", f"{BINARY} import --url http://127.0.0.1:{client.port}")
        done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two, five = (client.get(topic, ident) for topic, ident in (("orders", "o-1"), ("orders", "o-2"), ("other", "o-5")))
    assert (one["state"], one["body"], one["meta"]) == ("delayed", '{"a":"b\\"c"}', {"bizkey": "biz", "subtopic": "sub"})
    assert (two["state"], two["body"]) == ("ready", "grüße 😀\nline") and five["body"] == ""
    assert client.call("GET", "/v1/topics/orders/jobs/o-3").status == 404 and client.call("GET", "/v1/topics/orders/jobs/o-4").status == 404
