"""A data directory moves between amd64 and arm64, also after a kill -9: its log, its runs and their tables are the same bytes on both. TARRY_BIN is the program for
arm64; that of this machine is build-asan/tarry, which is built if it is missing."""

import contextlib
import pathlib
import platform
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/e2e/support"))

from redis_serving import metric  # noqa: E402
from server import BINARY, Server  # noqa: E402

JOBS, BATCH, BODY = 6000, 500, "0123456789abcdef" * 128
OTHER = REPO / "build-asan/tarry"


class Moving(Server):
    """A server of which `binary` is the program of the next start."""

    binary = BINARY

    def program(self):
        return [str(self.binary), "serve"]

    def fsck(self):
        return subprocess.run([str(self.binary), "fsck", str(self.data)], capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def programs():
    if not OTHER.exists():
        subprocess.run("cmake --preset asan -G Ninja && cmake --build build-asan --target tarry", shell=True, cwd=REPO, check=True, capture_output=True, timeout=1700)
    machines = [subprocess.run(["file", "-b", str(program)], capture_output=True, text=True, check=True).stdout for program in (BINARY, OTHER)]
    assert "aarch64" in machines[0] and platform.machine().replace("_", "-") in machines[1], machines
    return BINARY, OTHER


def push(server):
    """Jobs in an hour, in runs and in the log, and three that are due."""
    with contextlib.closing(server.client()) as client:
        for first in range(0, JOBS, BATCH):
            results = client.push_batch([{"topic": "far", "id": str(number), "delay": "1h", "body": f"{number} {BODY}"} for number in range(first, first + BATCH)])
            assert all(result["result"] == "created" for result in results)
        for number in range(3):
            client.push("near", f"n{number}", b"now")
        [job] = client.take("near", lease_for="10m")
        client.ack(job["lease"])
        client.cancel("far", "7")


def check(server):
    with contextlib.closing(server.client()) as client:
        assert metric(server, "tarry_store_run_jobs") > 0
        for number in (0, 1, JOBS // 2, JOBS - 1):
            assert client.get("far", str(number))["body"] == f"{number} {BODY}"
        assert client.call("GET", "/v1/topics/far/jobs/7").status == 404
        assert client.topic("far")["counts"]["delayed"] == JOBS - 1
        near = client.take("near", max=10, wait="10s")
        assert sorted(job["id"] for job in near) == ["n1", "n2"]
        for job in near:
            client.answer("return", job["lease"])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["from-arm64", "to-arm64"])
def test_a_directory_moves_between_processors_after_a_kill(programs, order, tmp_path):
    server = Moving(tmp_path, ("--sync", "always", "--shards", "1", "--wal-file", "4MiB"))
    for place, program in enumerate((*order, order[0])):
        server.binary = programs[program]
        server.start()
        try:
            if place == 0:
                push(server)
            check(server)
        finally:
            server.kill()
        found = server.fsck()
        assert found.returncode == 0, found.stdout + found.stderr
