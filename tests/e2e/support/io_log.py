"""The stored form of the log's batches and records (src/stores/store/wal.h, src/core/job/record.c), read by a reader that shares nothing with the server's."""

import ctypes
import struct

MAGIC = b"tarryba1"
HEAD = struct.Struct("<8sIIQQQqqQQ")
JOB, STATE, DONE, TOPIC = range(1, 5)
PUSHED, PUSHED_REPLACING, CARRIED = range(1, 4)
ACKED, CANCELLED, EXPIRED, PURGED, REPLACED = range(1, 6)
CHECK_BYTES = 4


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_128bits_withSeed.restype = _Hash128
_xxhash.XXH3_128bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def key_of(topic, ident, seed):
    name = topic.encode() + b"\0" + ident.encode()
    found = _xxhash.XXH3_128bits_withSeed(name, len(name), seed)
    return found.high, found.low


class _In:
    def __init__(self, data, at):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def text(self):
        return self.take(self.varint())

    def take(self, count):
        self.at += count
        return bytes(self.data[self.at - count:self.at])

    def key(self):
        return struct.unpack("<QQ", self.take(16))


class Record:
    """The content of the log, as far as the proofs need it."""

    __slots__ = ("kind", "topic", "id", "body", "key", "reason", "origin", "due", "error", "sequence", "exists", "paused")

    def __init__(self, kind):
        self.kind = kind
        self.topic = self.id = self.body = self.key = self.reason = self.origin = self.due = self.error = self.sequence = self.exists = None


def _state_fields(wire, fields):
    for bit in (0, 1, 2, 3, 4):  # priority, attempt, first due, lease until, delivery
        if fields >> bit & 1:
            wire.varint()
    return wire.text() if fields >> 5 & 1 else b""


def _policy(wire, fields):
    for bit in (0, 1):  # lease, ttl
        if fields >> bit & 1:
            wire.varint()
    if fields >> 2 & 1:
        fixed = wire.byte() == 1
        wire.varint()
        if not fixed:
            wire.varint()
    if fields >> 3 & 1:
        wire.varint()


def _from(wire):
    for _ in range(3):
        wire.varint()


def _job(wire, end, record):
    fields, form = wire.varint(), wire.byte()
    record.origin = form >> 4 & 3
    record.due, record.sequence = wire.varint(), wire.varint()
    record.error = _state_fields(wire, fields)
    for bit in (6, 7):  # content type, meta
        if fields >> bit & 1:
            wire.text()
    _policy(wire, fields >> 8)
    if fields >> 12 & 1:
        wire.text()
    if fields >> 13 & 1:
        wire.varint()
    if form >> 6 & 1:
        _from(wire)
    record.topic, record.id = wire.text().decode(), wire.text().decode()
    record.body = wire.take(end - wire.at)


def _state(wire, record):
    fields, form = wire.varint(), wire.byte()
    record.key, record.due = wire.key(), wire.varint()
    record.error = _state_fields(wire, fields)
    if fields >> 6 & 1:
        wire.varint()
    if fields >> 7 & 1:
        wire.byte(), wire.varint(), wire.varint()
    if form >> 6 & 1:
        _from(wire)


def _done(wire, record):
    form = wire.byte()
    record.reason, record.key, record.sequence = form & 7, wire.key(), wire.varint()
    if form >> 4 & 1:
        wire.varint()
    if form >> 5 & 1:
        wire.text()
    if form >> 6 & 1:
        _from(wire)
    return bool(form >> 4 & 1)


def _topic(wire, end, record):
    form, fields = wire.byte(), wire.varint()
    record.topic = wire.text().decode()
    record.exists, record.paused, record.due = bool(form >> 2 & 1), bool(form >> 3 & 1), fields
    wire.at = end


def parse_record(data, at):
    """(record, where the next one starts)."""
    (size,) = struct.unpack_from("<I", data, at)
    end, wire = at + size, _In(data, at + 4)
    record = Record(wire.byte())
    checked = record.kind == JOB
    if record.kind == JOB:
        _job(wire, end, record)
    elif record.kind == STATE:
        _state(wire, record)
    elif record.kind == DONE:
        checked = _done(wire, record)
    else:
        assert record.kind == TOPIC, f"a record of kind {record.kind}"
        _topic(wire, end, record)
    assert wire.at == end, f"a record of kind {record.kind} with {end - wire.at} bytes too many"
    return record, end + (CHECK_BYTES if checked else 0)


class Batch:
    """A batch as it was written: its head and its records."""

    def __init__(self, data):
        _, size, count, self.epoch, self.sequence, self.synced, *_ = HEAD.unpack_from(data, 0)
        assert size == len(data), f"a batch of {size} bytes written as {len(data)}"
        self.records, at = [], HEAD.size
        while at < size:
            record, at = parse_record(data, at)
            self.records.append(record)
        assert len(self.records) == count, f"a batch of {count} records holds {len(self.records)}"


def is_batch(data):
    return data is not None and len(data) > HEAD.size and data[:8] == MAGIC
