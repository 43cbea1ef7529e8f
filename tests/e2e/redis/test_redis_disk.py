"""Redis' disk is full: working calls, messages, and that no answered change is lost."""

import subprocess
import time

import pytest
from redis_servers import RedisServer, wait_for
from redis_serving import metric, push_answer, ready
from server import eventually

SIZE, ROOM = "3m", "60m"
BODY = b"x" * 50_000


def mounts():
    """The command that runs a program with mounts that only it sees; None: this user may not."""
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    return None


class SmallDisk(RedisServer):
    """A Redis whose append-only file is on a disk of its own."""

    def __init__(self, aof):
        super().__init__("--aof-load-truncated", "yes", "--auto-aof-rewrite-percentage", "0", aof=aof)
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        under = mounts()
        self.holder = subprocess.Popen([*under, "sh", "-c", f"mount -t tmpfs -o size={SIZE} tmpfs {self.disk} && echo mounted && exec sleep 600"],
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "mounted\n"
        self.inside = ["nsenter", "-t", str(self.holder.pid), *(["-U", "--preserve-credentials"] if "-r" in under else []), "-m"]

    def command(self):
        return [*self.inside, *super().command(), "--dir", str(self.disk)]

    def make_room(self):
        subprocess.run([*self.inside, "mount", "-o", f"remount,size={ROOM}", "tmpfs", str(self.disk)], check=True)

    def __exit__(self, *_):
        super().__exit__(*_)
        self.holder.kill()
        self.holder.wait()


def fill(server):
    """Pushes until one is refused: (the ids that were answered, the refusal)."""
    answered = []
    for number in range(1000):
        reply = server.client().call("PUT", f"/v1/topics/full/jobs/job-{number}?delay=1h", BODY)
        if reply.status != 201:
            return answered, reply
        answered.append(f"job-{number}")
        if number % 10 == 9:
            time.sleep(0.02)
    raise AssertionError("it is never full")


def ids(server):
    return {job["id"] for job in server.client().list("full", limit=1000)["jobs"]}


@pytest.mark.skipif(not mounts(), reason="neither root nor user namespaces")
def test_everysec_all_changes_are_refused_and_nothing_answered_is_lost(start_server):
    with SmallDisk("everysec") as redis:
        server = start_server("--store", redis.url, "--shards", "2")
        client = server.client()
        assert push_answer(server, "work", "a").status == push_answer(server, "work", "b").status == 201
        [job] = client.take("work", max=1)
        answered, refusal = fill(server)
        assert refusal.status == 507 and refusal.code == "no_space" and "acks and cancels still work" not in refusal.body.decode()
        wait_for(lambda: redis.info("persistence")["aof_last_write_status"] == "err", "Redis notices")
        for call in (("POST", f"/v1/ack?lease={job['lease']}"), ("POST", "/v1/topics/work/take"), ("DELETE", "/v1/topics/work/jobs/b"),
                     ("POST", f"/v1/extend?lease={job['lease']}")):
            reply = client.call(*call)
            assert (reply.status, reply.code) == (507, "no_space"), (call, reply.status, reply.body)
        assert client.get("work", "b")["state"] in ("ready", "leased") and set(answered) <= ids(server)
        eventually(lambda: ready(server) == 503)
        assert metric(server, "tarry_store_accepting") == 0
        redis.make_room()
        eventually(lambda: ready(server) == 200)
        assert client.ack(job["lease"])[0]["result"] == "ok"
        time.sleep(1.2)  # the next sync
        redis.kill()
        redis.start()
        eventually(lambda: ready(server) == 200)
        assert set(answered) <= ids(server)


@pytest.mark.skipif(not mounts(), reason="neither root nor user namespaces")
def test_an_idle_server_reports_a_full_disk_of_redis(start_server):
    with SmallDisk("everysec") as redis:
        server = start_server("--store", redis.url, "--shards", "2")
        for number in range(100):
            try:
                redis.client().set(f"other-{number}", BODY)
            except Exception:  # noqa: BLE001 (full)
                break
        eventually(lambda: ready(server) == 503)
        redis.make_room()
        eventually(lambda: ready(server) == 200)


@pytest.mark.skipif(not mounts(), reason="neither root nor user namespaces")
def test_always_redis_ends_and_nothing_answered_is_lost(start_server):
    with SmallDisk("always") as redis:
        server = start_server("--store", redis.url, "--shards", "2", "--store-timeout", "1s")
        answered, refusal = fill(server)
        assert refusal.status == 503 and refusal.code == "unavailable"
        eventually(lambda: not redis.alive)
        assert "Exiting" in redis.log()
        eventually(lambda: ready(server) == 503)
        redis.make_room()
        redis.start()
        eventually(lambda: ready(server) == 200)
        assert set(answered) <= ids(server)
