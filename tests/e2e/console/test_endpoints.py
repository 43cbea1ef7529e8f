"""A topic's endpoints: where its jobs are sent, what became of them, and how the breaker stands."""

import pytest
from delivery import settle, totals
from endpoint import Endpoint, write_policy
from server import Server, eventually
from streams import Stream
from tokens import Token, TokenFile

ALL, ORDERS, MAIL = Token("all"), Token("orders", ["read", "push"], ["orders", "calls"]), Token("mail", ["read"], ["mail"])


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server with tokens that delivers, and an endpoint."""
    directory = tmp_path_factory.mktemp("endpoints")
    tokens = TokenFile(directory / "tokens", ALL, ORDERS, MAIL)
    server = Server(directory / "server", ("--sync", "never", "--wal-file", "16MiB", "--tokens", str(tokens.path), "--deliver", write_policy(directory / "policy"))).start()
    with Endpoint() as endpoint:
        yield server, endpoint
    assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-4000:]


class As:
    def __init__(self, client, token):
        self.client, self.token = client, token

    def __getattr__(self, verb):
        return getattr(self.client, verb)

    def call(self, method, target, body=b"", headers=None):
        return self.client.call(method, target, body, {**self.token.headers, **(headers or {})})

    def endpoints(self, topic):
        reply = self.call("GET", f"/v1/topics/{topic}/endpoints")
        assert reply.ok, reply.body
        return reply.json()

    def put(self, topic, settings):
        assert self.call("PUT", f"/v1/topics/{topic}", settings.encode()).ok

    def push(self, topic, ident, options=""):
        assert self.call("PUT", f"/v1/topics/{topic}/jobs/{ident}{options}", b"x").ok


pytestmark = pytest.mark.plain("it has tokens of its own")


def test_an_endpoint_shows_the_outcomes_of_its_jobs(world):
    server, endpoint = world
    client = As(server.client(), ALL)
    client.put("orders", f'{{"backoff":"fixed:1ms","max_attempts":2,"deliver":{{"to":"{endpoint.url}/close?token=gEhEiM"}}}}')
    output = client.endpoints("orders")
    one, = output["endpoints"]
    assert output["target"] == {"to": endpoint.url + "/close?token=gEhEiM"} and output["delivers"] is True
    assert one["origin"] == endpoint.url and one["kind"] == "http" and one["state"] == "closed" and set(one["outcomes"].values()) == {0}
    assert one["since_at"] is None and one["last_error"] is None and one["retry_at"] is None

    client.push("orders", "good")
    eventually(lambda: client.endpoints("orders")["endpoints"][0]["outcomes"]["done"] == 1)
    endpoint.answer = lambda call: 410
    client.push("orders", "gone")
    eventually(lambda: client.endpoints("orders")["endpoints"][0]["outcomes"]["refused"] == 1)
    endpoint.answer = lambda call: 503
    for n in range(8):
        client.push("orders", f"bad{n}")
    eventually(lambda: client.endpoints("orders")["endpoints"][0]["state"] in ("open", "half_open"))
    one, = client.endpoints("orders")["endpoints"]
    assert one["outcomes"]["failed"] >= 5 and "503" in one["last_error"] and one["last_error_at"] and one["since_at"]
    eventually(lambda: client.endpoints("orders")["endpoints"][0]["retry_at"])
    assert "gEhEiM" not in str(client.endpoints("orders")["endpoints"])
    endpoint.answer = lambda call: 200
    eventually(lambda: client.endpoints("orders")["endpoints"][0]["state"] == "closed", 20)


def test_callbacks_of_all_topics_need_rights_to_all_topics(world):
    server, endpoint = world
    client = As(server.client(), ALL)
    with Endpoint() as other:
        client.put("calls", '{"deliver":{"callback":true}}')
        client.push("calls", "a", f"?callback={other.url}/x")
        eventually(lambda: other.url in [one["origin"] for one in client.endpoints("calls")["endpoints"]])
        assert As(server.client(), ORDERS).endpoints("calls") == {"target": {"callback": True}, "delivers": True, "endpoints": []}
    assert client.endpoints("orders")["endpoints"][0]["origin"] == endpoint.url and len(client.endpoints("orders")["endpoints"]) == 1
    assert As(server.client(), ORDERS).endpoints("orders")["endpoints"][0]["origin"] == endpoint.url
    assert As(server.client(), MAIL).call("GET", "/v1/topics/orders/endpoints").status == 403


def test_a_topic_shows_the_breaker_of_its_target(world):
    server, endpoint = world
    client = As(server.client(), ALL)

    def command(*words):
        return server.cli(*words, "--token-file", str(token)).stdout.decode()

    def live():
        with Stream(server.port, "/v1/live?view=topic&topic=broken", headers=ALL.headers) as stream:
            return stream.data("snapshot")["topic"].get("breaker")

    token = server.directory / "all.token"
    token.write_text(ALL.secret + "\n", encoding="ascii")
    token.chmod(0o600)
    with Endpoint() as right:
        client.put("broken", f'{{"backoff":"fixed:1s","deliver":{{"to":"{right.url}/x"}}}}')
        assert client.call("GET", "/v1/topics/broken").json()["breaker"] == "closed" and live() == "closed"
        assert "circuit breaker" not in command("topic", "show", "broken") and "breaker" not in command("topics", "broken")
        client.put("plain", "{}")
        assert "breaker" not in client.call("GET", "/v1/topics/plain").json()
    for n in range(10):
        client.push("broken", f"j{n}")
    eventually(lambda: client.call("GET", "/v1/topics/broken").json()["breaker"] == "open")
    listed = {one["topic"]: one.get("breaker") for one in client.call("GET", "/v1/topics").json()["topics"]}
    assert listed["broken"] in ("open", "half_open") and listed["plain"] is None
    eventually(lambda: "circuit breaker of the target open" in command("topic", "show", "broken"))
    eventually(lambda: "circuit breaker open" in command("topics", "broken"))
    assert live() in ("open", "half_open")


def test_a_topic_without_a_target_has_no_endpoint(world):
    server, _ = world
    client = As(server.client(), ALL)
    client.put("plain", "{}")
    assert client.endpoints("plain") == {"target": None, "delivers": True, "endpoints": []}
    assert client.call("GET", "/v1/topics/nowhere/endpoints").code == "not_found"


def test_a_server_without_delivery_shows_only_the_target(start_server, start_redis, tmp_path):
    redis = start_redis()
    store = ("--store", redis.url, "--shards", "1")
    with Endpoint() as endpoint:
        sends = start_server(*store, "--deliver", write_policy(tmp_path / "policy")).client()
        settle(sends, "orders", deliver={"to": endpoint.url + "/x"})
        sends.push("orders", "a")
        eventually(lambda: totals(sends, "orders")["acked"] == 1)
        assert sends.good("GET", "/v1/topics/orders/endpoints")["endpoints"][0]["outcomes"]["done"] == 1
        shows = start_server(*store).client()
        assert shows.good("GET", "/v1/topics/orders/endpoints") == {"target": {"to": endpoint.url + "/x"}, "delivers": False, "endpoints": []}
