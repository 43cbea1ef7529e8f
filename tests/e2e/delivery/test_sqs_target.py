"""Delivery by SQS to another server of tarry, which checks the signatures."""

import json

import pytest
from aws import ACCOUNT, REGION
from conftest import FLAGS
from delivery import acked, deliver_test, settle
from server import eventually
from tokens import Token, TokenFile

SECRET = "a-secret-of-the-shop/+1"


@pytest.fixture
def front(start_server, tmp_path):
    tokens = TokenFile(tmp_path / "tokens", f"access-key shop scope=push,consume,read,admin topics=* secret={SECRET}", Token("bearer"))
    return start_server("--sqs", f"{REGION}/{ACCOUNT}", "--tokens", str(tokens.path), *FLAGS)


def test_jobs_arrive_in_another_server_that_checks_the_signature(front, start_delivering):
    origin = f"aws://127.0.0.1:{front.port}"
    tarry = start_delivering(policy=[f"credential = {origin} shop {SECRET}"])
    client = tarry.client()
    settle(client, "out", deliver={"to": f"{origin}/{ACCOUNT}/{{topic}}", "region": REGION}, backoff="fixed:100ms", max_attempts=1000)
    client.push("out", "1", "größe".encode())
    eventually(lambda: "QueueDoesNotExist" in (client.get("out", "1").get("last_error") or ""))
    headers = Token("bearer").headers
    assert front.client().call("PUT", "/v1/topics/out", b"{}", headers).ok
    acked(client, "out", 1)
    taken = front.client().call("POST", "/v1/topics/out/take", b"", headers).json()
    assert taken["jobs"][0]["body"] == "größe", taken
    other = start_delivering(policy=[f"credential = {origin} shop wrong-secret"])
    settle(other.client(), "out", deliver={"to": f"{origin}/{ACCOUNT}/{{topic}}", "region": REGION})
    shown = deliver_test(other.client(), "out")
    assert json.loads(shown)["outcome"] == "unsent" and "Signature" in json.loads(shown)["error"], shown
    assert SECRET not in tarry.log() and "wrong-secret" not in other.log()


def test_a_region_that_differs_is_rejected_by_the_signature(front, start_delivering):
    origin = f"aws://127.0.0.1:{front.port}"
    client = start_delivering(policy=[f"credential = {origin} shop {SECRET}"]).client()
    settle(client, "out", deliver={"to": f"{origin}/{ACCOUNT}/out", "region": "us-east-1"})
    assert json.loads(deliver_test(client, "out"))["outcome"] == "unsent"


def test_settings_of_sqs_are_checked(start_delivering):
    client = start_delivering().client()
    for deliver, why in (({"to": "awss://127.0.0.1"}, "write awss://HOST/"), ({"to": "awss://127.0.0.1/1/a", "region": "Europe"}, "bad 'region'"),
                         ({"to": "aws://127.0.0.1/arn:x", "subject": "x"}, "'subject' is for targets of nats"),
                         ({"to": "aws://127.0.0.1/1/a", "cloudevents": {}}, "no binary mode")):
        reply = client.call("PUT", "/v1/topics/t", json.dumps({"deliver": deliver}).encode())
        assert reply.status == 400 and why in reply.json()["detail"], reply.body

