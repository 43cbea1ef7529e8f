"""Clients that openapi-generator makes from openapi.yaml are compiled and used against a real server. Their packages come from the registries of
their languages."""

import base64
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from pinned import environment  # noqa: E402
from server import Server  # noqa: E402

HERE, PLACE = REPO / "tests" / "generated", REPO / "build-generated"
GENERATOR = "7.25.0"
PAGE = (REPO / "docs" / "clients.md").read_text(encoding="utf-8")
WITHOUT = ["--global-property", "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false"]  # files that nothing here reads
NEWTONSOFT = "/usr/lib/cli/Newtonsoft.Json-5.0/Newtonsoft.Json.dll"
BODY = bytes(range(256))


def run(*command, cwd, **variables):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command[:4]}: {(done.stdout + done.stderr)[-6000:]}"
    return done.stdout


def lacking(*programs):
    return [program for program in programs if not shutil.which(program) or (program == "cargo" and cargo_is_old())]


def cargo_is_old():
    """Packages of today need a Cargo that reads Cargo.lock of version 4."""
    version = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout.split()[1:2]
    return not version or tuple(map(int, version[0].split("-")[0].split("."))) < (1, 85)


def generator():
    """The program, from Maven Central."""
    jar = PLACE / f"openapi-generator-cli-{GENERATOR}.jar"
    if not jar.exists():
        run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact=org.openapitools:openapi-generator-cli:{GENERATOR}", f"-DoutputDirectory={PLACE}", cwd=PLACE)
    return jar


def options(language):
    """The options of the command that the page shows for this language."""
    found = re.search(rf"^\| {re.escape(language)} \| `([^`]*)` \|", PAGE, re.MULTILINE)
    assert found, f"docs/clients.md shows no options for {language}"
    return found[1].split()


def python(place):
    return [environment("generated") / "bin" / "python", "use.py"]


def typescript(place):
    if not (place / "node_modules" / "typescript").exists():
        run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=place)
    run("npx", "tsc", cwd=place)
    return ["node", "made/use.js"]


def go(place):
    run("go", "build", "-o", "use", ".", cwd=place, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")
    return [place / "use"]


def java(place):
    if not (place / "lib").exists():
        run("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=place)
    sources = [*place.glob("tarry-api/src/main/java/**/*.java"), place / "Use.java"]
    run("javac", "-nowarn", "-cp", "lib/*", "-d", "classes", *sources, cwd=place)
    return ["java", "-cp", "classes:lib/*", "Use"]


def rust(place):
    run("cargo", "build", "--quiet", "--locked", cwd=place)
    return [place / "target" / "debug" / "use-tarry-api"]


def csharp(place):
    """Debian 12 does not have .NET. Its Mono has a compiler and all libraries that the client needs."""
    names = ["System.Net.Http", "System.Web", "System.Runtime.Serialization", "System.ComponentModel.DataAnnotations", NEWTONSOFT]
    sources = [*place.glob("tarry-api/src/TarryApi/**/*.cs"), *place.glob("*.cs")]
    run("mcs", "-langversion:latest", "-warn:0", "-out:use.exe", *[f"-r:{name}" for name in names], *sources, cwd=place)
    return ["mono", "use.exe"]


# The language as the page names it, how its program is made, and what that needs.
LANGUAGES = {
    "Python": (python, ["python3"]), "TypeScript": (typescript, ["node", "npm"]), "Go": (go, ["go"]), "Java": (java, ["javac"]),
    "Rust": (rust, ["cargo"]), "C#": (csharp, ["mcs", "mono"]),
}


def made(language):
    """Generates and compiles a client with its program, unless that was done before from the same files; returns the command."""
    build, programs = LANGUAGES[language]
    if missing := lacking("mvn", "java", *programs):
        pytest.skip(f"not run: {language}, {', '.join(missing)} is not here")
    name = build.__name__
    place, sources = PLACE / name, HERE / name
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / "made.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files = [REPO / "openapi.yaml", *sorted(path for path in sources.rglob("*") if path.is_file())]
        wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files) + " ".join([GENERATOR, *options(language)]).encode()).hexdigest()
        shutil.copytree(sources, place, dirs_exist_ok=True)
        if not (place / "made-of").exists() or (place / "made-of").read_text(encoding="ascii") != wanted:
            (place / "made-of").unlink(missing_ok=True)
            shutil.rmtree(place / "tarry-api", ignore_errors=True)
            run("java", "-jar", generator(), "generate", "-i", REPO / "openapi.yaml", "-o", "tarry-api", *options(language), *WITHOUT, cwd=place)
        command = build(place)
        (place / "made-of").write_text(wanted, encoding="ascii")
    return command, place


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("generated")).start()
    yield found
    found.terminate()


@pytest.fixture(scope="module", params=LANGUAGES)
def used(request, server, tmp_path_factory):
    """Runs the program of a language; returns its output, and its topic."""
    command, place = made(request.param)
    body = tmp_path_factory.mktemp("body") / "body"
    body.write_bytes(BODY)
    topic = re.sub(r"\W", "-", request.param.lower())
    return json.loads(run(*command, topic, body, cwd=place, TARRY_URL=server.url, PYTHONPATH="tarry-api")), topic


def test_settings_are_replaced_and_patched(used):
    seen, _ = used
    assert seen["settings"] == ["45s", 3, "1000/s"]
    assert seen["patched"] == "none"


def test_a_pushed_body_keeps_its_bytes(used):
    seen, _ = used
    assert seen["pushed"] == "created"
    assert seen["taken"] == ["now", base64.b64encode(BODY).decode(), 1]


def test_numbers_above_32_bits_arrive_whole(used):
    seen, _ = used
    assert seen["delivery"] > 2**32


def test_a_delayed_job_is_listed_with_its_due_time(used):
    seen, _ = used
    assert seen["delayed"] == "delayed"
    assert seen["listed"] == [["later", "delayed", 7]]
    assert abs(seen["due_at"] - (time.time() + 3600)) < 300


def test_a_lease_is_extended_and_acknowledged(used):
    seen, _ = used
    assert seen["extended"] == seen["acked"] == "ok"


def test_a_batch_reports_its_bad_item(used):
    seen, _ = used
    assert seen["batch"] == ["created", "created", "bad_id"]
    assert seen["bodies"] == [{"n": 1}, {"kind": "x"}, "text"]


def test_leases_are_given_up_with_options_of_their_own(used, server):
    seen, topic = used
    assert seen["nacked"] == "delayed" and seen["last_error"] == "too early"
    assert seen["returned"] == "ready"
    assert seen["counts"] == [1, 1, 0]
    assert {job["id"]: job["state"] for job in server.client().list(topic)["jobs"]} == {"a": "delayed", "b": "ready"}


def test_a_cancelled_job_is_gone(used):
    seen, _ = used
    assert seen["cancelled"] == "cancelled"


def test_refusals_have_their_status_and_code(used):
    seen, _ = used
    assert seen["acked_again"] == [409, "lease_ended"]
    assert seen["missing"] == [404, "not_found"]
    assert seen["bad_delay"] == [400, "bad_option"]


def test_answers_about_the_server_are_read(used):
    seen, _ = used
    assert seen["about"][:2] == ["tarry", "embedded"] and isinstance(seen["about"][2], bool)
