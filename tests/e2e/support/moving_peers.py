"""Verifies by name the pages of docs/moving on BullMQ and Redisson, with BullMQ (npm) and Redisson (Maven) themselves on a real Redis.

python3 tests/e2e/support/moving_peers.py            fills a Redis by them, follows the pages, and has Redisson's codecs read the bodies that came over
python3 tests/e2e/support/moving_peers.py --record   also rewrites data/moving_redis.json, which test_moving_redis.py uses instead

Packages go into build-moving/, in the versions of bench/bullmq and bench/redisson.
"""

import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[1] / "redis"), str(HERE.parents[2] / "bench")]

import redis  # noqa: E402
from figures import redis_peers  # noqa: E402
from redis_servers import RedisServer  # noqa: E402
from server import REPO, Server  # noqa: E402
from test_moving_redis import check_bullmq, check_redisson  # noqa: E402

PLACE = types.SimpleNamespace(generator=str(REPO / "build-moving" / "any"))


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, timeout=300, **more)


def fill_by_bullmq(port):
    run("node", HERE / "moving_bullmq.mjs", redis_peers.fetched(PLACE, "bullmq"), port)


def redisson(*words, **more):
    return run("java", "-cp", redis_peers.fetched(PLACE, "redisson") + "/*", HERE / "MovingRedisson.java", *words, **more)


def recorded(store, prefix):
    """The keys with jobs, for test_moving_redis.restore."""
    out = {}
    for key in sorted(store.keys(prefix)):
        kind, text = store.type(key).decode(), lambda value: value.decode("latin-1")
        if kind == "hash":
            out[text(key)] = [kind, {text(field): text(value) for field, value in store.hgetall(key).items() if field != b"stacktrace"}]
        elif kind == "list":
            out[text(key)] = [kind, [text(value) for value in store.lrange(key, 0, -1)]]
        elif kind == "zset":
            out[text(key)] = [kind, [[text(value), score] for value, score in store.zrange(key, 0, -1, withscores=True)]]
    return out


def tried(name, fill, check):
    """-> what is recorded of it."""
    with tempfile.TemporaryDirectory(prefix="moving-", dir="/tmp") as directory:
        server, peer = Server(pathlib.Path(directory) / "server"), RedisServer().start()
        try:
            fill(peer.port)
            record = recorded(redis.Redis(port=peer.port), "*")
            check(server.start(), peer.port, pathlib.Path(directory))
            print(f"{name}: well")
            return record
        finally:
            peer.stop()
            if server.proc:
                server.terminate()


def check_redisson_reads(server, port, directory):
    for codec, bodies in check_redisson(server, port, directory).items():
        lines = "\n".join(base64.b64encode(body).decode() for body in bodies)
        read = redisson("read", codec, input=lines, stdout=subprocess.PIPE, text=True).stdout
        assert read.splitlines() == ["in ten years, about"] * 2 + ["due ü"], (codec, read)


def main(is_recording):
    (REPO / "build-moving").mkdir(exist_ok=True)
    record = {"bullmq": tried("BullMQ", fill_by_bullmq, check_bullmq),
              "redisson": tried("Redisson", lambda port: redisson("fill", port), check_redisson_reads)}
    if is_recording:
        (HERE / "data" / "moving_redis.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main("--record" in sys.argv[1:])
