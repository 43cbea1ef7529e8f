"""Access keys for SQS, with which SDKs sign (AWS Signature Version 4). The signatures of the attacks are made here, manually."""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import re
import shlex
import subprocess
import threading
import time

import pytest
from conftest import FLAGS
from server import BINARY, REPO, eventually, free_port
from test_sqs import ACCOUNT, REGION, client_of, refused
from tokens import Token, TokenFile

SECRET = "a-secret-of-the-shop/+1"
ALL = "secret-of-who-may-do-all"


def key(name, secret, scope="push,consume,read,admin", topics="*", more=""):
    return f"access-key {name} scope={scope} topics={topics} secret={secret} {more}".strip()


@pytest.fixture
def house(start_server, tmp_path):
    """A server with keys: its SDK for a key, and its file of tokens."""

    class House:
        tokens = TokenFile(tmp_path / "tokens", key("all", ALL), key("shop", SECRET, "push,consume", "orders-*"), key("worker", SECRET, "consume", "orders-*"), Token("bearer"))
        server = start_server("--sqs", f"{REGION}/{ACCOUNT}", "--tokens", str(tokens.path), *FLAGS)

        def sdk(self, name="all", secret=ALL, region=REGION):
            return client_of(self.server.port, aws_access_key_id=name, aws_secret_access_key=secret, region_name=region)

    return House()


# ---- signatures by hand ----


def mac(secret, text):
    return hmac.new(secret, text.encode(), hashlib.sha256).digest()


def signed(port, body, target="ListQueues", name="all", secret=ALL, region=REGION, service="sqs", at=None, path="/", leave_out=(), more=None):
    """The headers of a call, signed; `leave_out`: sent, and not signed."""
    moment = (at or datetime.datetime.now(datetime.timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": "application/x-amz-json-1.0", "host": f"127.0.0.1:{port}", "x-amz-date": moment, "x-amz-target": f"AmazonSQS.{target}", **(more or {})}
    names = sorted(name for name in headers if name not in leave_out)
    canonical = "\n".join(["POST", path, "", *(f"{name}:{headers[name]}" for name in names), "", ";".join(names), hashlib.sha256(body).hexdigest()])
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    chain = mac(mac(mac(mac(b"AWS4" + secret.encode(), moment[:8]), region), service), "aws4_request")
    made = mac(chain, "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])).hex()
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 Credential={name}/{scope}, SignedHeaders={';'.join(names)}, Signature={made}"}


def post(connection, body, headers, path="/"):
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    output = json.loads(answer.read() or b"{}")
    return answer.status, output.get("__type", "").rpartition("#")[2], output, answer.headers.get("x-amzn-query-error", "").partition(";")[0]


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=20)


# ---- claims ----


def test_a_key_admits_the_sdk_only_to_its_topics(house):
    every, shop = house.sdk(), house.sdk("shop", SECRET)
    urls = [every.create_queue(QueueName=name)["QueueUrl"] for name in ("orders-eu", "mail")]
    shop.send_message(QueueUrl=urls[0], MessageBody="grüße" * 1000, DelaySeconds=0)
    (message,) = shop.receive_message(QueueUrl=urls[0], WaitTimeSeconds=5)["Messages"]
    shop.delete_message(QueueUrl=urls[0], ReceiptHandle=message["ReceiptHandle"])
    for call, fields in ((shop.send_message, {"QueueUrl": urls[1], "MessageBody": "x"}), (shop.receive_message, {"QueueUrl": urls[1]}), (shop.purge_queue, {"QueueUrl": urls[0]}),
                         (shop.send_message, {"QueueUrl": urls[0].replace("orders-eu", "nowhere"), "MessageBody": "x"})):
        assert refused(call, **fields)[0] == "AccessDeniedException", fields
    assert refused(house.sdk("shop", SECRET[:-1] + "2").list_queues)[0] == "SignatureDoesNotMatch"
    assert refused(house.sdk("shop", ALL).list_queues)[0] == "SignatureDoesNotMatch"
    assert refused(house.sdk("nobody", SECRET).list_queues)[0] == "InvalidClientTokenId"
    assert refused(house.sdk("bearer", Token("bearer").secret).list_queues)[0] == "InvalidClientTokenId"
    code, output = refused(house.sdk(region="eu-west-1").list_queues)
    assert code == "SignatureDoesNotMatch" and "region" in output
    # An access key is for signatures: neither its secret nor its name is a token, and a token is not an access key.
    for header in (f"Bearer {ALL}", "Bearer all", "Basic " + "YWxsOg=="):
        connection = connect(house.server.port)
        connection.request("GET", "/v1/topics", headers={"Authorization": header})
        assert connection.getresponse().status == 401
    connection = connect(house.server.port)
    assert post(connection, b"{}", {**Token("bearer").headers, "X-Amz-Target": "AmazonSQS.ListQueues"})[0] == 200
    assert post(connection, b"{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})[3] == "MissingAuthenticationToken"
    connection.request("GET", "/v1/topics", headers=signed(house.server.port, b""))
    assert connection.getresponse().status == 401  # the API's own calls take no signatures


# Each operation's minimal sets of scopes: any one of them is enough.
NEEDED = {
    "SendMessage": ["push"], "SendMessageBatch": ["push"], "ReceiveMessage": ["consume"], "DeleteMessage": ["consume"], "DeleteMessageBatch": ["consume"],
    "ChangeMessageVisibility": ["consume"], "ChangeMessageVisibilityBatch": ["consume"], "CreateQueue": ["admin"], "SetQueueAttributes": ["admin"],
    "GetQueueUrl": ["push", "consume", "read", "admin"], "GetQueueAttributes": ["consume", "read"], "ListQueues": ["read"], "ListQueueTags": ["read"],
    "ListDeadLetterSourceQueues": ["read"], "DeleteQueue": ["admin"], "PurgeQueue": ["admin"], "TagQueue": ["admin"], "UntagQueue": ["admin"],
    "StartMessageMoveTask": ["push,consume"], "ListMessageMoveTasks": ["read"], "CancelMessageMoveTask": ["consume"], "AddPermission": [], "RemovePermission": [],
}


def fields_of(operation, url, dead):
    entry = {"Id": "1", "MessageBody": "x", "ReceiptHandle": "x" * 48 + "~1", "VisibilityTimeout": 1}
    fields = {"QueueUrl": url, "QueueName": url.rpartition("/")[2], "Entries": [entry], "SourceArn": dead, "TaskHandle": "move/0123456789abcdef/" + dead.rpartition(":")[2],
              "Attributes": {"DelaySeconds": "0"}, "AttributeNames": ["All"], "Tags": {"a": "b"}, "TagKeys": ["a"], **entry}
    del fields["Id"]
    if operation == "CreateQueue":
        fields["QueueName"] = "orders-new"
    return fields


def test_each_operation_takes_any_of_its_scopes_and_no_other(start_server, tmp_path):
    scopes = ("push", "consume", "read", "admin")
    sets = [",".join(scope for at, scope in enumerate(scopes) if bits >> at & 1) for bits in range(1, 16)]
    tokens = TokenFile(tmp_path / "tokens", Token("all"), *(Token("only-" + words.replace(",", "-"), words.split(","), ("orders-*",)) for words in sets))
    server = start_server("--sqs", f"{REGION}/{ACCOUNT}", "--tokens", str(tokens.path), *FLAGS)
    connection, url, dead = connect(server.port), f"http://localhost/{ACCOUNT}/orders-1", f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dead"

    def call(who, operation, **fields):
        status, fault, output, _ = post(connection, json.dumps(fields).encode(), {**Token(who).headers, "X-Amz-Target": f"AmazonSQS.{operation}"})
        assert fault != "ServiceUnavailableException", (operation, output)
        return status, fault

    policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 5})
    rows = re.findall(r'\{"([A-Z]\w+)", SQS_NAMES_', "".join(path.read_text() for path in (REPO / "src/fronts/sqs").glob("*.c")))
    assert sorted(rows) == sorted(NEEDED)
    for operation, minimal in NEEDED.items():
        assert call("all", "CreateQueue", QueueName="orders-dead")[0] == 200
        assert call("all", "CreateQueue", QueueName="orders-1")[0] == 200 and call("all", "SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy})[0] == 200
        for words in sets:
            status, fault = call("only-" + words.replace(",", "-"), operation, **fields_of(operation, url, dead))
            may = any(set(one.split(",")) <= set(words.split(",")) for one in minimal)
            if minimal:
                assert (fault != "AccessDeniedException") == may and (not may or status == 200 or fault in ("ReceiptHandleIsInvalid", "MessageNotInflight", "ResourceNotFoundException", "UnsupportedOperation", "QueueDoesNotExist")), (operation, words, status, fault)
            else:
                assert fault == "UnsupportedOperation"
            if operation == "DeleteQueue" and may:
                break
            status, fault = call("only-" + words.replace(",", "-"), operation, **fields_of(operation, url.replace("orders", "mail"), dead.replace("orders", "mail")))
            assert not minimal or operation in ("ListQueues", "CreateQueue") or fault == "AccessDeniedException", (operation, words, status, fault)


def test_forged_handles_delete_nothing(house):
    """A key that may only consume: what it has not received it cannot delete, whatever it makes up."""
    every, worker = house.sdk(), house.sdk("worker", SECRET)
    url = every.create_queue(QueueName="orders-eu")["QueueUrl"]
    connection = connect(house.server.port)
    for id in range(10):
        connection.request("PUT", f"/v1/topics/orders-eu/jobs/{id}?delay=365d", b"pay", Token("bearer").headers)
        connection.getresponse().read()
    every.send_message(QueueUrl=url, MessageBody="mine")
    (mine,) = worker.receive_message(QueueUrl=url, WaitTimeSeconds=10, VisibilityTimeout=60)["Messages"]
    lease, _, id = mine["ReceiptHandle"].partition("~")
    made_up = ["x" * 30, "0" * len(lease), lease[:-1], lease + "0", lease[:-1] + ("0" if lease[-1] != "0" else "1"), lease]
    forged = [f"{text}~{between}{target}" for text in made_up for between in ("", "0~", "1~") for target in range(10)]
    worker.change_message_visibility(QueueUrl=url, ReceiptHandle=mine["ReceiptHandle"], VisibilityTimeout=0)
    for at in range(0, len(forged), 10):
        worker.delete_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(forged[at:at + 10])])
    for handle in (f"{text}~{id}" for text in made_up[:-1]):
        worker.delete_message(QueueUrl=url, ReceiptHandle=handle)

    def numbers():
        found = every.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return found["ApproximateNumberOfMessages"], found["ApproximateNumberOfMessagesDelayed"]

    assert numbers() == ("1", "10")
    connection.request("PUT", f"/v1/topics/orders-eu/jobs/{id}", b"another job of that id", Token("bearer").headers)
    answer = connection.getresponse()
    assert json.loads(answer.read())["result"] == "replaced"
    worker.delete_message(QueueUrl=url, ReceiptHandle=mine["ReceiptHandle"])
    assert numbers() == ("1", "10")
    (again,) = worker.receive_message(QueueUrl=url, WaitTimeSeconds=10, VisibilityTimeout=0)["Messages"]
    eventually(lambda: numbers() == ("1", "10"))
    worker.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert numbers() == ("0", "10")


def test_a_connection_remembers_a_token_but_no_signature(house):
    port = house.server.port
    connection = connect(port)
    bearer = {**Token("bearer").headers, "X-Amz-Target": "AmazonSQS.ListQueues"}
    good = signed(port, b"{}")
    other = b'{"QueueNamePrefix":"o"}'
    for _ in range(3):
        assert post(connection, b"{}", bearer)[0] == 200
        assert post(connection, other, bearer)[0] == 200
        assert post(connection, b"{}", good)[0] == 200
        assert post(connection, other, good)[0] == 403  # its signature is of another body, whatever caller was here before
        assert post(connection, b"{}", {**bearer, "Authorization": "Bearer tarry_nobody"})[0] == 403
        assert post(connection, b"{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})[3] == "MissingAuthenticationToken"
    post(connection, b"{}", bearer)
    house.tokens.write(key("all", ALL), Token("bearer", revoked="2026-01-01T00:00:00Z"))
    eventually(lambda: post(connection, b"{}", bearer)[0] == 403)


def test_nothing_of_a_signed_call_can_be_changed(house):
    port, body = house.server.port, b'{"QueueNamePrefix":"a"}'
    good = signed(port, body)
    now = datetime.datetime.now(datetime.timezone.utc)
    minutes = datetime.timedelta(minutes=1)
    connection = connect(port)
    assert post(connection, body, good)[0] == 200
    assert post(connection, body, good)[0] == 200  # within its time a call can be sent again by who has seen it: the protocol allows it, TLS prevents it
    mismatch, incomplete = (403, "InvalidSignatureException", "SignatureDoesNotMatch"), (400, "IncompleteSignatureException", "IncompleteSignature")
    for claim, sent, headers, right in (
            ("another body", b'{"QueueNamePrefix":"b"}', good, mismatch),
            ("no body", b"", good, mismatch),
            ("another operation", body, {**good, "x-amz-target": "AmazonSQS.PurgeQueue"}, mismatch),
            ("another type", body, {**good, "content-type": "application/json"}, mismatch),
            ("another host", body, {**good, "host": "localhost"}, mismatch),
            ("another time", body, {**good, "x-amz-date": (now - minutes).strftime("%Y%m%dT%H%M%SZ")}, mismatch),
            ("another region", body, signed(port, body, region="eu-west-1"), mismatch),
            ("another service", body, signed(port, body, service="sns"), mismatch),
            ("16 minutes ago", body, signed(port, body, at=now - 16 * minutes), mismatch),
            ("in 16 minutes", body, signed(port, body, at=now + 16 * minutes), mismatch),
            ("an operation that is not signed", body, signed(port, body, leave_out=["x-amz-target"]), incomplete),
            ("one more header of AWS", body, {**good, "X-Amz-Security-Token": "x"}, incomplete),
            ("a host that is not signed", body, signed(port, body, leave_out=["host"]), incomplete),
            ("a time that is not signed", body, signed(port, body, leave_out=["x-amz-date"]), incomplete),
            ("a body that is left out", body, signed(port, body, more={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}), mismatch),
            ("the digest of another body", body, signed(port, body, more={"x-amz-content-sha256": hashlib.sha256(b"x").hexdigest()}), mismatch),
            ("another's name", body, {**good, "authorization": good["authorization"].replace("=all/", "=shop/")}, mismatch),
            ("no signature", body, {**good, "authorization": good["authorization"].partition(", Signature")[0]}, incomplete),
            ("another algorithm", body, {**good, "authorization": good["authorization"].replace("HMAC-SHA256", "ECDSA-P256-SHA256")}, incomplete)):
        status, shape, output, code = post(connection, sent, headers)
        assert (status, shape, code) == right, (claim, output)
        assert ALL not in output["message"]
    for minute in (-14, 14):
        assert post(connection, body, signed(port, body, at=now + minute * minutes))[0] == 200
    for more in ({"x-amz-content-sha256": hashlib.sha256(body).hexdigest()}, {"x-amz-security-token": "any"}, {"my-header": " a   b "}):
        sent = {**signed(port, body, more={name: " ".join(value.split()) for name, value in more.items()}), **more}
        assert post(connection, body, sent)[0] == 200, more
    assert post(connection, body, signed(port, body, path=f"/{ACCOUNT}/q"), f"/{ACCOUNT}/q")[0] == 200
    assert post(connection, body, good, f"/{ACCOUNT}/q")[0] == 403


def test_a_long_body_is_not_read_for_unknown_callers_and_is_signed_as_a_whole(house):
    port = house.server.port
    house.sdk().create_queue(QueueName="orders-1")
    body = json.dumps({"QueueUrl": f"http://127.0.0.1:{port}/{ACCOUNT}/orders-1", "MessageBody": "x" * 900_000}).encode()
    connection = connect(port)
    assert post(connection, body, signed(port, body, "SendMessage"))[0] == 200
    connection.request("POST", "/", iter([body[:500_000], body[500_000:]]), {**signed(port, body, "SendMessage"), "Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, bool(answer.read())) == (200, True)
    assert post(connection, body[:-2] + b"y}", signed(port, body, "SendMessage"))[3] == "SignatureDoesNotMatch"
    for name, code in (("nobody", "InvalidClientTokenId"), ("all", None)):
        connection = connect(port)
        connection.putrequest("POST", "/", skip_host=True)
        for header, value in {**signed(port, b"", "SendMessage", name=name), "content-length": "15000000"}.items():
            connection.putheader(header, value)
        connection.endheaders()
        if code:  # reported immediately
            assert json.loads(connection.getresponse().read())["__type"].endswith("UnrecognizedClientException")
        else:
            connection.sock.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.sock.recv(1)  # its body is waited for


def test_keys_come_go_and_get_other_secrets_while_it_serves(house):
    shop = house.sdk("shop", SECRET)
    url = house.sdk().create_queue(QueueName="orders-1")["QueueUrl"]
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(refused(shop.receive_message, QueueUrl=url, WaitTimeSeconds=20)[0]))
    waiting.start()
    eventually(lambda: b"tarry_waiting_takes 1\n" in scrape(house))
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    house.tokens.write(key("all", ALL), key("shop", "another-secret-of-it", "push,consume", "orders-*", f"old-secret={SECRET} old-until={later}"), key("new", SECRET))
    eventually(lambda: lets_in(house.sdk("shop", "another-secret-of-it"), url))
    assert shop.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=600) and house.sdk("new", SECRET).list_queues()["QueueUrls"] == [url]
    assert not ended  # the old secret is valid for a while, so a take that waits with it continues
    house.tokens.write(key("all", ALL), key("shop", "another-secret-of-it", "push,consume", "orders-*", "revoked=2026-01-01T00:00:00Z"))
    waiting.join(20)
    assert ended == ["InvalidClientTokenId"]
    assert not lets_in(shop, url) and refused(house.sdk("new", SECRET).list_queues)[0] == "InvalidClientTokenId"


def lets_in(sdk, url):
    from botocore.exceptions import ClientError
    try:
        return sdk.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=600)
    except ClientError:
        return None


def scrape(house):
    connection = connect(house.server.port)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers=Token("bearer").headers)
        return connection.getresponse().read()


def test_without_access_keys_a_signature_has_no_effect(start_server, tmp_path):
    """A signature passes on a listener without authentication; elsewhere the error explains what to do."""
    port = free_port()
    server = start_server("--sqs", f"{REGION}/{ACCOUNT}", "--tokens", str(TokenFile(tmp_path / "tokens", Token("bearer")).path), "--listen", f"127.0.0.1:{port},no-token", *FLAGS)
    assert client_of(port).create_queue(QueueName="q")["QueueUrl"].endswith("/q")
    code, output = refused(client_of(server.port).list_queues)
    assert code == "InvalidClientTokenId" and "tarry token new" in output


def test_the_command_makes_lists_rotates_and_revokes_keys(tmp_path):
    tokens = tmp_path / "tokens"

    def token(*words):
        return subprocess.run([BINARY, "token", *words, "--tokens", tokens], capture_output=True, text=True, timeout=30, check=False)

    made = token("new", "legacy", "--access-key", "--scope", "push", "--topics", "mail")
    secret = made.stdout.strip()
    assert made.returncode == 0 and "its name is the key id" in made.stderr and len(secret) == 42
    assert f"secret={secret}" in tokens.read_text() and "sha256" not in tokens.read_text()
    other = token("rotate", "legacy", "--overlap", "1h").stdout.strip()
    assert f"secret={other} old-secret={secret}" in " ".join(word for word in tokens.read_text().split() if "secret=" in word)
    listed = json.loads(token("list", "--json").stdout)["tokens"]
    assert [(entry["name"], entry["kind"], entry["state"]) for entry in listed] == [("legacy", "access-key", "rotating")]
    assert secret not in token("list").stdout + token("list", "--json").stdout and other not in token("list").stdout
    assert json.loads(token("new", "b", "--access-key", "--scope", "read", "--topics", "*", "--json").stdout)["secret"] in tokens.read_text()
    assert token("revoke", "legacy").returncode == 0 and json.loads(token("list", "--json").stdout)["tokens"][0]["state"] == "revoked"
    assert token("new", "c", "--access-key", "--certificate", "--scope", "read", "--topics", "*").returncode == 2


def test_the_pages_key_lets_its_program_in(start_server, tmp_path):
    page = (REPO / "docs" / "moving" / "sqs.md").read_text(encoding="utf-8")
    make, serve = re.search(r"```sh\n(tarry token new .*)\n(tarry serve .*)\n```", page).groups()
    command, _, file = make.partition(" > ")
    made = subprocess.run([BINARY, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True)
    flags = [str(tmp_path / word) if word == "tokens" else word for word in shlex.split(serve)[2:]]
    server = start_server(*FLAGS, *flags)
    assert file == "shop.secret" and "AWS_ACCESS_KEY_ID=shop" in page
    sdk = client_of(server.port, aws_access_key_id="shop", aws_secret_access_key=made.stdout.strip())
    assert refused(sdk.list_queues)[0] == "AccessDeniedException"  # it may push and consume


def test_no_secret_is_in_the_log_or_shown(house):
    house.sdk().create_queue(QueueName="q")
    refused(house.sdk("shop", ALL).list_queues)
    house.tokens.write(key("all", ALL), key("shop", "short"))
    eventually(lambda: "bad value for 'secret'" in house.server.log())
    connection = connect(house.server.port)
    connection.request("GET", "/v1/server", headers=Token("bearer").headers)
    shown = connection.getresponse().read().decode()
    assert '"kind":"access-key"' in shown and house.sdk().list_queues()["QueueUrls"]  # the old list stays in force
    for secret in (ALL, SECRET):
        assert secret not in house.server.log() + shown + scrape(house).decode()
