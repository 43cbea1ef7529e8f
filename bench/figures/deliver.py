"""Callbacks to a local nginx: `return 204`, keep-alive, bodies of 200 bytes.

The server has core 0 with all its threads, nginx core 1.
"""

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from . import servers
from .delivery import acked, call, policy_file, target_alone

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CONFIG = """worker_processes 1; daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }} }}
"""
TARRY = servers.Kind("tarry", "http", "{tarry} serve --data {dir}/data --deliver {policy} --listen 127.0.0.1:{port}", "delivers by itself")
BUCKET = re.compile(r'^tarry_lateness_seconds_bucket\{topic="[^"]*",way="callback",le="([^"]+)"\} (\d+)$', re.M)
IN_FLIGHT, LATE_PER_S = 128, 2000


class Peer:
    """A directory with a policy, and an nginx that answers."""

    def __init__(self, bench):
        self.dir, self.port = tempfile.mkdtemp(prefix="tarry-bench-nginx-", dir=bench.base_dir), servers.free_port()
        self.policy = policy_file(self.dir, "sign = default whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        with open(os.path.join(self.dir, "nginx.conf"), "w") as config:
            config.write(CONFIG.format(dir=self.dir, port=self.port))
        self.process = subprocess.Popen(["taskset", "-c", "1", NGINX, "-p", self.dir, "-c", os.path.join(self.dir, "nginx.conf")],
                                        stderr=subprocess.DEVNULL)
        self.setting = {"to": f"http://127.0.0.1:{self.port}/hook", "max_in_flight": IN_FLIGHT}

    def __enter__(self):
        while not servers.answers(self.port, "http"):
            if self.process.poll() is not None:
                raise RuntimeError("nginx does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


def push(server, count, delay_ms=lambda at: 0):
    for first in range(0, count, 1000):
        call(server, "POST", "/v1/jobs", [{"topic": "callbacks", "body": "x" * 200, "delay": f"{delay_ms(first + at)}ms"} for at in range(1000)])


def wait_for(server, count):
    while acked(server, "callbacks") < count:
        time.sleep(0.02)


def deliver_rate(bench):
    """callbacks a second, jobs due beforehand, 128 in flight; only the target"""
    jobs = 20_000 if bench.quick else 100_000
    runs, alone = [], []
    if not os.path.exists(NGINX):
        bench.print_line("  skipped: nginx is not installed")
        return {}
    for number in range(bench.rounds):
        with Peer(bench) as peer:
            with servers.Server(TARRY, bench.tarry, bench.base_dir, policy=peer.policy) as server:
                call(server, "PUT", "/v1/topics/callbacks", {"deliver": peer.setting})
                call(server, "POST", "/v1/topics/callbacks/pause")
                push(server, jobs)
                cpu, begun = server.cpu_s(), time.monotonic()
                call(server, "POST", "/v1/topics/callbacks/resume")
                wait_for(server, jobs)
                elapsed, cpu = time.monotonic() - begun, server.cpu_s() - cpu
            runs.append({"per_s": round(jobs / elapsed), "cpu_us": round(cpu * 1e6 / jobs, 1)})
            alone.append(target_alone(bench, "0", peer.policy, peer.setting, jobs, IN_FLIGHT))
        bench.print_line(f"  round {number + 1}  {runs[-1]['per_s']:,}/s, {runs[-1]['cpu_us']} us of CPU each  alone {alone[-1]}")
    return {"tarry": {"median": statistics.median(run["per_s"] for run in runs), "runs": runs},
            "per second of CPU": {"median": statistics.median(1e6 / run["cpu_us"] for run in runs), "runs": runs}}


def percentile_ms(server, share):
    """Returns a percentile from the buckets of lateness: the upper end of its bucket."""
    buckets = [(float(le), int(count)) for le, count in BUCKET.findall(call(server, "GET", "/metrics").decode())]
    return next(le * 1000 for le, count in buckets if count >= share * buckets[-1][1])


def deliver_late(bench):
    """lateness of callbacks at 2,000 a second: the bucket that p99 is in"""
    jobs, runs = LATE_PER_S * (4 if bench.quick else 10), []
    for number in range(bench.rounds):
        with Peer(bench) as peer, servers.Server(TARRY, bench.tarry, bench.base_dir, policy=peer.policy) as server:
            call(server, "PUT", "/v1/topics/callbacks", {"deliver": peer.setting})
            begun = time.monotonic()
            push(server, jobs, lambda at: max(0, 3000 + at * 1000 // LATE_PER_S - int((time.monotonic() - begun) * 1000)))
            wait_for(server, jobs)
            runs.append({"p50_ms": percentile_ms(server, 0.5), "p99_ms": percentile_ms(server, 0.99)})
        bench.print_line(f"  round {number + 1}  p50 ≤ {runs[-1]['p50_ms']:g} ms  p99 ≤ {runs[-1]['p99_ms']:g} ms")
    return {"tarry": {"median": statistics.median(run["p99_ms"] for run in runs), "runs": runs}}


PIECES = {piece.__name__: piece for piece in (deliver_rate, deliver_late)}
