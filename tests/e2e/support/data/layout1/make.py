"""Makes layout1.rdb, layout1.lua and layout1.json: a queue in Redis as the last release with layout 1 left it. How to run it: README.md."""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))

from redis_servers import RedisServer  # noqa: E402
from redis_serving import shown  # noqa: E402
from server import BINARY, Server, eventually  # noqa: E402

SHARDS = 3
FAR = "2035-01-01T00:00:00Z"
EXTENSION = {"dead_letter": {"keep": {"count": 100, "age": "3000d"}}}


def take_and(client, verb, topic, count, **options):
    """Takes so many jobs of a topic, and answers them so."""
    while count:
        leases = [job["lease"] for job in client.take(topic, max=count, wait="5s")]
        assert leases
        assert all(answer["result"] == "ok" for answer in client.answer(verb, leases, **options))
        count -= len(leases)


def furnish(client):
    """Every kind of thing, in every shard."""
    client.put_topic("orders", max_attempts=3, lease_for="24h", dedup_window="3000d", backoff="exp:1h..24h", **EXTENSION)
    client.put_topic("mails", max_attempts=1, lease_for="24h", **EXTENSION)
    client.put_topic("expires", ttl="3000d", dead_letter_expired=True, priority=3)
    client.put_topic("empty", priority=3, on_conflict="keep")
    client.push_batch([{"topic": "orders", "id": f"far-{n}", "at": FAR, "body": f"body {n}", "priority": n % 5 * 50} for n in range(400)])
    client.push_batch([{"topic": "orders", "id": f"later-{n}", "delay": f"{900 + n}d", "body": "b" * n} for n in range(400)])
    client.push("orders", "by-clock", b"{}", content_type="application/json", at=FAR, priority=7, meta={"who": "me"}, ttl="3000d", lease_for="1h", max_attempts=9)
    client.push("orders", "by-delay", b"\0\xff", content_type="application/x-bytes", delay="3000d")
    for n in range(12):
        client.push("orders", f"retrying-{n}", b"again")
        take_and(client, "nack", "orders", 1, error="not yet", delay="3000d")
    client.push_batch([{"topic": "orders", "id": f"remembered-{n}", "body": "done"} for n in range(12)])
    take_and(client, "ack", "orders", 12)
    for n in range(6):
        client.push("orders", f"cancelled-{n}", b"x", at=FAR)
        client.cancel("orders", f"cancelled-{n}")
        client.push("orders", f"moved-{n}", b"x", delay="1h")
        client.reschedule("orders", f"moved-{n}", at=FAR)
        client.push("orders", f"moved-{n}", b"replaced", at=FAR)
    client.push_batch([{"topic": "mails", "id": f"dead-{n}", "body": "no"} for n in range(12)])
    take_and(client, "nack", "mails", 12, error="no use")
    client.push_batch([{"topic": "mails", "id": f"leased-{n}", "body": "held"} for n in range(12)])
    client.push_batch([{"topic": "expires", "id": f"ready-{n}", "body": "r", "priority": n} for n in range(12)])
    client.push_batch([{"topic": "quiet", "id": f"ready-{n}", "body": "r"} for n in range(12)])
    client.topic_verb("quiet", "pause")
    client.push_batch([{"topic": "tried", "id": f"tried-{n}", "body": "r"} for n in range(12)])
    for _ in range(2):
        take_and(client, "nack", "tried", 12, error="once more", delay="0s")


def leases(client):
    """Of twelve jobs, for a day."""
    found = {}
    while len(found) < 12:
        found.update((job["id"], job["lease"]) for job in client.take("mails", max=12, wait="5s"))
    return found


def main(scratch):
    print("made with", BINARY)
    with RedisServer() as redis:
        server = Server(pathlib.Path(scratch), ["--store", redis.url, "--shards", str(SHARDS)]).start()
        client = server.client()
        furnish(client)
        held = leases(client)
        eventually(lambda: not list(redis.client().scan_iter("*:unpacked")), 30)  # packed into leaves
        made = shown(client)
        assert server.terminate() == 0
        [library] = redis.client().execute_command("FUNCTION", "LIST", "WITHCODE")
        code = dict(zip(library[::2], library[1::2]))[b"library_code"]
        redis.call("SAVE")
        made_ms = int(time.time() * 1000)
        (HERE.parent / "layout1.rdb").write_bytes((redis.directory / "dump.rdb").read_bytes())
    (HERE.parent / "layout1.lua").write_bytes(code)
    with open(HERE.parent / "layout1.json", "w", encoding="ascii") as out:
        json.dump({"made_ms": made_ms, "shards": SHARDS, "leases": held, **made}, out, indent=0, sort_keys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
