"""Jars for tests, which Maven brings once into the user's cache."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

DOWNLOAD_SECONDS = 300.0  # Maven took 60 s for a part of the jars beside other work


def find_jars(name, pattern, pom):
    """Returns (the directory of the jars, "") or (None, the reason). `pattern`: one of the jars."""
    if not shutil.which("javac"):
        return None, "no Java compiler"
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tarry-tests" / name
    if any(cache.glob(pattern)):
        return cache, ""
    if not shutil.which("mvn"):
        return None, "no Maven, and the jars are not in the cache"
    cache.parent.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="download-", dir=cache.parent))
    try:
        (directory / "pom.xml").write_text(pom)
        command = ["mvn", "-q", "-B", "-Dmaven.wagon.http.retryHandler.count=0", "dependency:copy-dependencies", "-DincludeScope=runtime",
                   f"-DoutputDirectory={directory / 'jars'}"]
        maven = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = maven.communicate(timeout=DOWNLOAD_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(maven.pid, signal.SIGKILL)
            maven.communicate()
            return None, f"Maven did not bring the jars within {DOWNLOAD_SECONDS:.0f} s"
        if maven.returncode != 0 or not any((directory / "jars").glob(pattern)):
            return None, "Maven could not bring the jars: " + output.decode(errors="replace")[-300:]
        with contextlib.suppress(OSError):  # another process was faster
            (directory / "jars").rename(cache)
        return cache, ""
    finally:
        shutil.rmtree(directory, ignore_errors=True)
