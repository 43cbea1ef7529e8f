"""
SQS and SNS by moto, behind a gate that computes each signature anew with botocore, as AWS does, and can break.

    peer.py PORT

A POST to /_test with {"do": NAME, …} controls it; its answer is JSON.
"""

import http.client
import http.server
import json
import sys
import threading

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
from moto.server import ThreadedMotoServer

KEYS = {"AKIDTEST": ("the/secret+of=tests", None), "ASIATEST": ("temporary/secret", "a-session-token//+=")}
LIMIT_BYTES = 2 << 20


class State:
    calls, refused, faults, headers = 0, 0, [], []
    entries = []


def clients(port):
    options = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "eu-west-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("sqs", **options), boto3.client("sns", **options)


def fault_of(method, path, headers, body):
    """Why the signature does not hold, or None."""
    header = headers.get("Authorization", "")
    if not header.startswith("AWS4-HMAC-SHA256 "):
        return "MissingAuthenticationToken"
    parts = dict(part.strip().split("=", 1) for part in header.split(" ", 1)[1].split(","))
    key, _, region, service, _ = parts["Credential"].rsplit("/", 4)
    if key not in KEYS:
        return "UnrecognizedClientException" if service == "sqs" else "InvalidClientTokenId"
    secret, session = KEYS[key]
    if session and headers.get("X-Amz-Security-Token") != session:
        return "UnrecognizedClientException"
    signed = {name: headers[name] for name in parts["SignedHeaders"].split(";")}
    request = botocore.awsrequest.AWSRequest(method, f"http://{headers['Host']}{path}", headers=signed, data=body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    auth = botocore.auth.SigV4Auth(botocore.credentials.Credentials(key, secret), service, region)
    wanted = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return None if wanted == parts["Signature"] else "SignatureDoesNotMatch"


def error(headers, code, text):
    if "X-Amz-Target" in headers:
        return json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": text}).encode()
    return f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error></ErrorResponse>".encode()


def control(moto, ask):
    sqs, sns = clients(moto)
    do = ask["do"]
    if do == "queue":
        fifo = {"FifoQueue": "true"} if ask["name"].endswith(".fifo") else {}
        url = sqs.create_queue(QueueName=ask["name"], Attributes={**fifo, **ask.get("attributes", {})})["QueueUrl"]
        return {"arn": sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]}
    if do == "receive":
        url, found = sqs.get_queue_url(QueueName=ask["name"])["QueueUrl"], []
        while True:
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"])
            if not answer.get("Messages"):
                return found
            for message in answer["Messages"]:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                found.append({"body": message["Body"], "more": message["Attributes"],
                              "attributes": {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}})
    if do == "topic":
        fifo = {"Attributes": {"FifoTopic": "true"}} if ask["name"].endswith(".fifo") else {}
        arn = sns.create_topic(Name=ask["name"], **fifo)["TopicArn"]
        sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=ask["to"], Attributes={"RawMessageDelivery": "true"})
        return {"arn": arn}
    if do == "faults":
        State.faults += ask["faults"]
    return {"calls": State.calls, "refused": State.refused, "entries": State.entries, "headers": State.headers}


def gate(moto):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/_test":
                self.reply(200, json.dumps(control(moto, json.loads(body))).encode())
                return
            State.calls += 1
            State.headers = list(self.headers.keys())
            why = fault_of("POST", self.path, self.headers, body)
            if why:
                State.refused += 1
                self.reply(403, error(self.headers, why, "the request is not signed by a known key"))
            elif State.faults:
                fault = State.faults.pop(0)
                self.reply(fault["status"], error(self.headers, fault["code"], "injected"))
            else:
                if "X-Amz-Target" in self.headers:
                    State.entries.append(len(json.loads(body)["Entries"]))
                self.forward(body)

        def forward(self, body):
            away = http.client.HTTPConnection("127.0.0.1", moto, timeout=30)
            away.request("POST", self.path, body, {name: value for name, value in self.headers.items() if name.lower() != "host"})
            answer = away.getresponse()
            self.reply(answer.status, answer.read())

        def reply(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Listener(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    return Listener(("127.0.0.1", int(sys.argv[1])), Handler)


server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
listener = gate(server.get_host_and_port()[1])
threading.Thread(target=listener.serve_forever, daemon=True).start()
threading.Event().wait()
