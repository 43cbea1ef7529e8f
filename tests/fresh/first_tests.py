"""first_tests.py SET...: collects each group of tests that needs the last of these package sets and no others than these, and runs the first test of each that is not skipped,
if it needs no program but tarry.

Runs in the root, in the clone."""

import importlib.machinery
import importlib.util
import os
import re
import shlex
import subprocess
import sys

loader = importlib.machinery.SourceFileLoader("groups", "scripts/test")
groups = importlib.util.module_from_spec(importlib.util.spec_from_loader("groups", loader))
sys.dont_write_bytecode = True
loader.exec_module(groups)


COLLECTED_ONLY = ("kill", "kill_thorough", "power", "schedules_long", "schedules_years", "sql_kill")  # a test takes minutes
BUILT = {"tarry", "recover", "tarry_shared"}  # first tests need none of them but tarry, which the demo has built


def is_tried(group):
    return group.name not in COLLECTED_ONLY and set(group.targets) <= BUILT


def pytest(group, *words):
    marks = ["-m", group.marks] if group.marks else []
    command = [groups.PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *marks, *words]
    return subprocess.run(command, env={**group.environ(), "TARRY_BIN": os.path.abspath("build/tarry")}, capture_output=True, text=True, check=False)


def try_group(group):
    """Returns the faults; empty if all is well."""
    collected = pytest(group, "--collect-only", *shlex.split(group.options), *group.arguments)
    names = re.findall(r"^\S+\.py::.*$", collected.stdout, re.MULTILINE)
    if collected.returncode != 0 or not names:
        return f"not collected:\n{collected.stdout[-3000:]}{collected.stderr[-1000:]}"
    print(f"{group.name}: {len(names)} tests", flush=True)
    firsts = {name.partition("::")[0]: name for name in reversed(names)}  # of each file
    for name in reversed(firsts.values()) if is_tried(group) else ():
        ran = pytest(group, name)
        print(f"    {name}: {ran.stdout.splitlines()[-1] if ran.stdout else ran.stderr}", flush=True)
        if ran.returncode != 0:
            return f"'{name}' does not pass:\n{ran.stdout[-3000:]}{ran.stderr[-1000:]}"
        if "1 passed" in ran.stdout:
            return ""
    return "every first test of a file is skipped" if is_tried(group) else ""


def lacks(group):
    """The reason why the group cannot run here, or None: it needs what no package set has, such as a newer compiler."""
    done = subprocess.run(["bash", "-euc", group.can or ":"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no reason is printed" if done.returncode != 0 else None


faults = []
for one in groups.read_groups().values():
    if one.pytest and sys.argv[-1] in one.needs and set(one.needs) <= set(sys.argv[1:]) and one.preset in ("asan", "dev", "none"):
        if why := lacks(one):
            print(f"{one.name}: left out, {why}", flush=True)
        elif fault := try_group(one):
            faults.append(f"group '{one.name}': {fault}")
print("\n".join(faults))
sys.exit(bool(faults))
