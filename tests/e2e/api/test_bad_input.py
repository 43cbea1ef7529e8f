"""
Malformed and oversized requests, in one table: what is sent, and the exact status and code that must come back.

Each limit is tested at the limit and one above. After each row the server is alive, the job that was there before is still there, and at the end
neither descriptors nor memory have grown.
"""

import gc
import json

import pytest
from client import Connection, Lost, request_bytes
from server import IS_SANITIZED, eventually

MIB = 1 << 20
HOST = b"Host: localhost\r\n"
PUT = b"PUT /v1/topics/bad/jobs/a HTTP/1.1\r\n" + HOST
YEARS_10 = 3653 * 24 * 3600 * 1000
JSON = {"Content-Type": "application/json"}


def head(text):
    """A raw request head: lines given with \\n, sent with CR LF."""
    return text.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n"


def put(query="", body=b"x", ident="a", topic="bad", **headers):
    return request_bytes("PUT", f"/v1/topics/{topic}/jobs/{ident}{query}", body, {name.replace("_", "-"): value for name, value in headers.items()})


def post(target, body=b"", headers=None):
    return request_bytes("POST", target, body, headers)


def batch(*items, raw=None, kind="application/json"):
    body = raw if raw is not None else json.dumps(list(items)).encode()
    return post("/v1/jobs", body, {"Content-Type": kind})


def settings(**fields):
    return request_bytes("PUT", "/v1/topics/bad", json.dumps(fields).encode(), JSON)


def of_line_bytes(count):
    """A request line of so many bytes with its CR LF."""
    start, end = b"GET /v1/topics/bad/jobs?cursor=", b" HTTP/1.1\r\n"
    return start + b"c" * (count - len(start) - len(end)) + end + HOST + b"\r\n"


def of_head_bytes(count):
    start = b"GET /healthz HTTP/1.1\r\n" + HOST
    filler, end = b"X-Filler: ", b"\r\n\r\n"
    return start + filler + b"f" * (count - len(start) - len(filler) - len(end)) + end


def of_headers(count):
    return b"GET /healthz HTTP/1.1\r\n" + HOST + b"".join(b"X-%d: 1\r\n" % i for i in range(count - 1)) + b"\r\n"


def of_meta(count, name_bytes=4, value_bytes=1):
    return put(**{f"Tarry_Meta_{str(i).zfill(name_bytes)}": "v" * value_bytes for i in range(count)})


def chunked(body, more=""):
    return PUT + b"Transfer-Encoding: chunked\r\n" + more.encode() + b"\r\n" + body


# name, bytes, status, code (None for success)
FRAMING = [
    ("both lengths", PUT + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400, "bad_framing"),
    ("two equal lengths", PUT + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400, "bad_framing"),
    ("two different lengths", PUT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", 400, "bad_framing"),
    ("a list of lengths", PUT + b"Content-Length: 1, 1\r\n\r\nx", 400, "bad_framing"),
    ("a signed length", PUT + b"Content-Length: +1\r\n\r\nx", 400, "bad_framing"),
    ("a negative length", PUT + b"Content-Length: -1\r\n\r\nx", 400, "bad_framing"),
    ("a hexadecimal length", PUT + b"Content-Length: 0x1\r\n\r\nx", 400, "bad_framing"),
    ("an empty length", PUT + b"Content-Length:\r\n\r\nx", 400, "bad_framing"),
    ("a length beyond 64 bits", PUT + b"Content-Length: 99999999999999999999\r\n\r\nx", 400, "bad_framing"),
    ("bare LF after the request line", b"GET /healthz HTTP/1.1\n" + HOST + b"\r\n", 400, "bad_framing"),
    ("bare LF after a header", b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n", 400, "bad_framing"),
    ("bare CR in a value", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A: 1\rX-B: 2\r\n\r\n", 400, "bad_framing"),
    ("a folded header", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A: 1\r\n 2\r\n\r\n", 400, "bad_framing"),
    ("a blank before the colon", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A : 1\r\n\r\n", 400, "bad_framing"),
    ("a header without a colon", b"GET /healthz HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n", 400, "bad_framing"),
    ("a header without a name", b"GET /healthz HTTP/1.1\r\n" + HOST + b": 1\r\n\r\n", 400, "bad_framing"),
    ("a NUL in a header", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-A: a\0b\r\n\r\n", 400, "bad_framing"),
    ("no Host", b"GET /healthz HTTP/1.1\r\n\r\n", 400, "bad_framing"),
    ("two Hosts", b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, "bad_framing"),
    ("a request line of two words", head("GET /healthz\nHost: localhost"), 400, "bad_framing"),
    ("a request line of four words", head("GET /health z HTTP/1.1\nHost: localhost"), 400, "bad_framing"),
    ("two blanks in the request line", head("GET  /healthz HTTP/1.1\nHost: localhost"), 400, "bad_framing"),
    ("bytes above ASCII in the target", b"GET /\xc3\xa4 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "bad_framing"),
    ("TLS knocking", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request"),
    ("a method that is no word", head("G(T /healthz HTTP/1.1\nHost: localhost"), 400, "bad_framing"),
    ("an answer in place of a request", head("HTTP/1.1 200 OK\nHost: localhost"), 400, "bad_framing"),
    ("RTSP", head("GET /healthz RTSP/1.0\nHost: localhost"), 400, "bad_request"),
    ("RTSP with its own method", head("DESCRIBE /healthz RTSP/1.0\nHost: localhost"), 400, "bad_request"),
    ("ICE", head("SOURCE /healthz ICE/1.0\nHost: localhost"), 400, "bad_request"),
    ("HTTP/0.9", head("GET /healthz HTTP/0.9\nHost: localhost"), 505, "version_unknown"),
    ("HTTP/2.0", head("GET /healthz HTTP/2.0\nHost: localhost"), 505, "version_unknown"),
    ("HTTP/1.2", head("GET /healthz HTTP/1.2\nHost: localhost"), 505, "version_unknown"),
    ("HEAD with a body", b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\nx", 400, "bad_request"),
    ("a target with a user", head("GET http://a@localhost/healthz HTTP/1.1\nHost: localhost"), 400, "bad_request"),
    ("a target without a host", head("GET http:///healthz HTTP/1.1\nHost: localhost"), 400, "bad_request"),
    ("the preface of HTTP/2 with a mistake", b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", None, ("version_unknown", "bad_framing", "bad_request")),
    ("Transfer-Encoding: gzip", PUT + b"Transfer-Encoding: gzip\r\n\r\n", 501, "transfer_coding_unknown"),
    ("Transfer-Encoding: gzip, chunked", PUT + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "transfer_coding_unknown"),
    ("Transfer-Encoding twice", PUT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_framing"),
    ("chunked in HTTP/1.0", b"PUT /v1/topics/bad/jobs/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_framing"),
    ("a chunk without a size", chunked(b"\r\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("a chunk size that is no number", chunked(b"zz\r\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("a signed chunk size", chunked(b"+1\r\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("a chunk longer than its size", chunked(b"1\r\nxyz\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("a chunk size ended by LF alone", chunked(b"1\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("a chunk size beyond 64 bits", chunked(b"fffffffffffffffff\r\nx"), 413, "body_too_big"),
    ("a chunk size of many zeros", chunked(b"0" * 17 + b"1\r\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("chunk notes above their limit", chunked(b"1;" + b"n" * 4100 + b"\r\nx\r\n0\r\n\r\n"), 400, "bad_framing"),
    ("an unknown expectation", PUT + b"Expect: tea\r\nContent-Length: 1\r\n\r\nx", 417, "expectation_unknown"),
    ("Content-Encoding: gzip", put(Content_Encoding="gzip"), 415, "coding_unknown"),
    ("Content-Type of UTF-8", PUT + "Content-Type: text/plain; n=ä\r\nContent-Length: 1\r\n\r\nx".encode(), 400, "bad_option"),
    ("Content-Type of bytes", PUT + b"Content-Type: text/plain; n=\xe4\r\nContent-Length: 1\r\n\r\nx", 400, "bad_option"),
    ("Content-Type twice", PUT + b"Content-Type: a/b\r\nContent-Type: a/b\r\nContent-Length: 1\r\n\r\nx", 400, "bad_request"),
]

LIMITS = [
    ("request line at its limit", of_line_bytes(8192), 400, "bad_option"),  # the cursor is too long, the line is not
    ("request line above", of_line_bytes(8193), 414, "target_too_long"),
    ("head at its limit", of_head_bytes(16384), 200, None),
    ("head above", of_head_bytes(16385), 431, "header_too_big"),
    ("100 headers", of_headers(100), 200, None),
    ("101 headers", of_headers(101), 431, "header_too_big"),
    ("body at its limit", put(body=b"b" * MIB), 201, None),
    ("body above", put(body=b"b" * (MIB + 1)), 413, "body_too_big"),
    ("body above, chunked", chunked(b"100001\r\n" + b"b" * (MIB + 1)), 413, "body_too_big"),
    ("topic of 200 bytes", put(topic="t" * 200), 201, None),
    ("topic of 201 bytes", put(topic="t" * 201), 400, "bad_topic"),
    ("id of 128 bytes", put(ident="i" * 128), 201, None),
    ("id of 129 bytes", put(ident="i" * 129), 400, "bad_id"),
    ("delay of 10 years", put(f"?delay={YEARS_10}ms"), 201, None),
    ("delay above", put(f"?delay={YEARS_10 + 1}ms"), 400, "bad_option"),
    ("delay beyond 64 bits", put("?delay=99999999999999999999999d"), 400, "bad_option"),
    ("delay of 2^64", put("?delay=18446744073709551616ms"), 400, "bad_option"),
    ("priority 65535", put("?priority=65535"), 201, None),
    ("priority 65536", put("?priority=65536"), 400, "bad_option"),
    ("lease_for of 100 ms", put("?lease_for=100ms"), 201, None),
    ("lease_for of 99 ms", put("?lease_for=99ms"), 400, "bad_option"),
    ("lease_for of 24 h", put("?lease_for=24h"), 201, None),
    ("lease_for above", put("?lease_for=86400001ms"), 400, "bad_option"),
    ("max_attempts 10000", put("?max_attempts=10000"), 201, None),
    ("max_attempts 10001", put("?max_attempts=10001"), 400, "bad_option"),
    ("max_attempts 4294967295", put("?max_attempts=4294967295"), 400, "bad_option"),
    ("max_attempts none", put("?max_attempts=none"), 201, None),
    ("backoff none", put("?backoff=none"), 201, None),
    ("a backoff of 16 waits", put("?backoff=list:" + ",".join(["30d"] * 16)), 201, None),
    ("max_attempts 0", put("?max_attempts=0"), 400, "bad_option"),
    ("content type of 128 bytes", put(Content_Type="a/" + "b" * 126), 201, None),
    ("content type of 129 bytes", put(Content_Type="a/" + "b" * 127), 400, "bad_option"),
    ("32 pairs of meta", of_meta(32), 201, None),
    ("33 pairs of meta", of_meta(33), 400, "bad_meta"),
    ("a meta name of 64 bytes", of_meta(1, name_bytes=64), 201, None),
    ("a meta name of 65 bytes", of_meta(1, name_bytes=65), 400, ("bad_meta", "unknown_option")),
    ("a meta value of 1024 bytes", of_meta(1, value_bytes=1024), 201, None),
    ("a meta value of 1025 bytes", of_meta(1, value_bytes=1025), 400, "bad_meta"),
    ("4096 bytes of meta", of_meta(4, name_bytes=4, value_bytes=1018), 201, None),
    ("4100 bytes of meta", of_meta(4, name_bytes=4, value_bytes=1019), 400, "bad_meta"),
    ("take of 1000", post("/v1/topics/bad-empty/take?max=1000"), 200, None),
    ("take of 1001", post("/v1/topics/bad-empty/take?max=1001"), 400, "bad_option"),
    ("take of 0", post("/v1/topics/bad-empty/take?max=0"), 400, "bad_option"),
    ("wait above 10 min", post("/v1/topics/bad-empty/take?wait=600001ms"), 400, "bad_option"),
    ("64 topics", post("/v1/take?" + "&".join(f"topic=bad-{i}" for i in range(64))), 200, None),
    ("65 topics", post("/v1/take?" + "&".join(f"topic=bad-{i}" for i in range(65))), 413, "too_many_items"),
    ("1000 leases", post("/v1/ack", json.dumps({"leases": ["l"] * 1000}).encode(), JSON), 200, None),
    ("1001 leases", post("/v1/ack", json.dumps({"leases": ["l"] * 1001}).encode(), JSON), 413, "too_many_items"),
    ("list of 1000", request_bytes("GET", "/v1/topics/bad/jobs?limit=1000"), 200, None),
    ("list of 1001", request_bytes("GET", "/v1/topics/bad/jobs?limit=1001"), 400, "bad_option"),
    ("batch of 1000", batch(*[{"topic": "bad", "id": f"b{i}", "body": "x"} for i in range(1000)]), 200, None),
    ("batch of 1001", batch(*[{"topic": "bad", "id": f"b{i}", "body": "x"} for i in range(1001)]), 413, "too_many_items"),
    ("batch above 16 MiB", PUT.replace(b"PUT /v1/topics/bad/jobs/a", b"POST /v1/jobs") + b"Content-Length: %d\r\n\r\n" % (16 * MIB + 1), 413,
     "body_too_big"),
]

OPTIONS = [
    ("an unknown option", put("?dealy=1s"), 400, "unknown_option"),
    ("an option of another call", put("?progress=1"), 400, "unknown_option"),
    ("an option twice", put("?delay=1s&delay=2s"), 400, "option_twice"),
    ("an option in query and header", put("?delay=1s", Tarry_Delay="2s"), 400, "option_twice"),
    ("delay and at", put("?delay=1s&at=2030-01-01T00:00:00Z"), 400, "option_clash"),
    ("an empty delay", put("?delay="), 400, "bad_option"),
    ("a negative delay", put("?delay=-1"), 400, "bad_option"),
    ("a delay without a unit that is", put("?delay=10x"), 400, "bad_option"),
    ("units in the wrong order", put("?delay=30m2h"), 400, "bad_option"),
    ("a date that is not", put("?at=2030-02-30T00:00:00Z"), 400, "bad_option"),
    ("a date without a zone", put("?at=2030-01-01T00:00:00"), 400, "bad_option"),
    ("a backoff that falls", put("?backoff=exp:10m..1s"), 400, "bad_option"),
    ("a backoff of nothing", put("?backoff=fixed:0"), 400, "bad_option"),
    ("a backoff of 17 waits", put("?backoff=list:" + ",".join(["1s"] * 17)), 400, "bad_option"),
    ("a backoff of a wait that is too long", put("?backoff=list:31d"), 400, "bad_option"),
    ("a backoff of no wait", put("?backoff=list:1s,"), 400, "bad_option"),
    ("an on_conflict that is not", put("?on_conflict=merge"), 400, "bad_option"),
    ("a priority below 0", put("?priority=-1"), 400, "bad_option"),
    ("a % that two digits do not follow", put("?delay=%zz"), 400, "bad_request"),
    ("a % at the end of the path", put(ident="a%2"), 400, "bad_request"),
    ("an id that is a dot", put(ident="."), 400, "bad_id"),
    ("an id that is two dots", put(ident=".."), 400, "bad_id"),
    ("an id that is two dots, escaped", put(ident="%2E%2e"), 400, "bad_id"),
    ("an id of three dots", put(ident="..."), 201, None),
    ("seconds since 1970", put("?at=1800000000"), 400, "bad_option"),
    ("the last millisecond that may be seconds", put("?at=94694399999"), 400, "bad_option"),
    ("the first that may not", put("?at=94694400000"), 201, None),
    ("a year before 1973, written out", put("?at=1971-01-01T00:00:00Z"), 201, None),
    ("died after seconds since 1970", post("/v1/topics/bad/redrive?died_after=1700000000"), 400, "bad_option"),
    ("a delay as ISO 8601 writes it", put("?delay=PT30M"), 201, None),
    ("a month, which has no length", put("?delay=P1M"), 400, "bad_option"),
    ("a NUL in the id", put(ident="a%00b"), 400, "bad_id"),
    ("a blank in the id", put(ident="a%20b"), 400, "bad_id"),
    ("UTF-8 in the id", put(ident="%C3%A4"), 400, "bad_id"),
    ("a slash in the topic", put(topic="a%2Fb"), 201, None),
    ("a blank in the topic", put(topic="a%20b"), 400, "bad_topic"),
    ("a colon in the topic", put(topic="a:b"), 400, "bad_topic"),
    ("a leading dot", put(topic=".hidden"), 400, "bad_topic"),
    ("dot dot", put(topic=".."), 400, "bad_topic"),
    ("a meta name that is not", put(**{"Tarry_Meta_a.b": "1"}), 400, "bad_meta"),
    ("a meta value that is not UTF-8", PUT + b"Tarry-Meta-A: \xff\xfe\r\nContent-Length: 1\r\n\r\nx", 400, "bad_meta"),
    ("a control character of C1 in meta", PUT + b"Tarry-Meta-A: \xc2\x9b2J\r\nContent-Length: 1\r\n\r\nx", 400, "bad_meta"),
    ("the last control character in meta", PUT + b"Tarry-Meta-A: a\xc2\x9f\r\nContent-Length: 1\r\n\r\nx", 400, "bad_meta"),
    ("what follows the control characters in meta", PUT + b"Tarry-Meta-A: \xc2\xa0\xc3\x80\r\nContent-Length: 1\r\n\r\nx", 201, None),
    ("a meta name twice", PUT + b"Tarry-Meta-A: 1\r\nTarry-Meta-a: 2\r\nContent-Length: 1\r\n\r\nx", 400, "option_twice"),
    ("meta where there is none", post("/v1/topics/bad/take", headers={"Tarry-Meta-A": "1"}), 400, "unknown_option"),
    ("an unknown Tarry header", put(Tarry_Nonsense="1"), 400, "unknown_option"),
    ("take without a topic", post("/v1/take"), 400, "option_missing"),
    ("ack without a lease", post("/v1/ack"), 400, "option_missing"),
    ("reschedule to nothing", request_bytes("PATCH", "/v1/topics/bad/jobs/a"), 400, "option_missing"),
    ("a state that is not", request_bytes("GET", "/v1/topics/bad/jobs?state=sleeping"), 400, "bad_option"),
    ("a forged cursor", request_bytes("GET", "/v1/topics/bad/jobs?cursor=forged"), 400, "bad_cursor"),
    ("purge by a filter of any jobs", post("/v1/topics/bad/purge?error=x"), 400, "option_clash"),
    ("purge by a filter of ready jobs", post("/v1/topics/bad/purge?state=ready&max=3&dry_run=true"), 400, "option_clash"),
    ("redrive by nothing", post("/v1/topics/bad/redrive?error="), 400, "bad_option"),
    ("redrive of one and of others", post("/v1/topics/bad/redrive?id=a&id_prefix=b"), 400, "option_clash"),
    ("redrive by no time", post("/v1/topics/bad/redrive?died_after=1h"), 400, "bad_option"),
    ("redrive by a filter of no topic", post("/v1/topics/none/redrive?error=x"), 404, "not_found"),
    ("a final failure, later", post("/v1/nack?lease=x&final=true&delay=1s"), 400, "option_clash"),
    ("a final ack", post("/v1/ack?lease=x&final=true"), 400, "unknown_option"),
    ("final, maybe", post("/v1/nack?lease=x&final=maybe"), 400, "bad_option"),
    ("patch that is no JSON", request_bytes("PATCH", "/v1/topics/bad", b"{"), 400, "bad_json"),
    ("patch that is no object", request_bytes("PATCH", "/v1/topics/bad", b"null"), 400, "bad_json"),
    ("patch of nothing", request_bytes("PATCH", "/v1/topics/bad"), 400, "bad_json"),
    ("patch of the unknown", request_bytes("PATCH", "/v1/topics/bad", b'{"tll":1}'), 400, "unknown_option"),
    ("patch with a wrong value", request_bytes("PATCH", "/v1/topics/bad", b'{"ttl":{"a":1}}'), 400, "bad_option"),
    ("patch as deep as JSON may be", request_bytes("PATCH", "/v1/topics/bad", b'{"deliver":' + b'{"a":' * 62 + b"1" + b"}" * 63), 400, "delivery_is_off"),
    ("patch too deep", request_bytes("PATCH", "/v1/topics/bad", b'{"deliver":' + b'{"a":' * 64 + b"1" + b"}" * 65), 400, "bad_json"),
    ("patch at its limit", request_bytes("PATCH", "/v1/topics/bad", b"{}" + b" " * 16382), 200, None),
    ("patch above its limit", request_bytes("PATCH", "/v1/topics/bad", b"{}" + b" " * 16383), 413, "body_too_big"),
    ("patch of no topic", request_bytes("PATCH", "/v1/topics/none", b"{}"), 404, "not_found"),
    ("delivery that is no object", settings(deliver="https://a/"), 400, "bad_delivery"),
    ("delivery beyond its limit", settings(deliver={"to": "x" * 4096}), 400, "bad_delivery"),
    ("delivery where there is none", settings(deliver={"to": "https://a/"}), 400, "delivery_is_off"),
    ("a callback where there is none", put("?callback=https://a/"), 400, "delivery_is_off"),
    ("a callback that is too long", put("?callback=" + "x" * 1025), 400, "bad_option"),
    ("meta that is tarry's own", put(Tarry_Meta_Tarry_Callback="https://a/"), 400, "bad_meta"),
    ("a test of no delivery", post("/v1/topics/bad/deliver-test"), 501, "no_delivery"),
    ("purge of leased jobs", post("/v1/topics/bad/purge?state=leased"), 400, "bad_option"),
]

PATHS = [
    ("no such path", head("GET /nothing HTTP/1.1\nHost: localhost"), 404, "no_such_path"),
    ("a slash too many", head("GET /v1/topics/ HTTP/1.1\nHost: localhost"), 404, "no_such_path"),
    ("an empty topic", put(topic=""), 404, "no_such_path"),
    ("an empty id", put(ident=""), 404, ("no_such_path",)),
    ("a method the path has not", head("DELETE /healthz HTTP/1.1\nHost: localhost"), 405, "method_not_allowed"),
    ("an unknown method", head("BREW /healthz HTTP/1.1\nHost: localhost"), 405, "method_not_allowed"),
    ("QUERY", head("QUERY /v1/topics/bad/jobs HTTP/1.1\nHost: localhost"), 405, "method_not_allowed"),
    ("a lower-case method", head("get /healthz HTTP/1.1\nHost: localhost"), 405, "method_not_allowed"),
    ("a query of the absolute form is no path", head("GET http://localhost?x=/v1/info HTTP/1.1\nHost: localhost"), 400, "unknown_option"),
    ("another method", head("OPTIONS /v1/jobs HTTP/1.1\nHost: localhost"), 405, "method_not_allowed"),
    ("no such job", head("GET /v1/topics/bad/jobs/none HTTP/1.1\nHost: localhost"), 404, "not_found"),
    ("no such topic", head("GET /v1/topics/none HTTP/1.1\nHost: localhost"), 404, "not_found"),
    ("cancel of no job", head("DELETE /v1/topics/bad/jobs/none HTTP/1.1\nHost: localhost"), 404, "not_found"),
    ("redrive of no topic", post("/v1/topics/none/redrive"), 404, "not_found"),
]

BODIES = [
    ("a batch that is not JSON", batch(raw=b"{{{"), 400, "bad_json"),
    ("an empty batch", batch(raw=b""), 400, ("bad_json", "option_missing", "bad_item")),
    ("a batch that is a number", batch(raw=b"17"), 400, ("bad_json", "bad_item")),
    ("a batch cut off", batch(raw=b'[{"topic":"bad"'), 400, "bad_json"),
    ("a batch nested deeply", batch(raw=b"[" * 100_000), 400, "bad_json"),
    ("settings that are not JSON", request_bytes("PUT", "/v1/topics/bad", b"nonsense", JSON), 400, "bad_json"),
    ("settings with an unknown name", settings(leese_for="1s"), 400, "unknown_option"),
    ("settings out of range", settings(lease_for="1ms"), 400, "bad_option"),
    ("settings with a list", settings(lease_for=[1]), 400, "bad_option"),
    ("leases that are no list", post("/v1/ack", b'{"leases":"x"}', JSON), 400, ("bad_json", "bad_item", "bad_option")),
    ("leases that are numbers", post("/v1/ack", b'{"leases":[1]}', JSON), 400, ("bad_json", "bad_item", "bad_option")),
    ("an error that is a number", post("/v1/nack", b'{"leases":["l"],"error":5}', JSON), 400, "bad_option"),
    ("an error that is true", post("/v1/nack", b'{"leases":["l"],"error":true}', JSON), 400, "bad_option"),
    ("an error of one lease that is a number", post("/v1/nack", b'{"leases":[{"lease":"l","error":5}]}', JSON), 400, "bad_option"),
    ("an error that is a number as text", post("/v1/nack", b'{"leases":["l"],"error":"5"}', JSON), 200, None),
    ("options of a take in a body", post("/v1/topics/bad/take", b'{"max":10}', JSON), 400, "unknown_option"),
    ("no options of a take in a body", post("/v1/topics/bad/take", b'{"mx":10}', JSON), 400, "unknown_option"),
    ("a form for a take", post("/v1/topics/bad/take", b"max=10"), 400, "bad_request"),
    ("nothing for a take", post("/v1/topics/bad/take", b" {} ", JSON), 200, None),
    ("a delay in the body of a reschedule", request_bytes("PATCH", "/v1/topics/bad/jobs/a?priority=1", b'{"delay":"1h"}', JSON), 400, "unknown_option"),
    ("a state in the body of a purge", post("/v1/topics/bad/purge", b'{"state":"dead"}', JSON), 400, "unknown_option"),
    ("a body of a cancel", request_bytes("DELETE", "/v1/topics/bad/jobs/a", b"x"), 400, "bad_request"),
    ("a body of a list", request_bytes("GET", "/v1/topics/bad/jobs", b'{"limit":5}'), 400, "unknown_option"),
    ("an unknown member beside leases", post("/v1/ack", b'{"leases":["x"],"delay":"1s"}', JSON), 400, "unknown_option"),
    ("an unknown member beside a lease", post("/v1/nack", b'{"leases":[{"lease":"x","wait":"1s"}]}', JSON), 400, "unknown_option"),
    ("an unknown member of an extension", post("/v1/extend", b'{"leases":["x"],"lese_for":"1m"}', JSON), 400, "unknown_option"),
    ("leases that are not JSON", post("/v1/ack", b"{", JSON), 400, "bad_json"),
]

# In a batch each item is refused on its own.
ITEMS = [
    ("no topic", {"body": "x"}, ("bad_item", "option_missing", "bad_topic")),
    ("a bad topic", {"topic": "a b", "body": "x"}, "bad_topic"),
    ("a bad id", {"topic": "bad", "id": "a b", "body": "x"}, "bad_id"),
    ("an id that is a number", {"topic": "bad", "id": 1, "body": "x"}, ("bad_item", "bad_id")),
    ("an unknown member", {"topic": "bad", "colour": "red", "body": "x"}, "unknown_option"),
    ("a bad delay", {"topic": "bad", "delay": "soon", "body": "x"}, "bad_option"),
    ("delay and at", {"topic": "bad", "delay": "1ms", "at": 2000000000000, "body": "x"}, "option_clash"),
    ("seconds since 1970", {"topic": "bad", "at": 1800000000, "body": "x"}, "bad_option"),
    ("an id of dots", {"topic": "bad", "id": "..", "body": "x"}, "bad_id"),
    ("two bodies", {"topic": "bad", "body": "x", "body_base64": "eA=="}, ("option_clash", "option_twice", "bad_item")),
    ("base64 that is not", {"topic": "bad", "body_base64": "!!!"}, ("bad_item", "bad_option")),
    ("a callback where there is none", {"topic": "bad", "callback": "https://a/"}, "delivery_is_off"),
    ("a callback that is a number", {"topic": "bad", "callback": 1}, "bad_item"),
    ("meta that is tarry's own", {"topic": "bad", "meta": {"tarry-callback": "https://a/"}}, "bad_meta"),
    ("meta that is a list", {"topic": "bad", "meta": [], "body": "x"}, "bad_meta"),
    ("a control character of C1 in meta", {"topic": "bad", "meta": {"a": "x\u0085"}, "body": "x"}, "bad_meta"),
    ("an error that is a number", {"topic": "bad", "error": 5, "body": "x"}, "bad_option"),
    ("meta with a number", {"topic": "bad", "meta": {"a": 1}, "body": "x"}, "bad_meta"),
    ("a body above the limit", {"topic": "bad", "body": "b" * (MIB + 1)}, "body_too_big"),
    ("an item that is a number", 7, ("bad_item", "bad_json")),
]

ROWS = FRAMING + LIMITS + OPTIONS + PATHS + BODIES


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    from server import Server
    server = Server(tmp_path_factory.mktemp("bad"), ("--sync", "always", "--shards", "1")).start()
    server.client().push("sentinel", "here", b"still", delay="1h")
    yield server
    assert server.terminate() == 0, server.log()[-3000:]
    assert not server.sanitizer_report(), server.sanitizer_report()


def is_one_of(found, wanted):
    return found in wanted if isinstance(wanted, tuple) else found == wanted


def assert_unharmed(server):
    assert server.alive, server.log()[-3000:]
    assert server.client().get("sentinel", "here")["body"] == "still"


def exchange(server, data):
    connection = Connection(server.port)
    try:
        try:
            connection.send(data)
        except Lost:
            pass  # refused before all of it was sent; the reply is there
        reply = connection.read()
        if reply.closes:
            assert connection.at_end()
        return reply
    finally:
        connection.close()


@pytest.mark.parametrize("data, status, code", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_request(shared, data, status, code):
    reply = exchange(shared, data)
    if status is not None:
        assert reply.status == status, reply.body[:300]
    if code is None:
        assert reply.ok, reply.body[:300]
    else:
        problem = reply.json()
        assert reply.headers["content-type"] == "application/problem+json"
        assert is_one_of(problem["code"], code), problem
        assert problem["status"] == reply.status and problem["title"] and problem["detail"]
        if "limit" in problem:
            assert problem["limit"] > 0
    assert_unharmed(shared)


@pytest.mark.parametrize("name", [row[0] for row in FRAMING if row[3] == "bad_framing"])
def test_bad_framing_ends_the_connection(shared, name):
    """Later bytes on the connection may come from anyone: they are not read."""
    data = next(row[1] for row in FRAMING if row[0] == name)
    connection = Connection(shared.port)
    try:
        connection.send(data + request_bytes("PUT", "/v1/topics/smuggled/jobs/a", b"x"))
    except Lost:
        pass
    assert connection.read().headers["connection"] == "close"
    assert connection.at_end()
    connection.close()
    assert shared.client().call("GET", "/v1/topics/smuggled").status == 404


@pytest.mark.parametrize("item, code", [row[1:] for row in ITEMS], ids=[row[0] for row in ITEMS])
def test_item_of_a_batch(shared, item, code):
    good = {"topic": "bad", "id": "beside", "body": "good"}
    reply = exchange(shared, batch(good, item, good))
    if reply.ok:
        first, refused, last = reply.json()["results"]
        assert is_one_of(refused["result"], code), refused
        assert first["result"] in ("created", "replaced") and last["result"] == "replaced", "its neighbours are pushed"
    else:
        assert is_one_of(reply.json()["code"], code), reply.body[:300]
    assert_unharmed(shared)


def test_an_unknown_member_is_named_with_the_valid_ones(shared):
    client = shared.client()
    for reply, says in (
        (client.call("POST", "/v1/topics/bad/take", b'{"max":10}', JSON), "this call takes no body: give 'max' in the query"),
        (client.call("POST", "/v1/topics/bad/take", b'{"mx":10}', JSON), "unknown option 'mx'; did you mean 'max'; this call has lease_for, max, wait"),
        (client.call("POST", "/v1/topics/bad/resume", b'{"a":1}', JSON), "unknown option 'a': this call has no options"),
        (client.call("POST", "/v1/nack", b'{"leases":[],"why":"x"}', JSON), "unknown option 'why'; this call has leases, delay, priority, error, final"),
        (client.call("PUT", "/v1/topics/bad", b'{"tll":"1h"}', JSON), "unknown option 'tll'; did you mean 'ttl'; this call has deliver, dead_letter, priority, ttl, "),
    ):
        assert reply.status == 400 and says in reply.json()["detail"], reply.body
    refused = client.call("POST", "/v1/jobs", b'[{"topic":"bad","bdy":"x"}]', JSON).json()["results"][0]
    assert refused["result"] == "unknown_option"
    assert "unknown option 'bdy'; did you mean 'body'; this call has topic, id, body, body_base64, content_type, meta, batch, " in refused["detail"]


def test_iso_8601_durations_equal_short_ones(shared):
    client = shared.client()
    settings = {"lease_for": "PT1H", "ttl": "P1DT12H", "backoff": "exp:PT1S..PT10M", "dedup_window": "P2W"}
    shown = client.good("PUT", "/v1/topics/iso", json.dumps(settings).encode(), JSON)["settings"]
    assert {name: shown[name] for name in settings} == {"lease_for": "1h", "ttl": "1d12h", "backoff": "exp:1s..10m", "dedup_window": "14d"}


def test_the_rejection_of_bare_seconds_shows_the_right_form(shared):
    problem = shared.client().call("PUT", "/v1/topics/bad/jobs/a?at=1800000000", b"x").json()
    assert "did you mean seconds? write '1800000000000'" in problem["detail"], problem
    problem = shared.client().call("PUT", "/v1/topics/bad/jobs/a?at=1", b"x").json()  # a time that no client intends in either unit
    assert "'at' is '1' but must be an RFC 3339 time" in problem["detail"] and "from 1973 on" in problem["detail"], problem


def test_the_rejected_purge_of_leased_jobs_lists_the_valid_states(shared):
    problem = shared.client().call("POST", "/v1/topics/bad/purge?state=leased", b"").json()
    assert "'state' is 'leased' but must be delayed, ready or dead" in problem["detail"], problem


def test_slashes_escaped_as_php_does_it(shared):
    """Unescaped and decoded they once took more room than they had come with, which stopped the server."""
    text = json.dumps([{"topic": "bad", "id": f"php-{n}", "meta": {"path": "/" * 1000}, "body_base64": "//8/" * 20_000} for n in range(3)])
    reply = shared.client().call("POST", "/v1/jobs", text.replace("/", "\\/").encode(), JSON)
    assert [result["result"] for result in reply.json()["results"]] == ["created"] * 3
    job = shared.client().get("bad", "php-2")
    assert job["body_base64"] == "//8/" * 20_000 and job["meta"] == {"path": "/" * 1000}


def test_half_a_line_of_ndjson_spoils_no_other(shared):
    reply = exchange(shared, batch(raw=b'{"topic":"bad","body":"x"}\n{"topic"\n{"topic":"bad","body":"y"}', kind="application/x-ndjson"))
    assert [result["result"] for result in reply.json()["results"]] == ["created", "bad_json", "created"]


def test_the_refusal_of_a_limit_names_it(shared):
    for name, limit in (("request line above", 8192), ("head above", 16384), ("101 headers", 100), ("body above", MIB), ("65 topics", 64),
                        ("batch of 1001", 1000), ("1001 leases", 1000)):
        reply = exchange(shared, next(row[1] for row in ROWS if row[0] == name))
        assert reply.json()["limit"] == limit, (name, reply.body)


def test_requests_cut_off_anywhere_leave_nothing_behind(shared):
    """Closed after any number of bytes, a push has happened as a whole or not at all."""
    whole = put("?delay=1h", body=b"whole", ident="cut", topic="cut")
    for count in list(range(1, len(whole), 7)) + [len(whole) - 1]:
        connection = Connection(shared.port)
        connection.send(whole[:count])
        connection.close()
    assert_unharmed(shared)
    assert shared.client().call("GET", "/v1/topics/cut/jobs/cut").status == 404


def test_requests_may_arrive_byte_by_byte(shared):
    connection = Connection(shared.port)
    for byte in put("?delay=1h", body=b"slow", ident="slow"):
        connection.send(bytes([byte]))
    assert connection.read().status in (200, 201)
    connection.close()
    assert shared.client().get("bad", "slow")["body"] == "slow"


def test_descriptors_and_memory_do_not_grow(shared):
    for _ in range(3):
        for row in ROWS:
            exchange(shared, row[1])
    gc.collect()
    descriptors, resident = settled_descriptors(shared), shared.resident_bytes()
    for _ in range(6):
        for row in ROWS:
            exchange(shared, row[1])
    assert settled_descriptors(shared) <= descriptors
    grown = shared.resident_bytes() - resident
    print(f"resident memory grew by {grown} bytes over {6 * len(ROWS)} bad requests")
    assert grown < 24 * MIB or IS_SANITIZED
    assert_unharmed(shared)


def settled_descriptors(server):
    """Waits until the closed connections are gone."""
    seen = []

    def steady():
        seen.append(server.descriptors())
        return len(seen) > 5 and len(set(seen[-5:])) == 1

    eventually(steady, pause=0.02)
    return seen[-1]


def test_the_table_is_large_enough():
    assert len(ROWS) + len(ITEMS) >= 80
