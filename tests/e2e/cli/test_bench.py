"""The programs of bench/ run: what they print is of no worth here, only that it is there and that they end well."""

import re
import shutil
import subprocess
import sys

import pytest
from server import BINARY, IS_SANITIZED, REPO

FIGURE = r"\d+(\.\d+)?"


def run(program, *words):
    done = subprocess.run([sys.executable, REPO / "bench" / program, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_scripts_calls_each_case_and_prints_the_fixed_part():
    out = run("scripts", "--jobs", 200, "--batch", 1, "--batch", 20, "--inside", "--pending", 500)
    cases = re.findall(r"^(\w+) +1 ", out, re.M)
    assert {"plain", "push", "nothing", "take", "ack", "step"} <= set(cases)
    for case in cases:
        assert re.search(rf"^{case} +20 ", out, re.M), out
        assert re.search(rf"^{case} +a call +-?{FIGURE} us of CPU, +-?{FIGURE} us in scripts, +-?{FIGURE} commands; each job ", out, re.M), out


def test_run_measures_a_piece_on_redis():
    if not (BINARY.parent / "bench/bench_peers").exists():
        subprocess.run(["cmake", "--build", BINARY.parent, "--target", "bench_peers"], check=True, capture_output=True)
    out = run("run", "--no-build", "--build", BINARY.parent, "--rounds", 1, "--seconds", 1, "--touch", 0, "--only", "tarry", "redis_one_by_one", "redis_burst")
    assert re.search(rf"^ +round 1 +tarry +p99 +{FIGURE} ms +Redis \d+%, {FIGURE} us a job \({FIGURE} in scripts, {FIGURE} calls, ", out, re.M), out
    assert re.search(r"never early +0 early +yes$", out, re.M), out
    assert re.search(rf"^\| 500 due at one moment, two servers, lateness p99 \| {FIGURE} ms \|", out, re.M), out


@pytest.mark.skipif(IS_SANITIZED, reason="valgrind does not run what has a sanitizer in it")
@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind on this machine")
@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_instructions_counts_a_push_a_take_an_ack(store):
    out = run("instructions", "--store", store, "--calls", 64, BINARY)
    assert re.search(r": push [\d,]+, take [\d,]+, ack [\d,]+ instructions$", out.strip()), out


@pytest.mark.skipif(IS_SANITIZED, reason="what it measures is of no interest beside a sanitizer")
@pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo, by which pgmq is fetched")
def test_peers_on_postgres_are_measured_in_turn(tmp_path):
    out = run("sql/peers", "--quick", "--binary", BINARY, "--build", tmp_path, "--only", "pgmq", "drain")
    if "cannot be fetched" in out:
        pytest.skip("pgmq cannot be fetched")
    for name in ("tarry", "tarry, tuned", "pgmq", "pgmq, tuned"):
        assert re.search(rf"^\| {name} \| [\d,]+ \| [\d,]+–[\d,]+ \| \d+ µs \|", out, re.M), out
    assert re.search(rf"^drain, tarry against pgmq: {FIGURE} ×, to reach 1.2 ×$", out, re.M), out


def test_drain_prints_the_total_cost_of_takes_and_acks():
    out = run("sql/drain", "--binary", BINARY, "--against", BINARY, "--rounds", 1, "--jobs", 2000, "--shape", "2x100")
    for name in ("tarry", "the other tarry"):
        assert re.search(rf"^{name}, 2 x 100 +[\d,]+/s +database +{FIGURE} +server +{FIGURE} +client +{FIGURE} +all +{FIGURE} us$", out, re.M), out
