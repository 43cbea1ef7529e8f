"""Rights: every call of openapi.yaml, with each scope, for own, foreign and look-alike topics, on each listener. No answer reveals a foreign topic."""

import contextlib
import itertools
import json
import re
import socket

import pytest
from api import BODIES, CALLS, NAMES_TOPIC
from certificates import Authority
from client import Connection, request_bytes
from conftest import FLAGS
from redis_servers import RedisServer
from server import REPO, Server, eventually, free_port
from tokens import SCOPES, Token, TokenFile, decoded

OWN = ("orders", "orders-*")
ALL = Token("all")
NOBODY = None
# One with each scope, one with all but that: what is missing is what counts.
LIMITED = [Token(scope, [scope], OWN) for scope in SCOPES] + [Token("no-" + scope, [other for other in SCOPES if other != scope], OWN) for scope in SCOPES]
WIDE = [Token("wide-" + scope, [scope]) for scope in SCOPES]
# The other tests are refused so often that the audit leaves events of their tokens out.
AUDITED = Token("audited", ["push"], OWN)
TOKENS = [ALL, *LIMITED, *WIDE, AUDITED]
CERTIFIED = [LIMITED[0], LIMITED[7], WIDE[2]]  # by a certificate of that name as well

# A word that no answer may hold but for those who may see all.
SECRET = "gEhEiM"
FOREIGN = "mail-" + SECRET
LOOK_ALIKES = ["orders", "orders-", "orders-1", "orders-x%2F..", "orders-%2e%2e%2fmail", "orders%2D1", "%6Frders", "Orders", "ORDERS-1", "order", "ordersx", "orders.", "orders_1",
               "orders%00", "orders-%00", "orders%00-1", "%00orders", "%20orders", "orders%20", "orders%09", "orders%0A", "*", "%2A", "orders-*", "orders%2A", "orders%2C" + FOREIGN,
               "orders,orders-1", "..%2Forders", "orders%2F" + FOREIGN, "%", "orders%", "orders-%zz", "%C3%B6rders", "%EF%BD%8Frders", "orders%E2%80%8B", "tarry.dead-letters", "absent", FOREIGN]
MAY_NOT = (401, 403)


class House:
    """A server with tokens and a listener of each kind, and a foreign topic that holds jobs of every state."""

    def __init__(self, directory, *flags):
        self.open_port, self.tls_port, self.path = free_port(), free_port(), f"{directory}/sock"
        self.authority = Authority(directory)
        self.authority.sign("server")
        for token in CERTIFIED:
            self.authority.sign(token.name, names=None, common_name=f"{token.name}.example")
        self.authority.sign("stranger", names=None)
        self.tokens = TokenFile(directory / "tokens", *TOKENS, *(token.as_certificate() for token in CERTIFIED))
        self.server = Server(directory / "server", ["--tokens", str(self.tokens.path), "--audit", str(directory / "audit"), "--listen", f"unix:{self.path}",
                                                    "--listen", f"127.0.0.1:{self.open_port},no-token", "--listen", f"127.0.0.1:{self.tls_port},tls",
                                                    "--tls-cert", str(self.authority.certificate("server")), "--tls-key", str(self.authority.key("server")),
                                                    "--tls-client-ca", str(self.authority.file), *flags])
        self.server.start()
        self.all = Client(Connection(self.server.port), ALL)
        self.fill(FOREIGN)

    def fill(self, topic):
        call = self.all.call
        call("PUT", f"/v1/topics/{topic}?max_attempts=1", b"")
        for n in range(6):
            call("PUT", f"/v1/topics/{topic}/jobs/{SECRET}-{n}" + ("?delay=1h" if n > 2 else ""), f'{{"body":"{SECRET}"}}'.encode(), {"Content-Type": "application/json"})
        dead, leased = call("POST", f"/v1/topics/{topic}/take?max=2&lease_for=1h").json()["jobs"]
        assert call("POST", f"/v1/nack?lease={dead['lease']}&error={SECRET}").ok
        self.lease = leased["lease"]

    def look(self):
        """Returns all data of the foreign topic."""
        return [self.all.call("GET", f"/v1/topics/{FOREIGN}{rest}").body for rest in ("", "/jobs?body=true&limit=100")]

    def on(self, listener, token=None):
        if listener == "mtls":
            connection = Connection(self.tls_port)
            connection.socket = self.authority.context(token.name if token else "stranger").wrap_socket(connection.socket, server_hostname="localhost")
            return connection
        if listener == "unix":
            connection = Connection.__new__(Connection)
            connection.socket, connection.pending = socket.socket(socket.AF_UNIX), bytearray()
            connection.socket.settimeout(30)
            connection.socket.connect(self.path)
            return connection
        return Connection(self.open_port if listener == "no-token" else self.server.port)


class Client:
    """Calls by a token over one connection, made again where the server ends it; by a certificate where `is_shown`."""

    def __init__(self, connection, token, again=None, is_shown=False):
        self.connection, self.again = connection, again
        self.headers = token.headers if token and not is_shown else {}

    def call(self, method, target, body=b"", headers=None):
        reply = self.connection.call(method, target, body, {**self.headers, **(headers or {})})
        if reply.closes and self.again:
            self.connection.close()
            self.connection = self.again()
        return reply


@pytest.fixture(scope="module", params=["embedded", "redis"])
def house(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("house")
    with RedisServer() if request.param == "redis" else contextlib.nullcontext() as redis:
        house = House(directory, *(["--store", redis.url, "--shards", "1"] if redis else FLAGS))
        yield house
        assert house.server.terminate() == 0 and not house.server.sanitizer_report(), house.server.log()[-4000:]


def expected(call, token, topic, listener):
    """The expected status: None if the call is not rejected because of its caller."""
    if call.scope is None or (token is NOBODY and listener == "no-token"):
        return None
    if token is NOBODY:
        return 401
    if call.scope == "":
        return None
    if call.scope not in token.scopes or (call.topics == "all" and "*" not in token.topics):
        return 403
    if "{topic}" in call.path or call.name in NAMES_TOPIC:
        name = decoded(topic)
        if name is None and call.name in NAMES_TOPIC:
            return None  # 400: the query cannot be read
        if not token.may_use(topic if name is None else name):
            return 403
    return None


def ask(client, call, topic, house):
    body = BODIES.get(call.name, b'{"leases":["x"]}' if call.topics == "lease" else b"x" if call.scope == "push" else b"")
    if call.name == "pushBatch":
        body = json.dumps([{"topic": decoded(topic) or "?", "body": "x", "delay": "1h"}]).encode()
    return client.call(call.method, call.target(topic), body if call.method != "GET" else b"")


def hides(reply, asked):
    """Checks that an answer contains nothing of the foreign topic except the requested name."""
    text = reply.body.decode("utf-8", "replace") + json.dumps(reply.headers)
    for spelt in (asked, decoded(asked) or ""):
        text = text.replace(spelt, "") if SECRET in spelt else text
    return SECRET not in text


def check(house, listener, token, call, topic):
    again = lambda: house.on(listener, token)  # noqa: E731
    client = Client(again(), token, again, listener == "mtls") if (key := (listener, token)) not in house.clients else house.clients[key]
    house.clients[key] = client
    reply = ask(client, call, topic, house)
    wanted = expected(call, token, topic, listener)
    what = f"{listener}: {token} {call.name} {topic!r}: {reply.status} {reply.body[:300]!r}"
    if wanted:
        assert reply.status == wanted and reply.code == {401: "unauthorized", 403: "forbidden"}[wanted], what
        assert ("www-authenticate" in reply.headers) == (wanted == 401), what
        assert not {"etag", "allow", "location", "retry-after"} & set(reply.headers), what
        assert wanted == 401 or f"'{call.scope}'" in reply.json()["detail"], what
    else:
        is_reserved = call.scope == "push" and (decoded(topic) or "").startswith("tarry.") and reply.code == "reserved_topic"
        assert is_reserved or reply.status not in MAY_NOT, what
        assert str(reply.status) in call.statuses | {"404"}, what
    if token in LIMITED:
        assert hides(reply, topic), what
    return reply


@pytest.mark.parametrize("listener", ["require-token", "no-token", "unix", "mtls"])
def test_the_table(house, listener):
    house.clients = {}
    before = house.look()
    topics = LOOK_ALIKES if listener == "require-token" else ["orders", "orders-1", "ordersx", FOREIGN]
    # The anonymous caller has all rights without tokens: it uses topics of its own, or the foreign one would be changed.
    for token, call in itertools.product([NOBODY, *(CERTIFIED if listener == "mtls" else [*LIMITED, *WIDE])], CALLS):
        for topic in topics:
            may_change = expected(call, token, topic, listener) is None and call.scope not in (None, "", "read")
            if not (may_change and topic == FOREIGN):
                check(house, listener, token, call, topic)
    assert house.look() == before, "a foreign topic is as it was"


def test_every_call_is_covered(house):
    """A route missing in openapi.yaml would be covered by no test."""
    page = house.all.call("GET", "/metrics").body.decode()
    counts = {}
    for call, count in re.findall(r'tarry_http_requests_total\{route="(\w+)",code="\w+"\} (\d+)', page):
        counts[call] = counts.get(call, 0) + int(count)
    for call in ("work", "grpc_health", "grpc_reflection"):  # calls of gRPC only, see fronts/test_grpc.py
        counts.pop(call, None)
    assert counts.pop("none") == 0 and len(counts) > 20 and not [call for call, count in counts.items() if not count]
    assert re.search(r'tarry_access_denied_total\{reason="scope"\} [1-9]', page) and re.search(r'tarry_access_denied_total\{reason="topic"\} [1-9]', page)


def test_missing_topics_are_rejected_like_existing_ones(house):
    """The answers have the same status, fields and words except for the name, for every call."""
    client = {token: Client(house.on("require-token"), token) for token in LIMITED}
    for token, call in itertools.product(LIMITED, CALLS):
        if "{topic}" not in call.path and call.name not in NAMES_TOPIC:
            continue
        seen = []
        for topic in (FOREIGN, "mail-aBsEnT"):
            reply = ask(client[token], call, topic, house)
            reply.headers.pop("date")
            seen.append((reply.status, reply.headers, reply.body.replace(topic.encode(), b"T")))
        for headers in (seen[0][1], seen[1][1]):
            headers.pop("content-length", None)
        assert seen[0] == seen[1]


def test_unauthenticated_callers_do_not_learn_paths(house):
    nobody, one = Client(house.on("require-token"), NOBODY), Client(house.on("require-token"), LIMITED[0])
    for method, path in (("GET", "/none"), ("PATCH", "/v1/info"), ("GET", "/v1/topics//jobs"), ("DELETE", "/"), ("POST", "/healthz")):
        assert nobody.call(method, path).status == 401
        assert one.call(method, path).status in (404, 405)
    assert nobody.call("GET", "/healthz").status == 200 and nobody.call("GET", "/readyz").status == 200


@pytest.mark.parametrize("how", ["one", "two"])
def test_a_take_of_several_topics_needs_them_all(house, how):
    client = Client(house.on("require-token"), Token("consume", ["consume"], OWN))
    before = house.look()
    topics = ["orders", FOREIGN] if how == "one" else [FOREIGN, "orders"]
    reply = client.call("POST", "/v1/take?wait=1s&" + "&".join("topic=" + topic for topic in topics))
    assert (reply.status, reply.code) == (403, "forbidden")
    assert house.look() == before


def test_a_batch_rejects_only_foreign_items(house):
    client = Client(house.on("require-token"), Token("push", ["push"], OWN))
    before = house.look()
    items = [{"topic": topic, "id": "b", "body": "x", "delay": "1h"} for topic in ("orders", FOREIGN, "orders-1", "ordersx", "orders\0", "orders-\0", "ORDERS")]
    items += [{"topic": FOREIGN, "id": f"{SECRET}-1", "on_conflict": "reject"}, {"topic": FOREIGN, "on_conflict": "nonsense"}, {"id": "x"}]
    results = client.call("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"}).json()["results"]
    assert [result["result"] for result in results] == ["created", "forbidden", "created", "forbidden", "forbidden", "bad_topic", "forbidden", "forbidden", "bad_option", "option_missing"]
    assert all("state" not in result for result in results if result["result"] == "forbidden")
    assert house.look() == before
    client.call("DELETE", "/v1/topics/orders/jobs/b")


def test_a_member_needs_the_scope_for_the_topic_of_its_batch(house):
    client = Client(house.on("require-token"), Token("push", ["push"], OWN))
    assert house.all.call("PUT", f"/v1/topics/{FOREIGN}/jobs/w?waits=true", b"x").ok
    before = house.look()
    for ident in ("w", "absent"):
        reply = client.call("PUT", f"/v1/topics/orders/jobs/m?batch_topic={FOREIGN}&batch_id={ident}", b"x")
        assert (reply.status, reply.code) == (403, "forbidden")
    items = [{"topic": "orders", "id": "m", "batch": {"topic": FOREIGN, "id": "w"}}, {"topic": "orders", "id": "w", "waits": True}, {"topic": "orders-1", "id": "n", "batch": {"topic": "orders", "id": "w"}}]
    results = client.call("POST", "/v1/jobs", json.dumps(items).encode(), {"Content-Type": "application/json"}).json()["results"]
    assert [result["result"] for result in results] == ["forbidden", "created", "created"]
    assert house.look() == before
    assert client.call("DELETE", "/v1/topics/orders/jobs/w?members=true").ok
    assert house.all.call("DELETE", f"/v1/topics/{FOREIGN}/jobs/w").ok


def test_lists_show_only_permitted_topics(house):
    for name in ("orders-a", "orders-b", "orders-c", "ordersx", "aaa", "zzz"):
        house.all.call("PUT", f"/v1/topics/{name}")
    client = Client(house.on("require-token"), Token("read", ["read"], OWN))
    own = [topic["topic"] for topic in client.call("GET", "/v1/topics").json()["topics"]]
    everything = [topic["topic"] for topic in house.all.call("GET", "/v1/topics").json()["topics"]]
    assert own == [name for name in everything if Token("read", [], OWN).may_use(name)] and {"aaa", "ordersx", FOREIGN} < set(everything) - set(own)
    for limit in range(1, len(own) + 1):
        seen, cursor = [], ""
        while cursor is not None:
            page = client.call("GET", f"/v1/topics?limit={limit}" + (f"&cursor={cursor}" if cursor else "")).json()
            assert 0 < len(page["topics"]) <= limit
            seen += [topic["topic"] for topic in page["topics"]]
            cursor = page["cursor"]
        assert seen == own
    nothing = Client(house.on("require-token"), Token("read", ["read"], OWN)).call("GET", "/v1/topics?cursor=zzz").json()
    assert nothing == {"topics": [], "cursor": None}


def test_metrics_have_topics_of_ones_own_and_no_sums_of_all(house):
    client = Client(house.on("require-token"), Token("read", ["read"], OWN))
    page = client.call("GET", "/metrics").body.decode()
    topics = set(re.findall(r'topic="([^"]*)"', page))
    assert "orders-1" in topics and all(Token("read", [], OWN).may_use(topic) for topic in topics)
    assert int(re.search(r"^tarry_topics (\d+)", page, re.M)[1]) == len(set(re.findall(r'^tarry_jobs{topic="([^"]*)"', page, re.M)))
    samples = [line for line in page.splitlines() if line.startswith("tarry_") and not line.startswith("tarry_topics ")]
    assert [line for line in samples if 'topic="' not in line] == []
    info = client.call("GET", "/v1/info").json()
    assert "limits" in info and not {"bytes_on_disk", "memory_bytes"} & set(info)
    assert {"bytes_on_disk", "memory_bytes"} < set(house.all.call("GET", "/v1/info").json())


def test_the_holder_of_a_lease_may_answer_it(house):
    """A lease is proof of a take; but the scope is still required."""
    client = Client(house.on("require-token"), Token("push", ["push"], OWN))
    assert client.call("POST", f"/v1/extend?lease={house.lease}").status == 403
    client = Client(house.on("require-token"), Token("consume", ["consume"], OWN))
    assert client.call("POST", f"/v1/extend?lease={house.lease}&lease_for=1h").status == 200


@pytest.mark.parametrize("at", range(0, 42, 3))
def test_a_token_with_one_changed_byte_is_rejected(house, at):
    secret = ALL.secret
    other = secret[:at] + ("A" if secret[at] != "A" else "B") + secret[at + 1:]
    reply = house.on("require-token").call("GET", "/v1/topics", headers={"Authorization": "Bearer " + other})
    assert reply.status == 401 and reply.code == "unauthorized" and other not in str(reply.headers) + reply.body.decode()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic", "Basic !!!", "Digest x", "bearer\ttarry_x", "Bearer tarry_x, Bearer tarry_y", ALL.secret, "Bearer " + "x" * 7000])
def test_a_header_that_is_wrong_is_refused_on_every_listener(house, header):
    for listener in ("require-token", "no-token", "unix"):
        assert house.on(listener).call("GET", "/v1/info", headers={"Authorization": header}).status == 401
        assert house.on(listener).call("GET", "/healthz", headers={"Authorization": header}).status == 200


def test_a_header_counts_before_a_certificate(house):
    connection = house.on("mtls", LIMITED[0])
    assert connection.call("GET", "/v1/info").json()["caller"] == {"name": "push.example", "kind": "certificate", "scopes": ["push"], "topics": list(OWN)}
    assert connection.call("GET", "/v1/info", headers=LIMITED[1].headers).json()["caller"]["name"] == "consume"
    assert connection.call("GET", "/v1/info", headers={"Authorization": "Bearer tarry_nobody"}).status == 401
    assert connection.call("GET", "/v1/info").json()["caller"]["name"] == "push.example"


def test_two_authorization_headers_are_rejected(house):
    connection = house.on("require-token")
    one, other = ALL.headers["Authorization"], LIMITED[0].headers["Authorization"]
    connection.send(f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {one}\r\nAuthorization: {other}\r\n\r\n".encode())
    assert connection.read().status == 400


def test_a_rejected_call_is_audited_only_for_known_callers(house):
    target = f"/v1/topics/{FOREIGN}/purge?state=dead"

    def purges(caller):
        events = [json.loads(line) for line in (house.tokens.path.parent / "audit").read_text().splitlines()]
        return [event for event in events if event["action"] == "topic purged" and event["caller"] == caller]

    before = len(purges("anonymous"))
    assert house.on("require-token").call("POST", target).status == 401
    assert Client(house.on("require-token"), AUDITED).call("POST", target).status == 403
    (event,) = eventually(lambda: purges("audited"))
    assert (event["kind"], event["outcome"], event["topic"]) == ("token", "forbidden", FOREIGN)
    assert len(purges("anonymous")) == before


@pytest.mark.parametrize("verb", ["cancel", "run", "reschedule"])
def test_a_filter_also_needs_the_scope_of_a_list(house, verb):
    """The answer shows how many jobs match, which a producer may not learn."""
    target = f"/v1/topics/{OWN[0]}/{verb}?id_prefix=none-such&dry_run=true" + ("&delay=1h" if verb == "reschedule" else "")
    push = next(token for token in LIMITED if token.scopes == ("push",))
    assert house.all.call("PUT", f"/v1/topics/{OWN[0]}/jobs/here?delay=1h", b"").ok
    refused = Client(house.on("require-token"), push).call("POST", target)
    assert (refused.status, refused.code) == (403, "forbidden") and "read" in refused.json()["detail"]
    assert Client(house.on("require-token"), ALL).call("POST", target).json()["jobs"] == 0


def test_no_secret_is_in_the_log_or_the_audit(house):
    text = house.server.log() + (house.tokens.path.parent / "audit").read_text()
    assert not [token for token in TOKENS if token.secret in text or token.secret[6:] in text]


def test_info_shows_the_caller_and_the_scope_of_each_call(house):
    for token in (ALL, LIMITED[0], LIMITED[4]):
        info = Client(house.on("require-token"), token).call("GET", "/v1/info").json()
        assert info["caller"] == {"name": token.name, "kind": "token", "scopes": [scope for scope in SCOPES if scope in token.scopes], "topics": list(token.topics)}
    assert house.on("no-token").call("GET", "/v1/info").json()["caller"]["kind"] == "anonymous"
    page = house.all.call("GET", "/metrics").body.decode()
    assert set(info["scopes"]) == set(re.findall(r'tarry_http_requests_total\{route="(\w+)"', page)) - {"none"}
    assert {name: info["scopes"][name] for name in ("push", "batch", "take", "ack", "purge", "topics", "metrics", "info", "healthz")} == {
        "push": "push", "batch": "push", "take": "consume", "ack": "consume", "purge": "admin", "topics": "read", "metrics": "read", "info": "any", "healthz": "none"}


# ---- the pages ----


def rows(page, first):
    """The cells of the table that begins so."""
    lines = (REPO / "docs" / page).read_text(encoding="utf-8").splitlines()
    lines = lines[lines.index(first) + 2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]


def test_the_pages_document_the_scope_of_each_call():
    wanted = {f"{call.method} {call.path}": {"": "any", None: "none"}.get(call.scope, call.scope) for call in CALLS}
    reference = {call: scope for calls, scope, _ in rows("api.md", "| call | scope | purpose |") for call in re.findall(r"`(\w+ /[^`]*)`", calls)}
    assert reference == wanted
    names = {"any caller": "any", "no credentials": "none"}
    table = {call: names.get(scope, scope.strip("`")) for scope, _, calls in rows("security.md", "| scope | may | calls |") for call in re.findall(r"`(\w+ /[^`]*)`", calls)}
    assert table == wanted


# ---- one connection ----


def test_pipelined_requests_of_different_callers_are_never_mixed_up(house):
    """Sends requests like a proxy."""
    connection = house.on("require-token")
    order = [LIMITED[0], ALL, NOBODY, WIDE[0], LIMITED[1], ALL, LIMITED[0], NOBODY] * 12
    target = f"/v1/topics/{FOREIGN}/jobs/pipelined?delay=1h"
    connection.send(b"".join(request_bytes("PUT", target, b"x", token.headers if token else {}) for token in order))
    wanted = {LIMITED[0]: 403, LIMITED[1]: 403, ALL: 2, NOBODY: 401, WIDE[0]: 2}
    for token in order:
        reply = connection.read("PUT")
        assert reply.status // 100 == 2 if wanted[token] == 2 else reply.status == wanted[token]
        assert token not in LIMITED or f"'{token.name}'" in reply.json()["detail"]
    house.all.call("DELETE", f"/v1/topics/{FOREIGN}/jobs/pipelined")


def test_a_large_rejected_body_is_not_read(house):
    connection = house.on("require-token")
    connection.send(b"PUT /v1/topics/orders/jobs/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" + b"x" * 1000)
    reply = connection.read("PUT")
    assert reply.status == 401 and reply.closes and "www-authenticate" in reply.headers
    connection.socket.close()


def test_a_refused_body_that_is_short_keeps_the_connection(house):
    connection = house.on("require-token")
    connection.send(b"PUT /v1/topics/orders/jobs/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + b"x" * 1000)
    connection.send(b"x" * 8000 + request_bytes("GET", "/healthz"))
    assert connection.read("PUT").status == 401 and connection.read().status == 200


@pytest.mark.parametrize("token", [NOBODY, LIMITED[0]])
def test_a_client_that_waits_for_100_continue_is_rejected_before_the_body(house, token):
    connection = house.on("require-token")
    head = request_bytes("PUT", f"/v1/topics/{FOREIGN}/jobs/1", b"", {**(token.headers if token else {}), "Expect": "100-continue"})
    connection.send(head.replace(b"Content-Length: 0", b"Content-Length: 1000"))
    line = connection.socket.recv(40, socket.MSG_PEEK)
    assert line.startswith(b"HTTP/1.1 40"), line
    reply = connection.read("PUT")
    assert reply.status == (403 if token else 401) and reply.closes


def test_a_permitted_client_gets_100_continue(house):
    connection = house.on("require-token")
    connection.send(request_bytes("PUT", "/v1/topics/orders/jobs/expected?delay=1h", b"", {**ALL.headers, "Expect": "100-continue"}).replace(b"Content-Length: 0", b"Content-Length: 1"))
    assert connection.socket.recv(25).startswith(b"HTTP/1.1 100 ")
    connection.send(b"x")
    assert connection.read("PUT").status == 201


def test_chunks_of_unauthorised_callers_are_not_read(house):
    connection = house.on("require-token")
    connection.send(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    reply = connection.read("POST")
    assert reply.status == 401 and reply.closes


def test_http_1_0_and_head(house):
    connection = house.on("require-token")
    connection.send(b"GET /v1/topics HTTP/1.0\r\n\r\n")
    assert connection.read().status == 401
    connection = house.on("require-token")
    connection.send(f"GET /v1/info HTTP/1.0\r\nAuthorization: Bearer {ALL.secret}\r\n\r\n".encode())
    assert connection.read().status == 200
    connection = house.on("require-token")
    for target in ("/v1/topics", f"/v1/topics/{FOREIGN}"):
        refused = connection.call("HEAD", target, headers=LIMITED[0].headers)
        assert refused.status == 403 and refused.body == b""
    assert connection.call("HEAD", "/v1/topics").status == 401
    assert connection.call("HEAD", f"/v1/topics/{FOREIGN}", headers=ALL.headers).status == 200


def test_a_password_will_do(house):
    import base64

    connection = house.on("require-token")
    good = base64.b64encode(f"anybody:{ALL.secret}".encode()).decode()
    assert connection.call("GET", "/v1/topics", headers={"Authorization": "Basic " + good}).status == 200
    reply = connection.call("GET", "/v1/topics", headers={"Authorization": "Basic " + base64.b64encode(b"a:b").decode()})
    assert reply.status == 401 and reply.headers["www-authenticate"].count("realm=") == 2
