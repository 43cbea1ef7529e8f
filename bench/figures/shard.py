"""The room below the network: engine and store of one shard (bench/shard.c)."""

import json
import os
import shutil
import subprocess
import tempfile

from . import watch


def one(bench, *words):
    """Runs bench_shard once in a directory of its own and returns its output."""
    program = os.path.join(os.path.dirname(bench.generator), "bench_shard")
    top = tempfile.mkdtemp(prefix="tarry-bench-shard-", dir=bench.base_dir)
    try:
        done = subprocess.run([program, *words, os.path.join(top, "data")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if done.returncode != 0:
        raise RuntimeError(f"bench_shard: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def shard(bench):
    """engine and store without a network: durable pushes, fired and acked, at 1 and 10 million jobs; bytes written a job (--jobs: one size)"""
    sizes = [bench.jobs] if bench.jobs else [500_000] if bench.quick else [1_000_000, 10_000_000]
    watch.need_space(bench, max(sizes), 800)
    runs = [one(bench, "--json", "--outlive", str(jobs)) for jobs in sizes] + [one(bench, "--json", "--short", str(min(sizes)))]
    for run in runs:
        what = "outlive the log" if run["outlives"] else "do not"
        bench.print_line(f"  {run['jobs']:>10,} that {what:16} {run['pushed_per_s']:>10,.0f} pushed/s  {run['fired_per_s']:>10,.0f} fired and acked/s  "
                  f"{run['written_per_job']:.0f} bytes written a job of {run['record_bytes']}: {run['ratio']:.2f} x (log {run['log_ratio']:.2f}, runs "
                  f"{run['runs_ratio']:.2f}, zeros into new log files {run['filled_ratio']:.2f})  {run['checkpoints']} checkpoints, "
                  f"{run['far_before_firing']:,} in {run['runs_before_firing']} runs before  peak {run['peak_mib']} MiB")
    outliving = [run for run in runs if run["outlives"]]
    found = {"sizes": runs, "slowest_pushed_per_s": min(run["pushed_per_s"] for run in outliving),
             "slowest_fired_per_s": min(run["fired_per_s"] for run in outliving), "outlives_ratio": max(run["ratio"] for run in outliving),
             "short_ratio": max(run["ratio"] for run in runs if not run["outlives"])}
    return {"tarry": {"median": found["slowest_pushed_per_s"], "runs": [found]}}


PIECES = {piece.__name__: piece for piece in (shard,)}
