"""docs/operations/autoscaling.md and the manifests of KEDA: the requests and queries that an autoscaler makes, and the script, against a server whose clock stands still."""

import datetime
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
from pages import blocks
from server import BINARY, REPO, Server, eventually

yaml = pytest.importorskip("yaml")
KUBERNETES = REPO / "packaging/kubernetes"
PAGE = "docs/operations/autoscaling.md"
READY, LEASED, SOON, LATER = 7, 3, 12, 5
pytestmark = pytest.mark.plain("tokens of its own, or a Prometheus without one")


def documents(name):
    return list(yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8")))


def scaled_object(name):
    [found] = [one for one in documents(name) if one["kind"] == "ScaledObject"]
    assert found["apiVersion"] == "keda.sh/v1alpha1"
    return found["spec"]


def code(language, mark=""):
    """The blocks of this language in the page."""
    return ["\n".join(lines) for _, kind, lines in blocks(PAGE) if kind == language and mark in "\n".join(lines)]


def fill(client):
    """Other topics have jobs as well."""
    for topic in ("orders", "others"):
        for n in range(READY + LEASED):
            client.push(topic, f"now{n}")
        assert len(client.take(topic, max=LEASED)) == LEASED
        for n in range(SOON + LATER):
            client.push(topic, f"later{n}", delay="59s" if n < SOON else "3m")


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "server", ["--test-clock=2030-01-01T00:00:00Z"]).start()
    fill(server.client())
    yield server
    assert server.terminate() == 0


def keda_get(url, **headers):
    """A GET as KEDA makes it: by the client of Go, which offers gzip. Only a 200 counts."""
    request = urllib.request.Request(url, headers={"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
        body = answer.read()
        return json.loads(gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body)


def value_at(answer, location):
    """GJSON, as far as a location uses it: names joined by points. KEDA accepts a number, or text that is a quantity of Kubernetes."""
    assert re.fullmatch(r"\w+(\.\w+)*", location), "a character with a meaning in GJSON"
    for name in location.split("."):
        answer = answer[name]
    assert isinstance(answer, (int, float)) and not isinstance(answer, bool)
    return answer


def asked_by_keda(trigger, token, server):
    """The number that the scaler `metrics-api` gets: a GET of the URL with its query, with the credentials of the TriggerAuthentication."""
    metadata = trigger["metadata"]
    assert set(metadata) <= {"url", "format", "valueLocation", "targetValue", "activationTargetValue", "unsafeSsl", "authMode"}
    assert metadata.get("format", "json") == "json" and float(metadata["targetValue"]) > 0
    assert metadata["authMode"] == "bearer", "of the modes apiKey, basic, tls and bearer, the one that the server has for tokens"
    url = urllib.parse.urlsplit(metadata["url"])
    assert (url.scheme, url.netloc) == ("https", "tarry.tarry.svc:8443"), "the service of common.yaml"
    here = urllib.parse.urlunsplit(("http", f"127.0.0.1:{server.port}", url.path, url.query, ""))
    return value_at(keda_get(here, **({"Authorization": f"Bearer {token}"} if token else {})), metadata["valueLocation"])


def asked_of_prometheus(trigger, watch):
    """The number that the scaler `prometheus` gets: an instant query at the present second. None: the answer is empty, which is an error with
    ignoreNullValues=false. More than one element is an error."""
    metadata = trigger["metadata"]
    assert set(metadata) <= {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues"}
    assert metadata["ignoreNullValues"] == "false" and float(metadata["threshold"]) > 0
    moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = keda_get(f"http://127.0.0.1:{watch.port}/api/v1/query?query={urllib.parse.quote_plus(metadata['query'])}&time={moment}")
    assert answer["status"] == "success" and len(answer["data"]["result"]) <= 1
    return float(answer["data"]["result"][0]["value"][1]) if answer["data"]["result"] else None


def test_keda_reads_the_figures_of_its_formula_from_tarry(server, tmp_path):
    spec, tokens = scaled_object("keda-metrics-api.yaml"), tmp_path / "tokens"
    command = next(line for line in (KUBERNETES / "keda-metrics-api.yaml").read_text(encoding="utf-8").splitlines() if "tarry token new" in line)
    scope = re.search(r"token new keda (--scope \S+ --topics \S+)", command)[1].split()
    token = subprocess.run([BINARY, "token", "new", "keda", *scope, "--tokens", tokens], check=True, capture_output=True, text=True).stdout.strip()
    server.restart(flags=[*server.flags, "--tokens", str(tokens)])
    [authentication] = [one for one in documents("keda-metrics-api.yaml") if one["kind"] == "TriggerAuthentication"]
    assert {one["parameter"] for one in authentication["spec"]["secretTargetRef"]} == {"token"}
    found = {}
    for trigger in spec["triggers"]:
        assert trigger["type"] == "metrics-api" and trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
        found[trigger["name"]] = asked_by_keda(trigger, token, server)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            asked_by_keda(trigger, None, server)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            asked_by_keda(trigger, token + "x", server)
    assert found == {"ready": READY, "leased": LEASED, "soon": SOON}
    modifiers = spec["advanced"]["scalingModifiers"]
    assert set(modifiers["formula"].split(" + ")) == set(found), "each trigger is in the sum once"
    assert math.ceil(sum(found.values()) / float(modifiers["target"])) == 2


def test_a_topic_without_jobs_has_figures_once_it_was_created(server):
    """KEDA would otherwise take the 404 for a failure, and start the consumers of `fallback`."""
    [trigger, *_] = scaled_object("keda-metrics-api.yaml")["triggers"]
    elsewhere = {**trigger, "metadata": {**trigger["metadata"], "url": trigger["metadata"]["url"].replace("orders", "new")}}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        asked_by_keda(elsewhere, None, server)
    [commands] = code("text", "kubectl apply")
    [command] = [line.split() for line in commands.splitlines() if line.startswith("tarry topic set orders")]
    subprocess.run([BINARY, "topic", "set", "new", *command[4:]], check=True, capture_output=True, env={**os.environ, "TARRY_URL": server.url})
    assert asked_by_keda(elsewhere, None, server) == 0
    server.restart()
    assert asked_by_keda(elsewhere, None, server) == 0


@pytest.mark.thorough("needs Prometheus")
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus")
def test_prometheus_answers_the_queries_of_keda_and_of_the_adapter(server):
    from prometheus import Prometheus
    [trigger] = scaled_object("keda-prometheus.yaml")["triggers"]
    [rule] = yaml.safe_load(code("yaml", "externalRules")[0])["externalRules"]
    autoscaler = yaml.safe_load(code("yaml", "HorizontalPodAutoscaler")[0])
    [metric] = [one["external"]["metric"] for one in autoscaler["spec"]["metrics"]]
    assert trigger["type"] == "prometheus" and metric["name"] == rule["name"]["as"]
    matchers = ",".join(f'{name}="{value}"' for name, value in metric["selector"]["matchLabels"].items())
    watch = Prometheus([server.port]).start()
    try:
        eventually(lambda: asked_of_prometheus(trigger, watch) == READY + LEASED + SOON, 30)
        unknown = {**trigger, "metadata": {**trigger["metadata"], "query": trigger["metadata"]["query"].replace("orders", "none")}}
        assert asked_of_prometheus(unknown, watch) is None
        for query in (rule["metricsQuery"].replace("<<.LabelMatchers>>", matchers), rule["seriesQuery"] + "{" + matchers + "}"):
            wanted = SOON if query.startswith(rule["seriesQuery"]) else READY + LEASED + SOON
            eventually(lambda query=query, wanted=wanted: [value for _, value in watch.query(query)] == [wanted], 30)
    finally:
        watch.stop()


@pytest.mark.parametrize("jobs, consumers", [(0, 2), (100, 7), (1000, 8)])
def test_the_script_runs_a_consumer_for_every_twenty_jobs(server, tmp_path, jobs, consumers):
    """systemctl here notes which units run."""
    [script] = code("python")
    assert len(script.splitlines()) <= 11 and "time.sleep(15)" in script
    (tmp_path / "scale.py").write_text(script.replace("time.sleep(15)", "time.sleep(0.1)"), encoding="utf-8")
    (tmp_path / "systemctl").write_text('#!/bin/sh\ncase $1 in\nstart) : >"$UNITS/$2" ;;\nstop) rm -f "$UNITS/$2" ;;\nesac\n', encoding="utf-8")
    (tmp_path / "systemctl").chmod(0o755)
    units = tmp_path / "units"
    units.mkdir()
    (units / "orders@5").touch()  # of a busier time
    for n in range(jobs):
        server.client().push("orders", f"more{n}", delay="30s")
    environment = {**os.environ, "PATH": f"{tmp_path}:{BINARY.parent}:{os.environ['PATH']}", "TARRY_URL": server.url, "UNITS": str(units)}
    with subprocess.Popen(["/usr/bin/python3", tmp_path / "scale.py"], env=environment, stderr=subprocess.PIPE) as run:
        try:
            eventually(lambda: {path.name for path in units.iterdir()} == {f"orders@{n + 1}" for n in range(consumers)}, 30)
            assert server.terminate() == 0
            assert run.wait(30) != 0, "it ends if the server does not answer"
        finally:
            run.kill()
    assert {path.name for path in units.iterdir()} == {f"orders@{n + 1}" for n in range(consumers)}, "and leaves the consumers"
    server.start()
