"""scripts/test on a small repository of its own: which files belong to a group, what is counted, repeated and printed."""

import os
import pathlib
import re
import subprocess
import tomllib

import pytest

RUNNER = pathlib.Path(__file__).resolve().parents[2] / "scripts/test"

TESTS = """
import pathlib, pytest, time
def test_good(): pass
def test_bad(): assert 1 == 2, "one is not two"
def test_once():
    first = pathlib.Path(__file__).with_suffix(".first")
    if not first.exists():
        first.touch()
        while "named" in __file__ and time.process_time() < 1.5: pass
        raise ValueError("only the first time")
@pytest.mark.skip(reason="no broker here")
def test_skipped(): pass
@pytest.mark.thorough("slow")
def test_slow(): pass
"""
GROUPS = """
[quick]
about = "a group of make test"
make = "test"
pytest = ["tests/one"]
build = "none"
seconds = 2
[thorough]
about = "what it leaves out"
pytest = ["tests/one"]
also = true
marks = "thorough"
build = "none"
seconds = 1
[rest_named]
about = "a file by its name"
pytest = ["tests/one/test_named.py"]
build = "none"
seconds = 5
[rest_junit]
about = "a command that counts"
command = "echo '1) testPoll(Queue)'; echo 'Tests run: 5,  Failures: 1'; exit 1"
build = "none"
seconds = 1
[rest_absent]
about = "a command that cannot run here"
command = "echo 'no JDK'; exit 77"
build = "none"
seconds = 1
[memory]
about = "prints where its tests write"
make = "test"
command = "echo $TMPDIR"
build = "none"
seconds = 1
[disk]
about = "the same of a group that is for the disk"
make = "test"
command = "echo $TMPDIR"
disk = true
build = "none"
seconds = 1
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "tests/one").mkdir(parents=True)
    (tmp_path / "bindings/python/tests").mkdir(parents=True)
    (tmp_path / "tests/groups.toml").write_text(GROUPS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = thorough\n", encoding="utf-8")
    (tmp_path / "tests/one/test_found.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "tests/one/test_named.py").write_text(TESTS, encoding="utf-8")

    def run(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        done = subprocess.run([RUNNER, *words], capture_output=True, text=True, check=False, timeout=120, env={**environment, "TARRY_TEST_ROOT": str(tmp_path)})
        return done.returncode, done.stdout + done.stderr

    return run


def test_counts_failures_and_skips_and_ends_with_the_count(run):
    code, out = run()
    assert code == 1 and out.splitlines()[-1] == "3 passed, 2 failed, 1 skipped"
    assert "test_found::test_bad: AssertionError: one is not two" in out and "whole log: build-test/quick.log" in out
    assert "1 quick: no broker here" in out


def test_make_test_repeats_no_failure(run):
    _, out = run("test")
    assert "again" not in out and "NOT STEADY" not in out


def test_names_tests_that_pass_only_when_repeated(run):
    code, out = run("rest_named")
    assert code == 1 and out.splitlines()[-1] == "3 passed, 1 failed, 1 skipped"
    assert "NOT STEADY: test_named::test_once (rest_named)" in out and "test_bad (" not in out
    row = next(line for line in out.splitlines() if line.startswith("rest_named  "))
    assert int(row.split()[6]) >= 2, "the processor time of both runs"


def test_folder_of_a_group_leaves_out_files_that_others_name(run):
    assert run("thorough")[1].splitlines()[-1] == "2 passed, 0 failed, 0 skipped"  # of both files
    assert "test_named" not in run("quick")[1]


def test_adds_the_counts_of_the_run_before(run):
    run("thorough")
    code, out = run("--add", "rest_junit", "rest_absent")
    assert code == 1 and out.splitlines()[-1] == "6 passed, 1 failed, 1 skipped"
    assert "testPoll(Queue)" in out and "1 rest_absent: no JDK" in out


def test_refuses_files_in_no_group_and_unknown_groups(run, tmp_path):
    assert "unknown group 'quack', give one or more of: test rest ci all quick thorough" in run("quack")[1]
    (tmp_path / "tests/test_lost.py").touch()
    code, out = run("quick")
    assert code != 0 and "'tests/test_lost.py' is in no group" in out


def test_groups_of_make_test_write_to_memory_except_those_for_the_disk(run, tmp_path, monkeypatch):
    (tmp_path / "shm").mkdir()
    monkeypatch.setenv("TARRY_TEST_MEMORY", str(tmp_path / "shm"))
    run("memory", "disk")
    log = {name: (tmp_path / f"build-test/{name}.log").read_text(encoding="utf-8") for name in ("memory", "disk")}
    assert log["memory"].startswith(str(tmp_path / "shm/t.")) and not log["disk"].startswith(str(tmp_path / "shm"))
    assert list((tmp_path / "shm").iterdir()) == []
    monkeypatch.setenv("TARRY_TEST_MEMORY", "")
    run("memory")
    assert not (tmp_path / "build-test/memory.log").read_text(encoding="utf-8").startswith(str(tmp_path / "shm"))


def test_groups_with_a_turn_run_in_their_turn_only(run, tmp_path, monkeypatch):
    rows = "".join(f'[turn_{turn}]\nabout = "."\ncommand = "true"\nbuild = "none"\nneeds = ["set_{turn}"]\nturn = {turn}\nseconds = 1\n' for turn in (1, 2))
    (tmp_path / "tests/groups.toml").write_text(GROUPS + rows + '[never]\nabout = "."\ncommand = "true"\nbuild = "none"\nneeds = ["none"]\nci = false\nseconds = 1\n', encoding="utf-8")
    for turn in (1, 2):
        monkeypatch.setenv("TARRY_TEST_TURN", str(turn))
        assert {word for word in run("--sets", "ci")[1].split() if "_" in word} == {f"set_{turn}"}
    assert {"set_1", "set_2", "none"} <= set(run("--sets", "rest")[1].split())
    monkeypatch.setenv("TARRY_TEST_TURN", "5")
    assert "TARRY_TEST_TURN is '5', give a number from 1 to 4" in run("--sets", "ci")[1]
    # Without the variable, the second of the commit decides.
    monkeypatch.delenv("TARRY_TEST_TURN")
    subprocess.run("git init -q . && git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m one", shell=True, check=True, cwd=tmp_path,
                   env={**os.environ, "GIT_COMMITTER_DATE": "@1700000001 +0000"})
    assert {word for word in run("--sets", "ci")[1].split() if "_" in word} == {"set_2"}


def test_prints_groups_and_package_sets(run):
    assert "quick                   test" in run("--list")[1]
    assert run("--sets", "rest")[1].split() == ["build", "test"]


def test_groups_that_need_only_the_program_run_while_programs_of_tests_are_built(run, tmp_path, monkeypatch):
    rows = {"program": "touch has_run", "suite": "test -e has_run"}
    targets = {"program": "", "suite": 'targets = ["all"]'}
    (tmp_path / "tests/groups.toml").write_text(GROUPS + "".join(
        f'[{name}]\nabout = "."\ncommand = "{command}"\nseconds = 1\n{targets[name]}\n' for name, command in rows.items()), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    cmake = tmp_path / "bin/cmake"
    # The second build ends when the first group has run.
    cmake.write_text('#!/bin/sh\ncase "$*" in --preset* | *--target*) exit 0 ;; esac\nfor _ in $(seq 600); do [ -e has_run ] && exit 0; sleep 0.1; done\nexit 1\n', encoding="utf-8")
    cmake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    code, out = run("program", "suite")
    assert (code, out.splitlines()[-1]) == (0, "2 passed, 0 failed, 0 skipped"), out


def test_files_of_the_group_doors_reach_servers_by_the_client_that_speaks_tls():
    root = RUNNER.parents[1]
    files = tomllib.loads((root / "tests/groups.toml").read_text())["doors"]["pytest"]
    assert files and [file for file in files if "create_connection" in (root / file).read_text()] == []


def test_each_target_that_a_group_builds_exists():
    root = RUNNER.parents[1]
    made = "\n".join(file.read_text() for file in (root / "CMakeLists.txt", *root.glob("*/CMakeLists.txt"), *root.glob("*/*/CMakeLists.txt"), *root.glob("cmake/*.cmake")))
    known = {"all", *re.findall(r"add_(?:executable|library|custom_target)\((\w+)", made)}
    known |= {f"check_{path.name}" for path in root.glob("tests/unit/*/") if list(path.glob("test_*.c"))}
    known |= {path.stem for path in root.glob("tests/unit/*/test_*.c")} | {f"{path.stem}_{kind}" for path in root.glob("tests/library/*.c") for kind in ("static", "shared")}
    groups = tomllib.loads((root / "tests/groups.toml").read_text())
    assert {name: lacks for name, row in groups.items() if (lacks := set(row.get("targets", ())) - known)} == {}
