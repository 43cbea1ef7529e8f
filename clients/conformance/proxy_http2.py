"""The proxy for clients of gRPC: the same rules for each stream of HTTP/2, on connections that are really cut."""

import re
import socket
import struct
import threading
import time

import hpack
from proxy import Proxy

DATA, HEADERS, WINDOW_UPDATE = 0, 1, 8
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 32
PREFACE_BYTES, TABLE_BYTES = 24, 1 << 16
STATUS = {429: 8, 503: 14, 504: 14}
LINES = {
    "Push": "POST /v1/jobs", "PushMany": "POST /v1/jobs", "PushBatch": "POST /v1/batches", "Cancel": "DELETE", "Take": "POST /v1/take", "Ack": "POST /v1/ack", "Work": "POST /v1/take",
}
ACK = re.compile(rb"\x1a[\x80-\xff]*[\x00-\x7f]\x08\x01")  # a WorkRequest with an answer whose verb is VERB_ACK
ANSWERED = b"\x12"  # the first byte of a WorkResponse with an Answered
SETTLE_S = 0.05  # what the server has sent before a break still arrives


class Http2Proxy(Proxy):
    """
    A rule matches the line of the HTTP call that corresponds to the call of gRPC, or its name. Each direction has its own tables of header fields, so a request
    or an answer can be left out. `repeat` is not possible: a request may be cut into any frames.
    Each ack on a stream of the method Work matches "Work ack". For it, "do" is `cut_before`, `cut_after`, `delay`, or `blackhole`: nothing passes any more, and the
    connection stays open.
    """

    def __init__(self, port):
        self.server_port, self.rules, self.seen = port, [], []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def rule_of(self, path):
        method = path.rpartition("/")[2]
        return self._rule(LINES.get(method, method))

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return  # stopped
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port), 60)
            except OSError:
                client.close()  # the server is away
                continue
            Pair(self, client, server).start()


class Way:
    """One direction: frames from a socket to the other."""

    def __init__(self, source, sink):
        self.source, self.sink, self.kept = source, sink, b""
        self.decoder, self.encoder, self.lock = hpack.Decoder(), hpack.Encoder(), threading.RLock()
        self.decoder.max_allowed_table_size = TABLE_BYTES
        for one in (source, sink):
            one.settimeout(None)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, count):
        while len(self.kept) < count:
            more = self.source.recv(1 << 16)
            if not more:
                raise ConnectionError("closed")
            self.kept += more
        found, self.kept = self.kept[:count], self.kept[count:]
        return found

    def frame(self):
        head = self.read(9)
        return head[3], head[4], int.from_bytes(head[5:], "big"), self.read(int.from_bytes(head[:3], "big"))

    def send(self, kind, flags, stream, payload, only=None):
        frame = struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
        with self.lock:
            self.sink.sendall(frame if only is None else frame[:only])

    def send_fields(self, flags, stream, fields):
        with self.lock:  # the tables need the blocks in order
            self.send(HEADERS, flags & END_STREAM | END_HEADERS, stream, self.encoder.encode(fields))

    def fields(self, flags, payload):
        assert flags & END_HEADERS, "a header block in several frames"
        if flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        return self.decoder.decode(payload[5:] if flags & PRIORITY else payload)


class Pair:
    """A client's connection, and the one to the server."""

    def __init__(self, proxy, client, server):
        self.proxy, self.sockets = proxy, (client, server)
        self.up, self.down = Way(client, server), Way(server, client)
        self.faults, self.dropped, self.works = {}, set(), {}
        self.hides_answers = self.is_silent = False

    def start(self):
        for work in (self._requests, self._answers):
            threading.Thread(target=self._until_closed, args=(work,), daemon=True).start()

    def cut(self):
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _until_closed(self, work):
        try:
            work()
        except OSError:
            pass
        finally:
            self.cut()

    def _requests(self):
        self.up.sink.sendall(self.up.read(PREFACE_BYTES))
        while True:
            kind, flags, stream, payload = self.up.frame()
            if kind == HEADERS:
                self._request(flags, stream, self.up.fields(flags, payload))
            elif stream in self.dropped:
                if kind == DATA and payload:
                    self.down.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload)))
            elif (do := self._do_with_ack(stream, payload) if kind == DATA and stream in self.works else "pass") == "cut_before":
                return time.sleep(SETTLE_S)  # which cuts
            else:
                self.hides_answers = do == "cut_after"
                self.up.send(kind, flags, stream, payload)
                if do in ("cut_after", "blackhole"):
                    return self._break_off(do)

    def _do_with_ack(self, stream, payload):
        """What to do with a frame of messages of a worker."""
        kept = self.works[stream] + payload
        while len(kept) >= 5 and len(kept) >= 5 + (length := int.from_bytes(kept[1:5], "big")):
            rule = self.proxy._rule("Work ack") if ACK.match(kept[5:5 + length]) else {"do": "pass"}
            kept = kept[5 + length:]
            if rule["do"] == "delay":
                time.sleep(rule["ms"] / 1000)
            elif rule["do"] != "pass":
                return rule["do"]
        self.works[stream] = kept
        return "pass"

    def _break_off(self, do):
        time.sleep(SETTLE_S)
        self.is_silent = do == "blackhole"
        while self.is_silent:
            self.up.kept = b""
            self.up.read(1)  # until the client closes the connection

    def _request(self, flags, stream, fields):
        path = dict(fields)[":path"]
        rule = self.proxy.rule_of(path)
        if path.endswith("/Work"):
            self.works[stream] = b""
        if rule["do"] == "cut_before":
            return self.cut()
        if rule["do"] == "answer":
            self.dropped.add(stream)
            return self.down.send_fields(END_STREAM, stream, [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", str(STATUS[rule["status"]]))])
        if rule["do"] == "cut_while":
            threading.Timer(rule["ms"] / 1000, self.cut).start()
        self.faults[stream] = rule
        return self.up.send_fields(flags, stream, [(name, f"127.0.0.1:{self.proxy.server_port}" if name == ":authority" else value) for name, value in fields])

    def _answers(self):
        while True:
            kind, flags, stream, payload = self.down.frame()
            do = self.faults.get(stream, {}).get("do")
            if self.is_silent or self.hides_answers and kind == DATA and payload[5:6] == ANSWERED:
                continue
            if kind == HEADERS:
                fields = self.down.fields(flags, payload)
                if do == "cut_after":
                    return  # which cuts
                if do == "delay":
                    time.sleep(self.faults.pop(stream)["ms"] / 1000)
                self.down.send_fields(flags, stream, fields)
            elif kind == DATA and do == "cut_within":
                return self.down.send(kind, flags, stream, payload, only=9 + len(payload) // 2)
            else:
                self.down.send(kind, flags, stream, payload)
