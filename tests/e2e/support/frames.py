"""A client of HTTP/2 that sends any frame, valid or not. It decodes headers with python3-hpack and encodes them literally."""

import collections
import socket
import struct
import time
from typing import NamedTuple

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, STREAM_CLOSED, REFUSED_STREAM, CANCEL, CALM = 0, 1, 5, 7, 8, 11
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4


class Frame(NamedTuple):
    type: int
    flags: int
    stream: int
    payload: bytes


class Closed(Exception):
    pass


class Answer:
    def __init__(self):
        self.status, self.headers, self.body, self.trailers, self.reset, self.ended = None, {}, b"", None, None, False


def literal(fields):
    """A header block without compression, so that a test can send what an encoder would refuse."""
    def text(part):
        part = part.encode() if isinstance(part, str) else part
        return number(len(part)) + part

    def number(value):
        if value < 127:
            return bytes([value])
        out, value = bytearray([127]), value - 127
        while value >= 128:
            out.append(value % 128 + 128)
            value //= 128
        return bytes([*out, value])

    return b"".join(b"\0" + text(name) + text(value) for name, value in fields)


def request(method, path, fields=(), authority="localhost"):
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority), *fields]


class Peer:
    def __init__(self, port, settings=(), tls=None, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.decoder, self.bytes, self.answers, self.next_stream = hpack.Decoder(), b"", {}, 1
        self.settings, self.goaways, self.pongs = {}, [], 0
        self.holds_pongs = self.keeps_window = False
        self.rooms = collections.defaultdict(lambda: 65535)  # bytes of bodies that the server still allows: of the connection (0) and of a stream
        payload = b"".join(struct.pack(">HI", *setting) for setting in settings)
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, 0, payload))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # ---- sending ----

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def send(self, kind, flags, stream, payload=b""):
        if kind == DATA:
            self.rooms[0] -= len(payload)
            self.rooms[stream] -= len(payload)
        self.socket.sendall(self.frame(kind, flags, stream, payload))

    def open(self, fields, body=None, end=True):
        """Sends a request and returns its stream."""
        stream, frames = self.opened(fields, body, end)
        self.socket.sendall(frames)
        return stream

    def opened(self, fields, body=None, end=True):
        """Returns the next stream, and the frames of its request."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.answers[stream] = Answer()
        block, kind, flags, out = literal(fields), HEADERS, END_STREAM if body is None and end else 0, b""
        while len(block) > 16384:
            out, block, kind, flags = out + self.frame(kind, flags, stream, block[:16384]), block[16384:], CONTINUATION, 0
        out += self.frame(kind, flags | END_HEADERS, stream, block)
        for at in range(0, len(body or b"x"), 16384):
            if body is not None:
                part = body[at:at + 16384]
                out += self.frame(DATA, END_STREAM if end and at + 16384 >= len(body) else 0, stream, part)
                self.rooms[0] -= len(part)
                self.rooms[stream] -= len(part)
        return stream, out

    def call(self, method, path, body=None, fields=()):
        if len(body or b"") <= 65535:
            return self.wait(self.open(request(method, path, fields), body))
        stream = self.open(request(method, path, fields), end=False)
        self.send_body(stream, body)
        return self.wait(stream)

    def send_body(self, stream, body):
        """Sends a body as the server allows it."""
        answer, at = self.answers[stream], 0
        while at < len(body) and not answer.ended and answer.reset is None:
            part = body[at:at + min(self.rooms[0], self.rooms[stream], 16384)]
            if part:
                self.send(DATA, END_STREAM if at + len(part) == len(body) else 0, stream, part)
                at += len(part)
            else:
                self.read()  # until the server allows more

    def reset(self, stream, code=CANCEL):
        self.send(RST_STREAM, 0, stream, struct.pack(">I", code))

    def window(self, stream, more):
        self.send(WINDOW_UPDATE, 0, stream, struct.pack(">I", more))

    # ---- receiving ----

    def read(self):
        while len(self.bytes) < 9 or len(self.bytes) < 9 + int.from_bytes(self.bytes[:3], "big"):
            self.receive()
        length = int.from_bytes(self.bytes[:3], "big")
        frame = Frame(self.bytes[3], self.bytes[4], int.from_bytes(self.bytes[5:9], "big"), self.bytes[9:9 + length])
        self.bytes = self.bytes[9 + length:]
        self.note(frame)
        return frame

    def receive(self):
        try:
            more = self.socket.recv(1 << 16)
        except ConnectionResetError:
            more = b""
        if not more:
            raise Closed
        self.bytes += more

    def note(self, frame):
        answer = self.answers.setdefault(frame.stream, Answer())
        if frame.type == SETTINGS and not frame.flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", frame.payload))
            self.send(SETTINGS, ACK, 0)
        elif frame.type == PING and frame.flags & ACK:
            self.pongs += 1
        elif frame.type == PING and not self.holds_pongs:
            self.send(PING, ACK, 0, frame.payload)
        elif frame.type == GOAWAY:
            self.goaways.append(struct.unpack(">II", frame.payload[:8]))
        elif frame.type == WINDOW_UPDATE:
            self.rooms[frame.stream] += int.from_bytes(frame.payload, "big")
        elif frame.type == HEADERS:
            fields = dict(self.decoder.decode(frame.payload))
            if ":status" not in fields:
                answer.trailers = fields
            elif fields[":status"] != "100":
                answer.status, answer.headers = int(fields[":status"]), fields
        elif frame.type == DATA:
            answer.body += frame.payload
            if frame.payload:
                self.window(0, len(frame.payload))
            if frame.payload and not self.keeps_window and not frame.flags & END_STREAM:
                self.window(frame.stream, len(frame.payload))
        elif frame.type == RST_STREAM:
            answer.reset = struct.unpack(">I", frame.payload)[0]
        if frame.type in (HEADERS, DATA) and frame.flags & END_STREAM:
            answer.ended = True

    def wait(self, stream):
        """The answer of a stream, once it has ended or was reset."""
        answer = self.answers[stream]
        while not answer.ended and answer.reset is None:
            self.read()
        return answer

    def wait_for(self, condition):
        while not condition():
            self.read()

    def sync(self):
        """Waits until the server has handled everything that was sent."""
        before = self.pongs
        self.send(PING, 0, 0, b"12345678")
        self.wait_for(lambda: self.pongs > before)

    def read_to_end(self, seconds=60):
        """Reads until the server closes. Returns the code of its last GOAWAY, or None."""
        limit = time.monotonic() + seconds
        try:
            while time.monotonic() < limit:
                self.read()
            raise AssertionError("the server did not close")
        except Closed:
            return self.goaways[-1][1] if self.goaways else None
