"""The other queues on Redis: how BullMQ and Redisson are fetched and driven. Also fetches ElasticMQ."""

import json
import os
import shutil
import subprocess

from . import packages

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BULLMQ, REDISSON, ELASTICMQ = (os.path.join(BENCH, name) for name in ("bullmq", "redisson", "elasticmq"))
TAKERS = "32"  # of Redisson's consumer: with 8 a whole life is a tenth slower, with 1 by half


def bullmq(bench, port, core, mode, *numbers):
    """Runs bench/bullmq/drive.js once and returns its output."""
    modules = os.path.join(fetched(bench, "bullmq"), "node_modules")
    return driven(bench, "bullmq", core, ["node", os.path.join(BULLMQ, "drive.js"), port, mode, *numbers], NODE_PATH=modules, NODE_ENV="production")


def redisson(bench, port, core, mode, *numbers):
    """Runs bench/redisson/Drive.java once and returns its output."""
    jars = os.path.join(fetched(bench, "redisson"), "*")
    return driven(bench, "redisson", core, ["java", "-cp", jars, os.path.join(REDISSON, "Drive.java"), port, mode, *numbers], TAKERS=TAKERS)


def driven(bench, name, core, command, **environment):
    pinned = ["taskset", "-c", core] if core else []
    done = subprocess.run([*pinned, *map(str, command)], text=True, capture_output=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    if result.get("problem") or result["missing"]:
        bench.print_line(f"    {name}: missing {result['missing']}  {result.get('problem', '')}")
    return result


def fetched(bench, name):
    """Returns the folder of its packages, beside the build."""
    here = os.path.join(os.path.dirname(bench.generator), name)
    if name == "bullmq":
        return str(packages.npm(here, os.path.join(BULLMQ, "package.json")))
    return str(packages.maven(here, os.path.join({"redisson": REDISSON, "elasticmq": ELASTICMQ}[name], "pom.xml")))


def has(bench, name, title, programs):
    """Checks whether it can be measured; prints the reason if not."""
    if bench.only and name not in bench.only:
        return False
    for program in programs:
        if not shutil.which(program):
            bench.print_line(f"  '{program}' is not installed, '{name}' is left out: see scripts/setup")
            return False
    try:
        fetched(bench, name)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        bench.print_line(f"  {title} cannot be fetched, it is left out")
        return False
    return True


def has_bullmq(bench):
    return has(bench, "bullmq", "BullMQ", ("node", "npm"))


def has_redisson(bench):
    return has(bench, "redisson", "Redisson", ("javac", "mvn"))
