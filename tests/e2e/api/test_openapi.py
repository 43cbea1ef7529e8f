"""openapi.yaml against its own specification, and the answers of a live server against openapi.yaml."""

import os
import re
import subprocess

import pytest
from conftest import FLAGS
from delivery import settle
from pinned import environment
from server import REPO
from streams import Stream

DOCUMENT = REPO / "openapi.yaml"
TOOLS = REPO / "tests" / "openapi"
CHECKS = "status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method,allow_header_conformance"
EXAMPLES = os.environ.get("TARRY_TEST_OPENAPI_EXAMPLES", "15")  # of each operation, beside those that cover its schema


@pytest.fixture(scope="module")
def tools():
    """The directory of their programs."""
    return environment("openapi") / "bin"


def test_the_description_is_valid(tools):
    ended = subprocess.run([str(tools / "openapi-spec-validator"), "--schema", "3.1", str(DOCUMENT)], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_readers_of_yaml_1_1_see_the_same(tools):
    """PyYAML is such a reader: Yes, no and on are not text, 1e3 and 12:30 are numbers, and a date is a date."""
    program = """
import sys, yaml
class Texts(yaml.SafeLoader): pass
Texts.yaml_implicit_resolvers = {}
Texts.add_implicit_resolver("tag:yaml.org,2002:bool", __import__("re").compile("^(?:true|false)$"), list("tf"))
Texts.add_implicit_resolver("tag:yaml.org,2002:int", __import__("re").compile("^(?:0|[1-9][0-9]*)$"), list("0123456789"))
Texts.add_implicit_resolver("tag:yaml.org,2002:null", __import__("re").compile("^null$"), ["n"])
text = open(sys.argv[1], encoding="utf-8").read()
assert yaml.safe_load(text) == yaml.load(text, Texts), "a word means something else in YAML 1.1: quote it"
"""
    subprocess.run([str(tools / "python"), "-c", program, str(DOCUMENT)], check=True, timeout=60)


def live_a_schedule(client):
    """Makes each call about one schedule once, correctly."""
    path = "/v1/schedules/right"
    for method, call, body in (("PUT", "", b'{"topic":"right","cron":"0 * * * *"}'), ("GET", "", b""), ("GET", "/next", b""), ("PATCH", "", b'{"note":"hourly"}'),
                               ("POST", "/pause", b""), ("POST", "/resume", b""), ("POST", "/run", b""),
                               ("POST", "/backfill?from=2026-01-01T00:00:00Z&to=2026-01-01T03:00:00Z", b""), ("DELETE", "", b"")):
        client.good(method, path + call, body)


def live_a_group(client):
    """Makes each call about one group once, correctly."""
    client.good("GET", "/v1/topics/right/groups?order=ready")
    for method, call in (("PUT", "?weight=2"), ("GET", ""), ("POST", "/pause?for=1h"), ("POST", "/resume"), ("DELETE", "")):
        client.good(method, f"/v1/topics/right/groups/g{call}")


def live_a_batch(client):
    """Makes each call that needs a waiting job once, correctly."""
    batch = b'{"job":{"topic":"right","id":"all"},"members":[{"topic":"right","id":"member","delay":"1h"}]}'
    client.good("POST", "/v1/batches", batch, {"Content-Type": "application/json"})
    client.good("GET", "/v1/topics/right/jobs/all/members")
    client.good("PUT", "/v1/topics/right/jobs/waiting?waits=true", b"x")
    client.good("POST", "/v1/topics/right/jobs/waiting/close")


# The first two stay open: nothing waits for their end. The third has all pushes refused.
LEFT_OUT = "^/v1/(events|live|drain)$"


def test_answers_match_the_description(tools, start_delivering, endpoint, tmp_path):
    server = start_delivering(*FLAGS, "--max-topics", "1000000")
    client = server.client()
    settle(client, "sent", deliver={"to": endpoint.url})
    client.push("orders", "42", b'{"total":12}', delay="1h")
    for n in range(300):
        client.push("orders", f"ready-{n}", b"text", max_attempts=1)
    for job in client.take("orders", max=5):
        client.call("POST", f"/v1/nack?lease={job['lease']}&final=true")
    command = [str(tools / "schemathesis"), "--no-color", "run", str(DOCUMENT), "--url", server.url, "--checks", CHECKS, "--phases", "examples,coverage,fuzzing",
"--exclude-path-regex", LEFT_OUT, "--seed", "1", "--max-examples", EXAMPLES, "--request-timeout", "20", "--continue-on-failure", "--warnings", "off"]
    variables = {**os.environ, "TARRY_URL": server.url, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(TOOLS), "PYTHONHASHSEED": "0", "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")}
    ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=400)
    assert ended.returncode == 0, ended.stdout[-12_000:] + ended.stderr[-3000:]
    selected, tested = re.search(r"Selected: (\d+)/\d+\s+Tested: (\d+)", ended.stdout).groups()
    assert selected == tested, "all operations but those left out"
    assert int(re.search(r"(\d+) generated", ended.stdout)[1]) > 1000
    client = server.client()  # the server closes an idle connection, and the tool takes minutes on a slow machine
    client.good("POST", "/v1/drain")
    client.good("DELETE", "/v1/drain")
    client.push("right", "1", delay="1h")  # what the tool was given may have ended, or gone, before it came to it
    client.reschedule("right", "1", delay="2h")
    client.run("right", "1")
    lease = client.take("right", wait="10s")[0]["lease"]
    for call in ("extend", "return"):
        assert client.call("POST", f"/v1/{call}?lease={lease}").status == 200
    for call in ("again", "ack"):
        assert client.call("POST", f"/v1/{call}?lease={client.take('right', wait='10s')[0]['lease']}").status == 200
    client.good("POST", "/v1/wait", b'{"jobs":[{"topic":"right","id":"1"}],"wait":"1ms"}')
    client.good("PUT", "/v1/silences/dead?topic=right&for=1h")
    client.good("DELETE", "/v1/silences/dead?topic=right")
    client.good("POST", "/v1/wait", b'{"jobs":[{"topic":"right","id":"1"}]}')
    live_a_batch(client)
    live_a_group(client)
    live_a_schedule(client)
    for target in ("/v1/events", "/v1/live"):
        Stream(server.port, target).close()
    page = server.connection().call("GET", "/metrics").body.decode()
    routes = set(re.findall(r'tarry_http_requests_total\{route="(\w+)"', page)) - {"none"}
    answered = set(re.findall(r'tarry_http_requests_total\{route="(\w+)",code="[23]\d\d"\} [1-9]', page))
    routes -= {"history"}  # this store has no history; tests/e2e/sql/test_sql_history.py tests it
    routes -= {"work", "grpc_health", "grpc_reflection"}  # only gRPC has these; tests/e2e/fronts/test_grpc.py tests them
    of_a_test_clock = {"clock", "clock_advance", "reset"}  # a real server refuses them; test_test_clock.py has them right
    assert len(routes) > 20
    assert not routes - answered - of_a_test_clock, f"never right: {sorted(routes - answered - of_a_test_clock)}"
