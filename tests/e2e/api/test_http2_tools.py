"""HTTP/2 by other programs: h2spec, h2load and nghttp, unmodified."""

import os
import re
import subprocess

import pytest
from server import REPO, eventually

pytestmark = [pytest.mark.plain("the tools speak to a plain port"), pytest.mark.thorough("needs Go and nghttp2-client")]
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
# docs/http2.md has the reason of each.
INTENDED = {("3.5", "2"), ("5.1", "8"), ("5.1", "11"), ("5.3.1", "2")}
INTENDED_IF_THE_ANSWER_IS_FIRST = {("5.1", "5"), ("6.1", "2")}  # h2spec sends a second frame without a wait for the answer to the first one


@pytest.fixture(scope="module")
def h2spec():
    directory = REPO / "build-h2spec"
    if not (directory / "h2spec").exists():
        subprocess.run(["go", "install", H2SPEC], check=True, timeout=900, env={**os.environ, "GOBIN": str(directory)})
    return str(directory / "h2spec")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def failures(report):
    """(chapter, case) of the list of failures, of which the chapters are headings."""
    found, chapter = set(), None
    for line in report.partition("\nFailures:")[2].splitlines():
        if heading := re.match(r"\s+(\d[\d.]*)\. ", line):
            chapter = heading[1]
        elif case := re.match(r"\s+× (\d+): ", line):
            found.add((chapter, case[1]))
    return found


def test_h2spec_fails_only_the_intended_cases(start_server, h2spec):
    server = start_server()
    for seconds in (5, 30):  # a busy machine may need longer
        report = run(h2spec, "-h", "127.0.0.1", "-p", str(server.port), "-P", "/v1/topics", "--strict", "-o", str(seconds))
        counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", report)
        assert counts and int(counts[1]) == 146 and int(counts[3]) == 0, report[-2000:]
        assert len(failures(report)) == int(counts[4]), report[report.index("\nFailures:"):]
        if failures(report) <= INTENDED | INTENDED_IF_THE_ANSWER_IS_FIRST:
            return
    raise AssertionError("these cases failed: " + report[report.index("\nFailures:"):])


def test_h2load_gets_an_answer_to_each_request(start_server):
    server = start_server()
    report = run("h2load", "-n", "20000", "-c", "8", "-m", "64", f"http://127.0.0.1:{server.port}/readyz")
    assert "20000 succeeded, 0 failed, 0 errored, 0 timeout" in report, report


def test_h2load_stores_each_push(start_server, tmp_path):
    server = start_server()
    body = tmp_path / "body"
    body.write_bytes(b'{"total":12}')
    report = run("h2load", "-n", "5000", "-c", "4", "-m", "64", "-d", str(body), f"http://127.0.0.1:{server.port}/v1/topics/orders/jobs")
    assert "5000 succeeded" in report, report
    eventually(lambda: server.client().topic("orders")["counts"]["ready"] == 5000, 20)


def test_nghttp_reads_a_page(start_server):
    server = start_server()
    report = run("nghttp", "-v", f"http://127.0.0.1:{server.port}/openapi.yaml")
    assert ":status: 200" in report and "openapi: 3" in report and "GOAWAY" in report
