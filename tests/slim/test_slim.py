"""Builds without some wings: they link fewer libraries, keep the rest of the functions, and report the missing wings.

All in one build directory, from the slimmest on: each file is compiled once for all, because no file of the core depends on the wings. It stays in
build-slim/ for the next time. Bytes of text are unsigned here, as on arm64: the compiler rejects comparisons that then always have one result, and tests of text run.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support"), str(REPO / "tests")]

import server as serving  # noqa: E402
from wings import kinds_of_targets  # noqa: E402

BUILD = REPO / "build-slim"
TARGETS = kinds_of_targets()
WINGS = ("redis", "sql", "delivery", *TARGETS, "beanstalk", "grpc", "mykit", "schedules", "sqs", "http2", "jwt", "console", "traces")
# Libraries that a build with only these wings links, and those that it must not link.
LIBRARIES = {"redis": "libhiredis", "amqp": "librabbitmq", "kafka": "librdkafka", "http2": "libnghttp2", "grpc": "libprotobuf-c"}
BUILDS = {"slimmest": (), "redis": ("redis",), "callbacks": ("delivery",), "all but Kafka": tuple(wing for wing in WINGS if wing != "kafka")}
# Unit tests of rooms that have wings, or of their replacements; and of text.
TESTS = ("test_exposure", "test_api_delivery", "test_api_front", "test_secret", "test_target_setting", "test_text",
         "test_hex", "test_http_host", "test_api_media", "test_http_request", "test_job", "test_json", "test_url")


@pytest.fixture(scope="module", params=BUILDS)
def build(request):
    wings = BUILDS[request.param]
    options = [f"-DTARRY_WITH_{wing.upper()}={'ON' if wing in wings else 'OFF'}" for wing in WINGS]
    done("cmake", "-S", REPO, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=", "-DCMAKE_C_FLAGS=-funsigned-char", *options)
    targets = done("ninja", "-C", BUILD, "-t", "targets", "all")
    tests = [test for test in TESTS if f"\n{test}:" in targets]
    done("cmake", "--build", BUILD, "--target", "tarry", *tests)
    return wings, tests


def done(*command):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


def tarry(*words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
    ended = subprocess.run([str(BUILD / "tarry"), *words], capture_output=True, text=True, check=False, timeout=60, env=environment)
    return ended.returncode, ended.stdout + ended.stderr


def test_lists_its_features(build):
    wings, _ = build
    code, out = tarry("version", "--features", "--json")
    assert code == 0
    features = json.loads(out)["features"]
    assert {name for name in WINGS if features[name]} == set(wings)
    code, out = tarry("version", "--features")
    assert code == 0 and {line.split()[0] for line in out.splitlines()[1:] if line.split()[1] == "yes"} >= set(wings)


def test_is_not_linked_with_libraries_of_missing_wings(build):
    wings, _ = build
    needed = done("objdump", "-p", BUILD / "tarry")
    symbols = done("nm", BUILD / "tarry")
    for wing, library in LIBRARIES.items():
        assert (f"NEEDED               {library}" in needed) == (wing in wings), wing
    for wing, symbol in (("redis", " redis_open"), ("sql", " sql_open"), ("delivery", " deliver_new"), ("amqp", " amqp_in_consumer_new"), ("kafka", " kafka_in_consumer_new"), *((kind, f" target_{kind}\n") for kind in TARGETS), ("grpc", " grpc_add"), ("mykit", " mykit_add"), ("schedules", " cadence_worker_new"), ("sqs", " sqs_add"), ("http2", " nghttp2_session_server_new3"), ("jwt", " jwt_read"), ("traces", " trace_exporter_new")):
        assert (symbol in symbols) == (wing in wings), wing


def test_rejects_options_of_missing_wings(build, tmp_path):
    wings, _ = build
    without = "this build has no {}, use one built with TARRY_WITH_{}"
    policy = tmp_path / "policy"
    policy.write_text("allow-host = 127.0.0.1\nallow-network = 127.0.0.0/8\n", encoding="ascii")
    policy.chmod(0o600)
    data = ("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    if "redis" not in wings:
        for command in (("serve", "--store", "redis://127.0.0.1:1"), ("fsck", "--store", "redis://127.0.0.1:1"), ("reshard", "--store", "redis://127.0.0.1:1", "--shards", "2")):
            code, out = tarry(*command)
            assert code == 2 and without.format("Redis", "REDIS") in out, command
        assert tarry("reshard", "--help")[0] == 0 and tarry("help", "--man", "tarry")[0] == 0
    if "sql" not in wings:
        code, out = tarry("serve", "--store", "postgres://127.0.0.1:1/x", "--listen", "127.0.0.1:0")
        assert code == 1 and without.format("SQL databases", "SQL") in out
        assert without.format("SQL databases", "SQL") in tarry("sql", "schema")[1] and tarry("sql", "--help")[0] == 0
    if "beanstalk" not in wings:
        code, out = tarry("import", "beanstalk://127.0.0.1:1", "--dry-run")
        assert code == 2 and without.format("beanstalk protocol", "BEANSTALK") in out
    if "delivery" not in wings:
        code, out = tarry("serve", *data, "--deliver", str(policy))
        assert code == 1 and without.format("push delivery", "DELIVERY") in out
    if "jwt" not in wings:
        code, out = tarry("serve", *data, "--jwt-issuer", "https://issuer.example", "--jwt-audience", "tarry", "--jwt-keys", str(policy))
        assert code == 2 and without.format("JWTs of an issuer", "JWT") in out
    if "console" not in wings:
        code, out = tarry("serve", *data, "--oidc-client", "console")
        assert code == 2 and without.format("web console", "CONSOLE") in out
    if "traces" not in wings:
        code, out = tarry("serve", *data, "--otlp", "http://127.0.0.1:1")
        assert code == 2 and without.format("traces", "TRACES") in out
    if "amqp" not in wings:
        code, out = tarry("serve", *data, "--amqp-in", "amqp://127.0.0.1/?queue=q")
        assert code == 2 and without.format("AMQP", "AMQP") in out
    if "kafka" not in wings:
        code, out = tarry("serve", *data, "--kafka-in", "kafka://127.0.0.1?from=t")
        assert code == 2 and without.format("Kafka", "KAFKA") in out


def test_serves_with_the_remaining_features(build, tmp_path, monkeypatch):
    wings, _ = build
    monkeypatch.setattr(serving, "BINARY", BUILD / "tarry")
    policy = tmp_path / "policy"
    policy.write_text("allow-host = 127.0.0.1\nallow-network = 127.0.0.0/8\n", encoding="ascii")
    policy.chmod(0o600)
    server = serving.Server(tmp_path / "server", ("--deliver", str(policy)) if "delivery" in wings else ())
    try:
        client = server.start().client()
        features = client.good("GET", "/v1/info")["features"]
        context = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
        assert client.call("PUT", "/v1/topics/traced/jobs/1", b"body", context).status == 201
        assert client.good("POST", "/v1/topics/traced/take?wait=5s")["jobs"][0]["meta"] == context
        assert {name for name in WINGS if features[name]} == set(wings)
        assert client.call("PUT", "/v1/topics/t/jobs/1", b"body").status == 201
        job = client.good("POST", "/v1/topics/t/take?wait=5s")["jobs"][0]
        assert job["id"] == "1"
        client.ack(job["lease"])
        for wing, (title, scheme) in TARGETS.items():
            reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": {"to": f"{scheme}://127.0.0.1"}}).encode(), {"Content-Type": "application/json"})
            if "delivery" not in wings:
                assert reply.code == "delivery_is_off"
            elif wing not in wings:
                assert reply.status == 400 and f"this build has no {title}" in reply.json()["detail"]
        if "delivery" not in wings:
            reply = client.call("PUT", "/v1/topics/t", b'{"dead_letter":{"drop":"1h"}}', {"Content-Type": "application/json"})
            assert reply.status == 400 and "this build has no push delivery" in reply.json()["detail"]
        assert client.call("GET", "/metrics").status == 200
        page = client.call("GET", "/console/")
        if "console" in wings:
            assert page.status == 200 and b"main.js" in page.body
        else:
            assert page.status == 404 and "this build has no web console" in page.json()["detail"]
        assert server.terminate() == 0
    finally:
        if server.proc and server.alive:
            server.kill()


def test_passes_the_unit_tests_that_are_left(build):
    _, tests = build
    assert "test_api_front" in tests
    for test in tests:
        done(BUILD / "tests" / test)


def test_a_library_without_directories_needs_no_libuv_and_reports_that():
    done("cmake", "-S", REPO, "-B", BUILD, "-G", "Ninja", "-DTARRY_LIBRARY_DIRECTORY=OFF")
    try:
        done("cmake", "--build", BUILD, "--target", "tarry_shared")
        needed = done("objdump", "-p", BUILD / "libtarry.so")
        assert "NEEDED" in needed and "libuv" not in needed and "libxxhash" not in needed
        from lib_calls import Library, Push, Refused
        library = Library(BUILD / "libtarry.so")
        with pytest.raises(Refused, match="bad_option bad value in 'dir': this library was built without queues in a directory"):
            library.open(BUILD / "no-such-directory")
        queue = library.open(None)
        assert queue.items("push", Push, [{"topic": b"t"}])[0][0] == "created"
        assert queue.close() == "ok"
    finally:
        done("cmake", "-S", REPO, "-B", BUILD, "-DTARRY_LIBRARY_DIRECTORY=ON")
