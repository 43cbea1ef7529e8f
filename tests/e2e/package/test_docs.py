"""The documents are true: every example with output is run, and every path of openapi.yaml is documented."""

import os
import re
import subprocess

import pytest
from client import request_bytes
from pages import blocks, examples, matches
from server import BINARY, REPO
from wings import lacking

PAGES = ("README.md", "docs/api.md")
ADDRESS = "127.0.0.1:8279"


def as_http_2(lines):
    """The lines of an answer with its head, as HTTP/2 has them: no reason, field names in lower case."""
    lines = [re.sub(r"^HTTP/1\.1 (\d+).*", r"HTTP/2 \1", line.rstrip()) for line in lines]
    return [re.sub(r"^[A-Z][\w-]+:", lambda name: name[0].lower(), line) if lines[0].startswith("HTTP/") else line for line in lines]


def run_page(page, server, directory, curl="curl", most=None):
    """Runs all blocks of a page in order, against one server: later ones build on earlier ones."""
    count, wrong = 0, []
    environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "TARRY_URL": server.url, "LC_ALL": "C.UTF-8"}
    for number, command, expected in examples(page):
        if expected is None or count == most:
            continue
        count += 1
        text = command.replace(ADDRESS, f"127.0.0.1:{server.port}").replace("localhost:8279", f"127.0.0.1:{server.port}")
        text = re.sub(r"\bcurl\b", f"{curl} -sS --max-time 20", text)
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=environment, cwd=directory, timeout=60, check=False)
        output = (done.stdout + done.stderr).replace(f"127.0.0.1:{server.port}", ADDRESS)
        if "--http2" in curl and expected and expected[0].startswith("HTTP/1.1"):
            expected, output = as_http_2(expected), "\n".join(line.rstrip() for line in output.splitlines()) + "\n"
        if not matches(expected, output):
            wrong.append(f"{page}:{number}:\n{command}\nexpected:\n" + "\n".join(expected) + f"\nfound:\n{output}")
    return count, wrong


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.plain("the pages show a server on loopback, without token")
def test_every_example_prints_its_output(page, server, tmp_path):
    count, wrong = run_page(page, server, tmp_path)
    print(f"{page}: {count} commands run")
    assert count, f"{page} has no examples to run"
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("most", [15, pytest.param(None, marks=pytest.mark.thorough("the first ones are run in make test"))], ids=["first", "all"])
@pytest.mark.plain("the pages show a server on loopback, without token")
def test_every_example_prints_the_same_over_http_2(server, tmp_path, most):
    if "http2" in lacking(BINARY):
        pytest.skip("this build has no HTTP/2")
    count, wrong = run_page("docs/api.md", server, tmp_path, "curl --http2-prior-knowledge", most)
    assert count >= (most or 40) and not wrong, "\n\n".join(wrong)


def test_the_reference_has_examples():
    assert sum(expected is not None for _, _, expected in examples("docs/api.md")) >= 40
    assert sum(expected is not None for _, _, expected in examples("README.md")) >= 3


def test_no_prompt_is_in_the_way_of_copying():
    """Output is in separate blocks."""
    pages = [path for path in [*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")]]
    found = [f"{path.relative_to(REPO)}:{number}" for path in pages for number, language, lines in blocks(path.relative_to(REPO))
             if language == "console" or (language == "sh" and any(re.match(r"[$>#%] *\w", line) and not line.startswith("# ") for line in lines))]
    assert not found, found


def test_the_runner_sees_differences():
    assert matches(["a … c", ""], "a b c\n")
    assert matches(["due … (in 30s)"], "due soon (in 29s)\n") and not matches(["due … (in 30s)"], "due soon (in 20s)\n")
    assert matches(['{"at":"…Z"}'], '{"at":"2026-01-01T00:00:00Z"}')
    assert matches([], "")
    assert not matches(["a"], "b") and not matches(["a"], "") and not matches([], "noise") and not matches(["a.c"], "abc")


# ---- openapi.yaml ----

def described(text):
    """(method, path) of each operation, by indentation: no library is needed for that."""
    out, path, inside = [], None, False
    for line in text.splitlines():
        if re.match(r"\S", line):
            inside = line.startswith("paths:")
        elif inside and (found := re.match(r"  ['\"]?(/[^'\":]*)['\"]?:\s*$", line)):
            path = found.group(1)
        elif inside and (found := re.match(r"    (get|put|post|patch|delete|head):", line)):
            out.append((found.group(1).upper(), path))
    return out


@pytest.fixture
def operations(client):
    return described(client.call("GET", "/openapi.yaml").body.decode())


PROMISED = """
    PUT /v1/topics/{topic}/jobs/{id}, POST /v1/topics/{topic}/jobs, POST /v1/jobs, GET /v1/topics/{topic}/jobs/{id},
    PATCH /v1/topics/{topic}/jobs/{id}, DELETE /v1/topics/{topic}/jobs/{id}, POST /v1/topics/{topic}/jobs/{id}/run, GET /v1/topics/{topic}/jobs,
    POST /v1/topics/{topic}/take, POST /v1/take, POST /v1/ack, POST /v1/nack, POST /v1/extend, GET /v1/topics, GET /v1/topics/{topic},
    PUT /v1/topics/{topic}, DELETE /v1/topics/{topic}, POST /v1/topics/{topic}/pause, POST /v1/topics/{topic}/resume,
    POST /v1/topics/{topic}/purge, POST /v1/topics/{topic}/redrive, GET /v1/info, GET /healthz, GET /readyz, GET /metrics, GET /openapi.yaml
"""


def test_every_promised_call_is_described(operations):
    promised = {tuple(call.split()) for call in PROMISED.split(",")}
    assert promised <= set(operations), promised - set(operations)


def test_every_described_call_is_there(server, operations):
    assert len(operations) >= 20
    client = server.client()
    for number, (method, path) in enumerate(operations):
        topic = f"there-{number}"
        target = path.replace("{topic}", topic).replace("{id}", "a").replace("{code}", "not_found").replace("{file}", "main.js").replace("{name}", "late")
        target = re.sub(r"\{\w+\}", "not_found", target)
        client.call("DELETE", "/v1/drain")  # an earlier call may have begun one
        client.push(topic, "a")
        connection = server.connection()
        connection.send(request_bytes(method, target))
        reply = connection.read(method)
        connection.close()
        assert reply.status != 405 and (reply.status != 404 or reply.code == "not_found"), (method, path, reply.status, reply.body)


def test_every_described_call_is_in_the_reference(operations):
    page = (REPO / "docs/api.md").read_text(encoding="utf-8")
    missing = [f"{method} {path}" for method, path in operations if path not in page]
    assert not missing, missing


def test_openapi_is_well_formed(client):
    yaml = pytest.importorskip("yaml")
    tree = yaml.safe_load(client.call("GET", "/openapi.yaml").body)
    assert tree["openapi"].startswith("3.") and tree["info"]["version"]
    found = {(method.upper(), path) for path, item in tree["paths"].items() for method in item if method in ("get", "put", "post", "patch", "delete")}
    assert found == set(described(client.call("GET", "/openapi.yaml").body.decode()))
    for (method, path) in found:
        operation = tree["paths"][path][method.lower()]
        assert operation["responses"] and (operation.get("summary") or operation.get("description")), (method, path)
    references = set(re.findall(r"\$ref:\s*['\"]?#/([\w/{}~.-]+)", client.call("GET", "/openapi.yaml").body.decode()))
    for reference in references:
        node = tree
        for part in reference.split("/"):
            assert part in node, reference
            node = node[part]


def test_links_between_documents_lead_somewhere():
    broken = []
    for page in [path for path in REPO.glob("*.md")] + [path for path in (REPO / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(REPO)}: {target}")
    assert not broken, broken
