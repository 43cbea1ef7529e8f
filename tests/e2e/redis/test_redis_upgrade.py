"""A Redis whose jobs a newer version stored: refused by name, and left as it is."""

import subprocess

from redis_serving import push_answer, refused, works
from server import BINARY, eventually

LAYOUT = 1


def dump(server):
    return {key: server.client().dump(key) for key in server.client().scan_iter(count=1000)}


def fsck(server):
    return subprocess.run([str(BINARY), "fsck", "--store", server.url], capture_output=True, text=True, check=False, timeout=120)


def test_a_newer_layout_is_refused_at_the_start_and_by_servers_at_work(start_redis, start_server):
    store = start_redis()
    server = start_server("--store", store.url, "--store-timeout", "1s")
    works(server)
    client = store.client()
    core = client.get("{tarry:0}:core")
    client.set("{tarry:0}:core", bytes([LAYOUT + 1]) + core[1:])
    was = dump(store)
    assert push_answer(server, "works", "b").status == 503
    assert client.get("{tarry:0}:core")[0] == LAYOUT + 1
    eventually(lambda: "stored by a newer tarry" in server.log(), 10)
    answer = refused("--store", store.url)
    assert "'{tarry:0}:core'" in answer and f"has layout {LAYOUT + 1} and this version reads up to {LAYOUT}" in answer
    found = fsck(store)
    assert found.returncode == 1 and f"has layout {LAYOUT + 1}" in found.stdout + found.stderr
    assert {key: value for key, value in dump(store).items() if b":ticket" not in key} == {key: value for key, value in was.items() if b":ticket" not in key}
    client.set("{tarry:0}:core", core)
    eventually(lambda: push_answer(server, "works", "b").status in (200, 201), 20)
