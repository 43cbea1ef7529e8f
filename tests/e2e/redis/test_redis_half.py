"""Possible remains of a step after a crash (decision 11): its first commands without the rest, or those and then the whole step. fsck repairs each."""

import subprocess

import pytest
from abi import ACK, NACK, RETURN, TOPIC_PUT, Shard, job, settings
from redis_servers import RedisServer
from server import BINARY

EVERY = 4  # of the places where it may be cut off


def commands(data):
    """Parses a part of an append-only file, without its frames."""
    out, at = [], 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        words, count, at = [], int(data[at + 1:end]), end + 2
        for _ in range(count):
            end = data.index(b"\r\n", at)
            size, at = int(data[at + 1:end]), end + 2
            words.append(data[at:at + size])
            at += size + 2
        out.append(words)
    return [words for words in out if words[0].upper() not in (b"MULTI", b"EXEC", b"SELECT")]


def prepare(shard):
    """Fills a shard with some of everything that a batch may meet. Returns the open deliveries."""
    shard.client.set("{tarry}:shards", 1)
    shard.hello(run="r" * 20, shards=1, name="0" * 32)
    shard.topic(TOPIC_PUT, "remembers", settings(dedup=5000), 1)
    shard.push("t", *[job(f"a{n}", delay=50) for n in range(5)], *[job(f"b{n}") for n in range(4)])
    shard.push("remembers", job("x"), job("y", delay=50))
    shard.push("special", job("p", delay=50, priority=3), job("q", own={"ttl": 10_000}))
    shard.push("packed", *[job(f"f{n}", delay=100_000) for n in range(3)])
    shard.pack_all()
    shard.push("plain", *[job(f"w{n}", delay=50) for n in range(3)])
    taken = shard.step(takes=[("t", 3), ("remembers", 1), ("special", 1)]).jobs
    shard.jump(60)
    return [found.delivery for jobs in taken for found in jobs]


def fsck(server, *options):
    return subprocess.run([str(BINARY), "fsck", "--store", server.url, *options], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("again", [False, True], ids=["a part", "a part and then all"])
def test_a_part_of_a_step_is_mended_wherever_it_was_cut_off(again):
    with RedisServer(aof="always") as server:
        client = server.client()
        shard = Shard(client, "{tarry:0}", check=False)
        out = prepare(shard)
        stored = {key: client.dump(key) for key in client.scan_iter()}
        log = server.directory / "appendonlydir" / "appendonly.aof.1.incr.aof"
        size = log.stat().st_size
        shard.step([(ACK, out[0]), (NACK, out[1], 60_000, b"no"), (RETURN, out[2]), (ACK, out[3])],
                   [("t", 5), ("plain", 2), ("special", 3), ("remembers", 3)], most=100)
        whole = commands(log.read_bytes()[size:])
        assert whole[-1][0] == b"MSET" and len(whole) > 40
        for cut in range(1, len(whole) + 1, EVERY):
            client.flushall()
            for key, value in stored.items():
                client.restore(key, 0, value)
            for words in whole[:cut] + (whole if again else []):
                client.execute_command(*words)
            mended = fsck(server, "--repair")
            assert mended.returncode == 0, (cut, mended.stdout, mended.stderr)
            assert fsck(server).returncode == 0, cut
            shard.pack_all()  # it forgets a topic that only may have had something to pack
            shard.must_be_sound()
