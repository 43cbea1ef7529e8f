"""Web pages of strangers, in a browser on the machine of the server: they change, take and read nothing. Everybody else is served as ever."""

import http.server
import json
import re
import shutil
import subprocess
import threading
import types

import pytest
from client import Connection, dial, request_bytes
from delivery import settle
from nginx import Nginx
from server import BINARY, REPO, eventually

BROWSER = "chromium"


def ask(server, method, target, body=b"", address="127.0.0.1", **fields):
    """Makes one call with these header fields; Host may be among them."""
    host = fields.pop("Host", "localhost")
    connection = Connection(server.port)
    try:
        connection.send(request_bytes(method, target, body, {name.replace("_", "-"): value for name, value in fields.items()}, host=host))
        return connection.read(method)
    finally:
        connection.close()


CHANGES = [
    ("PUT", "/v1/topics/t/jobs/kept?delay=1h", b"theirs"),
    ("POST", "/v1/topics/t/jobs", b"theirs"),
    ("POST", "/v1/jobs", b'{"topic":"t","body":"theirs"}'),
    ("PATCH", "/v1/topics/t/jobs/kept?delay=0", b""),
    ("DELETE", "/v1/topics/t/jobs/kept", b""),
    ("POST", "/v1/topics/t/jobs/kept/run", b""),
    ("POST", "/v1/topics/t/jobs/kept/close", b""),
    ("POST", "/v1/batches", b'{"job":{"topic":"t","id":"w"},"members":[{"topic":"t","id":"m"}]}'),
    ("POST", "/v1/topics/t/take", b""),
    ("POST", "/v1/topics/t/jobs/kept/take", b""),
    ("POST", "/v1/take?topic=t", b""),
    ("POST", "/v1/ack?lease=x", b""),
    ("POST", "/v1/nack?lease=x", b""),
    ("POST", "/v1/extend?lease=x", b""),
    ("POST", "/v1/return?lease=x", b""),
    ("POST", "/v1/again?lease=x", b""),
    ("POST", "/v1/wait", b'{"jobs":[{"topic":"t","id":"kept"}]}'),
    ("PUT", "/v1/schedules?owner=x", b'{"schedules":[]}'),
    ("POST", "/v1/schedules/next", b'{"topic":"t","every":"1h"}'),
    ("PUT", "/v1/schedules/s", b'{"topic":"t","every":"1h"}'),
    ("PATCH", "/v1/schedules/s", b'{"note":"x"}'),
    ("POST", "/v1/schedules/s/run", b""),
    ("POST", "/v1/schedules/s/pause", b""),
    ("POST", "/v1/schedules/s/resume", b""),
    ("POST", "/v1/schedules/s/backfill?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", b""),
    ("DELETE", "/v1/schedules/s", b""),
    ("PUT", "/v1/topics/t", b"{}"),
    ("PATCH", "/v1/topics/t", b'{"ttl":"1s"}'),
    ("DELETE", "/v1/topics/t", b""),
    ("POST", "/v1/topics/t/pause", b""),
    ("POST", "/v1/topics/t/resume", b""),
    ("POST", "/v1/topics/t/purge", b""),
    ("POST", "/v1/topics/t/redrive", b""),
    ("POST", "/v1/topics/t/cancel", b'{"ids":["1"]}'),
    ("POST", "/v1/topics/t/run", b'{"ids":["1"]}'),
    ("POST", "/v1/topics/t/reschedule?delay=1h", b'{"ids":["1"]}'),
    ("PUT", "/v1/topics/t/groups/g", b"{}"),
    ("DELETE", "/v1/topics/t/groups/g", b""),
    ("POST", "/v1/topics/t/groups/g/pause", b""),
    ("POST", "/v1/topics/t/groups/g/resume", b""),
    ("POST", "/v1/topics/t/deliver-test", b""),
    ("POST", "/v1/backup", b""),
    ("PUT", "/v1/backup/x", b""),
    ("DELETE", "/v1/backup/x", b""),
    ("PUT", "/v1/silences/dead?for=1h", b""),
    ("DELETE", "/v1/silences/dead", b""),
    ("POST", "/v1/drain", b""),
    ("DELETE", "/v1/drain", b""),
    ("POST", "/v1/clock/advance?by=1h", b""),
    ("POST", "/v1/reset", b""),
]
MARKS = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
]


def test_no_changing_call_is_left_out():
    """The table above has a row for each call of openapi.yaml except GET."""
    patterns, path = {}, None
    for line in (REPO / "openapi.yaml").read_text(encoding="utf-8").partition("\ncomponents:")[0].splitlines():
        if found := re.match(r"  (/\S*):$", line):
            path = re.compile(re.sub(r"\{\w+\}", "[^/?]+", found.group(1)) + r"(\?.*)?$")
        elif (found := re.match(r"    (\w+):$", line)) and found.group(1) in ("put", "post", "patch", "delete"):
            patterns[found.group(1).upper(), path.pattern] = path
    assert len(patterns) >= 20
    for method, target, _ in CHANGES:
        assert any(one == method and path.match(target) for (one, _), path in patterns.items()), (method, target, "is no call")
    for (method, pattern), path in patterns.items():
        assert any(one == method and path.match(target) for one, target, _ in CHANGES), (method, pattern, "has no row")


def test_requests_by_pages_of_other_sites_are_rejected(server):
    client = server.client()
    client.push("t", "kept", b"ours", delay="1h")
    before = client.topic("t")
    for method, target, body in CHANGES:
        for mark in MARKS:
            reply = ask(server, method, target, body, **mark)
            assert (reply.status, reply.code) == (403, "cross_site"), (method, target, mark)
            assert reply.closes
    assert client.topic("t") == before and client.get("t", "kept")["body"] == "ours"
    assert "Access-Control-Allow-Origin".lower() not in ask(server, "GET", "/v1/info", Origin="http://evil.example").headers


def test_a_name_that_is_not_the_servers_is_refused(server):
    port = server.port
    for host in ("evil.example", f"evil.example:{port}", f"10.0.0.1:{port}", f"0.0.0.0:{port}", "localhost.evil.example"):
        for method, target in (("GET", "/v1/info"), ("GET", "/metrics"), ("GET", "/v1/topics"), ("POST", "/v1/topics/t/take")):
            reply = ask(server, method, target, Host=host)
            assert (reply.status, reply.code) == (421, "host_unknown"), (host, target)
            assert "--allowed-host" in reply.json()["detail"]
    for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert ask(server, "GET", "/v1/info", Host=host).status == 200
        assert ask(server, "POST", "/v1/topics/t/take", Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin").status == 200
    assert client_of_1_0(port) == b"HTTP/1.1 200"


def client_of_1_0(port):
    with dial(port, 10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        return plain.recv(12)


def test_names_are_given_by_flag_and_file(start_server, tmp_path):
    file = tmp_path / "tarry.conf"
    file.write_text("allowed-host = from-file, *.corp.example\n", encoding="utf-8")
    by_file = start_server("--config", str(file))
    assert ask(by_file, "GET", "/v1/info", Host="from-file:80").status == 200
    assert ask(by_file, "GET", "/v1/info", Host="a.corp.example").status == 200
    assert ask(by_file, "GET", "/v1/info", Host="corp.example").status == 421
    assert ask(by_file, "POST", "/v1/topics/t/take", Host="from-file", Origin="https://from-file").status == 200, "behind a proxy that ends TLS"
    assert ask(by_file, "POST", "/v1/topics/t/take", Host="from-file", Origin="https://other").status == 403
    by_flag = start_server("--config", str(file), "--allowed-host", "one", "--allowed-host=two,three")
    assert [ask(by_flag, "GET", "/v1/info", Host=name).status for name in ("one", "two", "three", "from-file")] == [200, 200, 200, 421]


def test_a_name_with_a_port_is_refused_at_the_start():
    ended = subprocess.run([str(BINARY), "serve", "--allowed-host", "queue:8279"], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 2 and "bad value 'queue:8279' for '--allowed-host', give names without a port" in ended.stderr


def test_beyond_loopback_every_address_is_a_name(start_server):
    server = start_server("--listen", "0.0.0.0:0", "--insecure", started=False)
    server.launch().wait_listening()
    server.port = int(re.search(r'"listening also" address=0\.0\.0\.0:(\d+)', server.log()).group(1))
    assert ask(server, "GET", "/v1/info", Host=f"192.0.2.7:{server.port}").status == 200
    assert ask(server, "GET", "/v1/info", Host="localhost").status == 200
    assert ask(server, "GET", "/v1/info", Host="evil.example").status == 421


# ---- pages that may ----

CONSOLE = "https://console.example"


def cors_of(reply):
    return {name: value for name, value in reply.headers.items() if name.startswith("access-control-") or name == "vary"}


def test_pages_of_named_origins_may_use_the_api(start_server):
    server = start_server("--cors-origin", CONSOLE, "--cors-origin", "http://localhost:3000")
    reported = {"vary": "Origin", "access-control-allow-origin": CONSOLE, "access-control-expose-headers": "*"}
    reply = ask(server, "PUT", "/v1/topics/t/jobs/kept?delay=1h", b"ours", Origin=CONSOLE, Sec_Fetch_Site="cross-site")
    assert reply.status == 201 and cors_of(reply) == reported
    for target, status in (("/v1/topics/t/jobs/kept", 200), ("/v1/topics/t/jobs/none", 404), ("/nowhere", 404)):
        reply = ask(server, "GET", target, Origin=CONSOLE)
        assert reply.status == status and cors_of(reply) == reported, "the page may read what failed, too"
    assert cors_of(ask(server, "GET", "/v1/info", Origin="http://localhost:3000"))["access-control-allow-origin"] == "http://localhost:3000"
    assert cors_of(ask(server, "GET", "/v1/info")) == cors_of(ask(server, "GET", "/v1/info", Origin="https://evil.example")) == {"vary": "Origin"}

    asked = {"Origin": CONSOLE, "Access_Control_Request_Method": "PUT", "Access_Control_Request_Headers": "authorization,content-type,tarry-meta-a,x-other"}
    reply = ask(server, "OPTIONS", "/v1/topics/t/jobs/a", **asked)
    assert reply.status == 204 and not reply.body and not reply.closes
    assert cors_of(reply) == reported | {"access-control-allow-methods": "PUT, DELETE, GET, HEAD, PATCH", "access-control-max-age": "600",
                                     "access-control-allow-headers": "authorization, content-type, tarry-meta-a"}
    assert ask(server, "OPTIONS", "/nowhere", **asked).status == 404
    assert ask(server, "OPTIONS", "/v1/info", Origin=CONSOLE).status == 405
    assert ask(server, "OPTIONS", "/v1/topics/t/jobs/a", Host="evil.example", **asked).status == 421


def test_other_pages_are_refused_as_ever(start_server):
    server = start_server("--cors-origin", CONSOLE)
    server.client().push("t", "kept", b"ours", delay="1h")
    asked = {"Access_Control_Request_Method": "DELETE"}
    for origin in ("https://evil.example", "null", "http://console.example", CONSOLE + ":8443", "https://evil.console.example", CONSOLE + ".evil.example"):
        for method, more in (("DELETE", {}), ("OPTIONS", asked)):
            reply = ask(server, method, "/v1/topics/t/jobs/kept", Origin=origin, **more)
            assert (reply.status, reply.code, cors_of(reply)) == (403, "cross_site", {"vary": "Origin"}), (origin, method)
    assert server.client().get("t", "kept")["body"] == "ours"


@pytest.mark.parametrize("origin", ["*", "null", "console.example", "https://console.example/", "https://*.example", "https://Console.example", "https://a:443"])
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(origin):
    ended = subprocess.run([str(BINARY), "serve", "--cors-origin", origin], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 2 and f"bad value '{origin}' for '--cors-origin', give origins as a browser sends them" in ended.stderr


# ---- a real browser ----

ATTACK = """<!doctype html><meta charset="utf-8"><title>kittens</title>
<iframe name="a"></iframe><iframe name="b"></iframe>
<form id="purge" method="post" target="a" action="TARRY/v1/topics/t/purge"></form>
<form id="batch" method="post" target="b" rel="noreferrer" enctype="text/plain" action="TARRY/v1/jobs"><input name='{"topic":"t","body":"' value='theirs"}'></form>
<script>
const calls = [
    ["simple post", "TARRY/v1/topics/t/purge", {method: "POST", mode: "no-cors"}],
    ["push", "TARRY/v1/topics/t/jobs?delay=0", {method: "POST", mode: "no-cors", body: "theirs"}],
    ["take", "TARRY/v1/topics/t/take", {method: "POST", mode: "no-cors"}],
    ["signed", "TARRY/v1/topics/t/deliver-test", {method: "POST", mode: "no-cors", body: "theirs"}],
    ["put", "TARRY/v1/topics/t/jobs/kept", {method: "PUT", body: "theirs"}],
    ["cancel", "TARRY/v1/topics/t/jobs/kept", {method: "DELETE"}],
    ["read", "TARRY/v1/topics/t/jobs/kept", {}],
];
const framed = name => new Promise(done => document.querySelector(`iframe[name=${name}]`).onload = done);
(async () => {
    const replies = {};
    for (const [name, url, options] of calls)
        try { const reply = await fetch(url, options); replies[name] = reply.type + " " + await reply.text(); } catch (fault) { replies[name] = "failed"; }
    const frames = [framed("a"), framed("b")];
    purge.submit();
    batch.submit();
    await Promise.all(frames);
    await fetch("/replies", {method: "POST", body: JSON.stringify(replies)});
})();
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(self.server.page.encode())

    def do_POST(self):
        self.server.reported = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(b"")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def browse(tmp_path):
    """browse(url, *flags) starts a browser in which every name of example leads to this machine; it is stopped at the end."""
    assert shutil.which(BROWSER), f"no {BROWSER}: scripts/setup test_all"
    running = []

    def start(url, *flags):
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                   f"--user-data-dir={tmp_path / 'profile'}-{len(running)}", "--host-resolver-rules=MAP *.example 127.0.0.1", *flags, url]
        with open(tmp_path / f"browser-{len(running)}.log", "wb") as log:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log))
        return running[-1]

    yield start
    for browser in running:
        browser.terminate()
        browser.communicate(timeout=30)


@pytest.mark.plain("the browser knows neither the authority nor a token")
def test_a_page_of_a_stranger_in_a_real_browser(start_delivering, endpoint, browse):
    server = start_delivering()
    client = server.client()
    settle(client, "t", deliver={"to": endpoint.url})
    client.call("POST", "/v1/topics/t/pause")
    client.push("t", "kept", b"ours", delay="1h")
    client.push("t", "ready", b"ours")
    before = client.topic("t")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        site.page, site.reported = ATTACK.replace("TARRY", f"http://localhost:{server.port}"), None
        threading.Thread(target=site.serve_forever, daemon=True).start()
        browse(f"http://evil.example:{site.server_port}/")
        reported = eventually(lambda: site.reported, 60)
        site.shutdown()
    after = client.topic("t")
    assert after == before, (before, after, reported)
    assert client.get("t", "kept")["body"] == "ours" and endpoint.calls == []
    assert reported["read"] == reported["put"] == reported["cancel"] == "failed" and "ours" not in json.dumps(reported)
    refused = [line for line in client.call("GET", "/metrics").body.decode().splitlines() if line.startswith("tarry_http_requests_total") and 'code="4' in line]
    assert sum(float(line.split()[-1]) for line in refused) >= 6, "the browser did ask"

    # By a name of the stranger's own that now leads here the page and the server are one origin: it could read all that is answered.
    browser = browse(f"http://rebound.example:{server.port}/v1/topics/t/jobs/kept", "--dump-dom")
    shown = browser.communicate(timeout=60)[0].decode()
    assert "host_unknown" in shown and "ours" not in shown


PERMITTED = """<!doctype html><meta charset="utf-8"><title>console</title>
<script>
(async () => {
    const replies = {};
    const call = async (name, url, options) => {
        try { const reply = await fetch("TARRY" + url, options); replies[name] = [reply.status, reply.headers.get("Tarry-Id") || "", await reply.text()]; }
        catch (fault) { replies[name] = ["failed"]; }
    };
    await call("push", "v1/topics/t/jobs/1", {method: "PUT", body: "theirs", headers: {Authorization: "Bearer x", "Content-Type": "text/plain", "Tarry-Meta-Color": "red"}});
    await call("take", "v1/topics/t/take", {method: "POST", headers: {Accept: "application/octet-stream"}});
    await call("none", "v1/topics/t/jobs/none", {});
    await call("sneaky", "v1/topics/t/jobs/2", {method: "PUT", body: "x", headers: {"X-Other": "1"}});
    await call("cookies", "v1/info", {credentials: "include"});
    await fetch("/replies", {method: "POST", body: JSON.stringify(replies)});
})();
</script>"""


@pytest.mark.plain("the browser knows neither the authority nor a token")
def test_a_page_that_may_in_a_real_browser(start_server, browse):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        origin = f"http://console.example:{site.server_port}"
        server = start_server("--cors-origin", origin)
        site.page, site.reported = PERMITTED.replace("TARRY", f"http://localhost:{server.port}/"), None
        threading.Thread(target=site.serve_forever, daemon=True).start()
        browse(f"{origin}/")
        reported = eventually(lambda: site.reported, 60)
        site.shutdown()
    assert reported["push"][0] == 201 and reported["take"] == [200, "1", "theirs"] and reported["none"][0] == 404 and "not_found" in reported["none"][2], reported
    assert reported["sneaky"] == reported["cookies"] == ["failed"], "no field that the API does not read, no credentials of the browser's own"


# ---- behind a proxy ----


@pytest.mark.plain("the proxy of the page speaks no TLS")
def test_the_nginx_of_the_manual_needs_nothing_else(server, tmp_path):
    page = (REPO / "docs" / "operations" / "listeners.md").read_text(encoding="utf-8")
    location = page.partition("```nginx\nlocation / {")[2].partition("```")[0]
    assert "proxy_pass http://127.0.0.1:8279;" in location
    nginx = Nginx(tmp_path / "nginx", more="location /v1 {" + location.replace("8279", str(server.port)))
    try:
        proxied = types.SimpleNamespace(port=nginx.port)
        assert ask(proxied, "PUT", "/v1/topics/t/jobs/a", b"x", Host="queue.example").status == 201
        assert ask(proxied, "GET", "/v1/topics/t/jobs/a", Host="queue.example").status == 200
        assert ask(proxied, "POST", "/v1/topics/t/purge", Host="queue.example", Origin="http://evil.example").code == "cross_site"
    finally:
        nginx.stop()
