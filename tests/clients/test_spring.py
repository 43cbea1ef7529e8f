"""clients/java-spring in a real Spring Boot application with a real database (src/test), and the page that shows it. Its packages come from Maven Central."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import languages
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
MODULE = REPO / "clients" / "java-spring"
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from server import Server  # noqa: E402

if not languages.chosen(["java"]):
    pytest.skip("another client was picked", allow_module_level=True)


def maven(*command, **env):
    done = subprocess.run(["mvn", "-q", "-B", *command], env={**os.environ, **env}, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_listeners_and_transactions_in_spring_boot(tmp_path):
    if lacking := [program for program in ("mvn", "javac") if not shutil.which(program)]:
        pytest.skip(f"not run: Spring Boot, {', '.join(lacking)} is not installed")
    maven("-f", str(REPO / "clients" / "java" / "pom.xml"), "install", "-DskipTests")
    server = Server(tmp_path / "server").start()
    try:
        maven("-f", str(MODULE / "pom.xml"), "test", TARRY_URL=server.url)
    finally:
        server.terminate()


def test_the_page_shows_the_tested_program():
    page = (REPO / "docs" / "frameworks.md").read_text(encoding="utf-8")
    shown = re.search(r"```java\n// Orders.java\n(.*?)```", page, re.DOTALL).group(1)
    assert shown == (MODULE / "src/test/java/shop/Orders.java").read_text(encoding="utf-8")


def test_the_module_has_the_version_of_the_client():
    client, module = ((REPO / "clients" / name / "pom.xml").read_text(encoding="utf-8") for name in ("java", "java-spring"))
    version = re.compile(r"^  <version>(.*)</version>", re.MULTILINE)
    shown = re.search(r"<artifactId>tarry-spring-boot</artifactId>\n  <version>(.*)</version>", (REPO / "docs" / "frameworks.md").read_text(encoding="utf-8"))
    assert version.search(module)[1] == version.search(client)[1] == shown[1]
