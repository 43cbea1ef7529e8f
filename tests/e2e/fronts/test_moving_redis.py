"""docs/moving/redisson.md and bullmq.md: their scripts and commands on a real Redis with the jobs of the peers, or bytes in their format."""

import base64
import json
import struct
import subprocess
import time

import redis
from migration import ms_of
from moving import follow, script
from server import REPO

REDISSON, BULLMQ = "docs/moving/redisson.md", "docs/moving/bullmq.md"


def jobs_of(server, topic):
    found = server.client().list(topic, limit=1000, body="base64")["jobs"]
    return {job["id"]: {**job, "body": base64.b64decode(job["body_base64"])} for job in found}


def element(value, number=b"\x01\x02\x03\x04\x05\x06\x07\x08", old=False):
    """Packs an element like Redisson: 'Bc0Lc0', and before 3.21.1 'dLc0' (formats of Lua's struct.pack)."""
    return (b"" if old else b"\x08") + number + struct.pack("<Q", len(value)) + value


def test_pending_jobs_of_redisson_are_moved_as_documented(server, start_redis, tmp_path):
    port = start_redis().port
    store, now_ms = redis.Redis(port=port), int(time.time() * 1000)
    odd = bytes(range(256))
    delayed = {element(b"plain"): now_ms + 3_600_000, element(odd, b"\xff" * 8): now_ms + 86_400_000, element(b"old", struct.pack("<d", 5220409939115423359), old=True): now_ms - 1000}
    for member, due_ms in delayed.items():
        store.zadd("redisson_delay_queue_timeout:{orders}", {member: due_ms})
        store.rpush("redisson_delay_queue:{orders}", member)
    store.rpush("orders", b"same", b"same")
    (tmp_path / "redisson.py").write_text(script(REDISSON))
    replace = {"python3 redisson.py orders": f"/usr/bin/python3 redisson.py orders redis://127.0.0.1:{port}", "redis-cli": f"redis-cli -p {port}"}
    follow(REDISSON, tmp_path, server, replace, lambda command: "import" in command)
    jobs = jobs_of(server, "orders")
    assert sorted(job["body"] for job in jobs.values()) == sorted([b"plain", odd, b"old", b"same", b"same"])
    assert ms_of(next(job for job in jobs.values() if job["body"] == b"plain")["due_at"]) == now_ms + 3_600_000
    assert {job["state"] for job in jobs.values() if job["body"] in (b"old", b"same")} == {"ready"}
    again = server.cli("import", str(tmp_path / "pending.ndjson"))
    assert b"0 created, 0 replaced, 5 existed; 0 refused" in again.stderr and store.zcard("redisson_delay_queue_timeout:{orders}") == 3
    follow(REDISSON, tmp_path, server, replace, lambda command: "DEL" in command)
    assert store.keys() == []


# ---- data that the peers have written (moving_peers.py records it) ----


def restore(store, name):
    """Restores the recorded keys of a peer. The file stores bytes as characters of latin-1."""
    for key, (kind, value) in json.loads((REPO / "tests/e2e/support/data/moving_redis.json").read_text(encoding="utf-8"))[name].items():
        key = key.encode("latin-1")
        if kind == "hash":
            store.hset(key, mapping={field.encode("latin-1"): text.encode("latin-1") for field, text in value.items()})
        elif kind == "list":
            store.rpush(key, *[text.encode("latin-1") for text in value])
        else:
            store.zadd(key, {text.encode("latin-1"): score for text, score in value})


def import_by_script(page, name, server, port, tmp_path):
    """Runs the script of the page and imports its lines into the server. Returns what it printed on standard error."""
    (tmp_path / "script.py").write_text(script(page))
    ran = subprocess.run(["/usr/bin/python3", tmp_path / "script.py", name, f"redis://127.0.0.1:{port}"], capture_output=True, timeout=60, check=True)
    ended = server.cli("import", input=ran.stdout)
    assert ended.returncode == 0, ended.stderr
    return ran.stderr.decode()


def check_redisson(server, port, tmp_path):
    """Three queues, each with another codec; -> {codec: bodies}."""
    bodies = {}
    for codec in ("text", "json", "kryo"):
        import_by_script(REDISSON, codec, server, port, tmp_path)
        jobs = jobs_of(server, codec)
        assert sorted(job["state"] for job in jobs.values()) == ["delayed", "delayed", "ready"], "equal bodies stay separate jobs"
        bodies[codec] = [job["body"] for job in sorted(jobs.values(), key=lambda job: job["state"])]
    assert bodies["text"] == [b"in ten years, about"] * 2 + ["due ü".encode()]
    assert [json.loads(body) for body in bodies["json"]] == ["in ten years, about"] * 2 + ["due ü"]
    return bodies


def check_bullmq(server, port, tmp_path):
    (tmp_path / "bullmq.py").write_text(script(BULLMQ))
    follow(BULLMQ, tmp_path, server, {"python3 bullmq.py orders": f"/usr/bin/python3 bullmq.py orders redis://127.0.0.1:{port} 2>output"}, lambda command: "import" in command)
    assert (tmp_path / "output").read_text() == "job schedulers: 1, their next jobs are here, later ones are not\n"
    jobs, due_ms = jobs_of(server, "orders"), {member: int(score) // 4096 for member, score in redis.Redis(port=port).zrange("bull:orders:delayed", 0, -1, withscores=True)}
    by_name = {job["meta"]["name"]: job for job in jobs.values()}
    shown = {name: (job["id"], job["state"], job["priority"], job["attempt"], job.get("max_attempts"), job.get("backoff"), job["body"]) for name, job in by_name.items() if name != "night"}
    assert shown == {
        "first": ("2", "ready", 100, 0, None, None, '{"text":"ü"}'.encode()),
        "second": ("3", "ready", 100, 0, 5, "exp:1s..1d", b"[1,2.5]"),
        "urgent": ("with%20blank", "ready", 107, 0, None, None, b'{"n":3}'),
        "later": ("later-1", "delayed", 100, 0, 3, "fixed:5s", b'{"n":4}'),
        "fails": ("gave-up", "dead", 100, 2, 2, "fixed:10ms", b'{"n":0}'),
    }
    assert by_name["fails"]["last_error"] == "bank is down" and ms_of(by_name["later"]["due_at"]) == due_ms[b"later-1"]
    assert by_name["night"]["body"] == b'{"n":5}' and by_name["night"]["id"].startswith("repeat:nightly:")
    taken = server.client().take("orders", max=10)
    assert [job["meta"]["name"] for job in taken if job["meta"]["name"] != "night"] == ["first", "second", "urgent"], "in the order of BullMQ"
    again = server.cli("import", str(tmp_path / "pending.ndjson"))
    assert b"0 created, 0 replaced, 6 existed; 0 refused" in again.stderr


def test_jobs_of_redisson_are_moved_with_any_codec(server, start_redis, tmp_path):
    port = start_redis().port
    restore(redis.Redis(port=port), "redisson")
    check_redisson(server, port, tmp_path)


def test_jobs_of_bullmq_are_moved_as_documented(server, start_redis, tmp_path):
    port = start_redis().port
    restore(redis.Redis(port=port), "bullmq")
    check_bullmq(server, port, tmp_path)
