"""
The suites of beanstalkd's clients, and its own, as they are, against the server that TARRY_BIN names.

    python3 tests/clients/beanstalk_suites.py [--source NAME=DIRECTORY]... [NAME...]

testserv     beanstalkd's testserv.c, 63 cases        --source testserv=DIRECTORY: beanstalkd 1.13
greenstalk   of Python                                --source greenstalk=DIRECTORY: greenstalk 2.1; the package has no tests
pystalk      of Python                                --source pystalk=DIRECTORY: pystalk 0.9; the package has no tests
jackd        of JavaScript                            --source jackd=DIRECTORY: jackd 3.1; the package has no tests
fivebeans    of JavaScript, from npm with its tests   port 11300 is free
pheanstalk   of PHP                                   --source pheanstalk=DIRECTORY: pheanstalk 5.0.11, with Debian's phpunit 9

Without names: all. A suite whose sources or tools are missing is reported as not run. Libraries come from their registries into a temporary
directory. Exit code 1: a case failed that is not named in docs/beanstalk.md.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "support")]

from server import BINARY, Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent / "beanstalk"

# Cases that fail here, each as documented in docs/beanstalk.md.
KNOWN = {
    "cttest_binlog_size_limit",  # waits for the second file of beanstalkd's log
    "cttest_binlog_disk_full", "cttest_binlog_disk_full_delete",  # a write fails inside the server's process
}


class NotRun(Exception):
    pass


def run(command, directory, *, seconds=600, **env):
    return subprocess.run([str(part) for part in command], cwd=directory, env={**os.environ, "TARRY_BIN": str(BINARY), "TMPDIR": str(directory), **env},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)


def must(command, directory, **env):
    done = run(command, directory, **env)
    if done.returncode:
        raise NotRun(f"{' '.join(map(str, command))}: {done.stdout[-1500:]}")
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise NotRun(f"there is no {program}")


def copied(sources, name, directory):
    if name not in sources:
        raise NotRun(f"its tests are in its repository alone: --source {name}=DIRECTORY")
    shutil.copytree(sources[name], directory / name, ignore=shutil.ignore_patterns(".git"))
    return directory / name


# ---- beanstalkd's own ----


def testserv(sources, directory):
    """(passed, failed): names. Each case in a process of its own, as one never ends."""
    need("gcc", "nm")
    source = copied(sources, "testserv", directory)
    for name in ("testserv", "util", "time", "linux"):
        must(["gcc", "-I.", "-c", f"{name}.c"], source)
    cases = must(["sh", "ct/gen", "testserv.o"], source)
    (source / "ct/cases.c").write_text(cases, encoding="utf-8")
    must(["gcc", "-I.", "-Ict", "-o", "check", "ct/ct.c", "ct/cases.c", HERE / "testserv_server.c", HERE / "server.c", "testserv.o", "util.o", "time.o", "linux.o", "-lrt"], source)

    def passes(name):
        case = subprocess.Popen(["timeout", "-k", "1", "30", "./check"], cwd=source, env={**os.environ, "TARRY_BIN": str(BINARY), "TRY_CASE": name},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        result = case.wait()
        # If a suite never ends, its server continues, in a directory that is not removed.
        left = subprocess.run(["pgrep", "-a", "-s", str(case.pid)], capture_output=True, text=True, check=False).stdout
        subprocess.run(["pkill", "-KILL", "-s", str(case.pid)], check=False)
        for directory in re.findall(r"--data (/tmp/ct\.\w+)/data", left):
            shutil.rmtree(directory, ignore_errors=True)
        return result == 0

    names = sorted(set(re.findall(r"cttest_\w+", cases)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip(names, pool.map(passes, names)))
    return [name for name in names if results[name]], [name for name in names if not results[name]]


# ---- Python ----


def counted(done):
    """Reads the counts from the last lines of pytest, Mocha, Vitest or PHPUnit."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    if done.returncode and not re.search(r"\d+ (passed|passing)|Tests: \d+|\d+ failed", text):
        raise NotRun(text[-1500:])
    return text


def with_more_tries(result, again):
    """Decides the result: some cases allow 50 ms, or count seconds, and fail now and then on a busy machine."""
    passed, failed = result
    for _ in range(5):
        if failed:
            more, failed = again(failed)
            passed += more
    return passed, failed


def pytest_counts(done):
    text = counted(done)
    passed = int((re.search(r"(\d+) passed", text) or [0, 0])[1])
    return passed, re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)


def python(name, tests, packages, sources, directory):
    source = copied(sources, name, directory)
    need("gcc")
    must(["gcc", "-o", "beanstalkd", HERE / "beanstalkd.c", HERE / "server.c"], directory)
    must([sys.executable, "-m", "venv", "venv"], directory)
    must(["venv/bin/pip", "install", "--quiet", name, "pytest", *packages], directory)

    def pytest(*which):
        return pytest_counts(run([directory / "venv/bin/python", "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-o", "addopts=", *which], source,
                                 BEANSTALKD_PATH=str(directory / "beanstalkd")))

    return with_more_tries(pytest(*tests), lambda failed: pytest(*failed))


def greenstalk(sources, directory):
    return python("greenstalk", ["tests"], [], sources, directory)


def pystalk(sources, directory):
    return python("pystalk", ["tests"], ["pytest-mock", "attrs"], sources, directory)


# ---- JavaScript ----


@contextlib.contextmanager
def serving(directory, address="127.0.0.1:11300"):
    """Starts the server at the only port that some suites use."""
    server = Server(directory / "served", ["--beanstalk", address])
    server.start()
    try:
        yield
    finally:
        server.terminate()


def fivebeans(_sources, directory):
    need("npm", "node")
    must(["npm", "pack", "--silent", "fivebeans@1.5.0"], directory)
    must(["tar", "xzf", "fivebeans-1.5.0.tgz"], directory)
    package = directory / "package"
    must(["npm", "install", "--silent", "--no-audit", "--no-fund", "--omit=dev"], package)
    must(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-save", "mocha@3.0.2", "must@0.13.2"], package)
    with serving(directory):
        text = counted(run(["node_modules/.bin/mocha", "-t", "8000", "test/"], package))
    return int(re.search(r"(\d+) passing", text)[1]), re.findall(r"^  \d+\) (.+)", text, re.MULTILINE)


def jackd(sources, directory):
    need("npm", "node")
    source = copied(sources, "jackd", directory)
    (source / "package.json").write_text('{"name": "try", "type": "module"}', encoding="utf-8")
    must(["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-save", "vitest@3.0.2", "yaml@2.7.0"], source)
    with serving(directory):
        text = counted(run(["node_modules/.bin/vitest", "run"], source))
    return int(re.search(r"Tests .*?(\d+) passed", text)[1]), re.findall(r"FAIL +(.+)", text)


# ---- PHP ----


AUTOLOAD = r"""<?php
spl_autoload_register(static function (string $class): void {
    foreach (['Pheanstalk\\Tests\\' => 'tests', 'Pheanstalk\\' => 'src'] as $prefix => $folder) {
        $path = __DIR__ . "/../$folder/" . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($path)) {
            require $path;
            return;
        }
    }
});
"""


def pheanstalk(sources, directory):
    need("php", "phpunit")
    source = copied(sources, "pheanstalk", directory)
    (source / "vendor").mkdir()
    (source / "vendor/autoload.php").write_text(AUTOLOAD, encoding="utf-8")

    def phpunit(*flags):
        text = counted(run(["phpunit", "--no-configuration", "--bootstrap", "tests/bootstrap.php", *flags, "tests"], source,
                           SERVER_HOST="127.0.0.1", UNIX_SERVER_HOST=f"unix://{directory}/socket"))
        failed = re.findall(r"^\d+\) (\S+)", text, re.MULTILINE)
        found = re.search(r"OK.*\((\d+) test", text) or re.search(r"Tests: (\d+)", text)
        return int(found[1]) - len(failed), failed

    with serving(directory / "tcp"), serving(directory / "unix", f"unix:{directory}/socket"):
        return with_more_tries(phpunit(), lambda failed: phpunit("--filter", "|".join(name.rsplit("\\", 1)[-1] for name in failed)))


SUITES = {suite.__name__: suite for suite in (testserv, greenstalk, pystalk, jackd, fivebeans, pheanstalk)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--source", action="append", default=[])
    parser.add_argument("names", nargs="*", choices=[[], *SUITES])
    answer = parser.parse_args()
    sources = dict(pair.split("=", 1) for pair in answer.source)
    bad = 0
    for name in answer.names or SUITES:
        with tempfile.TemporaryDirectory(prefix=f"tarry-{name}-") as directory:
            try:
                passed, failed = SUITES[name](sources, pathlib.Path(directory))
            except NotRun as why:
                print(f"{name}: not run, {why}", flush=True)
                continue
        passed = passed if isinstance(passed, int) else len(passed)
        print(f"{name}: {passed} of {passed + len(failed)}", *(f"  failed: {case}" for case in failed), sep="\n", flush=True)
        bad += any(case not in KNOWN for case in failed)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
