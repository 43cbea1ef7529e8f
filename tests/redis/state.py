"""The packed values of a shard, its core and its topics, in Python: src/stores/redis/scripts/README.md. For tests that look at them, or spoil them."""

import dataclasses

NONE = 2**48 - 1
LAYOUT = 1
PAUSES, HELD = 1, 2  # flags of a core: a topic is or was paused for a time; the clock stands still
PAUSED, SPECIAL, HISTORIC, EXTENDED, PACKED, EXPIRING, REMEMBERING, UNPACKED, LARGE, TRIED, TIMED, SUCCEEDING, KEEPING, FLOW, GROUPED = (1 << bit for bit in range(15))
FIGURES = ("delayed", "retrying", "ready", "leased", "dead", "dead_bytes", "pushed", "acked", "cancelled", "expired", "replaced",
           "delivered", "nacked", "lease_ended", "died", "redriven")
CORE_NUMBERS = (("layout", 1), ("core_flags", 1), ("sealed", 1), ("shards", 4), ("generation", 4), ("changes", 6), ("deaths", 6), ("sequence", 6), ("leaf", 6),
                ("adjust", -6), ("next", 6), ("rest", 6))
CORE_TEXTS = ("next_topic", "run", "lease_key")
TOPIC_NUMBERS = (("flags", 2), *((figure, -6) for figure in FIGURES), ("next", 6), ("listed", 6))

FLOW_NUMBERS = (("flow_pass", 6), ("flow_full", 7), ("flow_hold", 6), ("flow_open", 6), ("flow_bits", 1),
                *((f"flow_shut_{reason}", 6) for reason in (3, 4, 5, 6, 7)))
GROUP_NUMBERS = (("bits", 1), ("in_flight", 4), ("tried", 4), ("passed", 6), ("full", 7), ("hold", 6), ("ready", 4), ("heads", 1))


class Values(dict):
    """Fields, also as attributes."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@dataclasses.dataclass
class Reader:
    data: bytes

    def take(self, size):
        if len(self.data) < size:
            raise ValueError("cut short")
        out, self.data = self.data[:size], self.data[size:]
        return out

    def numbers(self, fields):
        return {name: int.from_bytes(self.take(abs(size)), "big", signed=size < 0) for name, size in fields}


def numbers_written(fields, values):
    return b"".join(values[name].to_bytes(abs(size), "big", signed=size < 0) for name, size in fields)


def core_read(data):
    reader = Reader(data)
    core = Values(reader.numbers(CORE_NUMBERS))
    core.mover, core.mover_ms = reader.take(8), int.from_bytes(reader.take(6), "big")
    for name in CORE_TEXTS:
        core[name] = reader.take(reader.take(1)[0])
    if reader.data:
        raise ValueError("something stands behind the core")
    return core


def core_written(core):
    texts = b"".join(bytes([len(core[name])]) + core[name] for name in CORE_TEXTS)
    return numbers_written(CORE_NUMBERS, core) + core.mover + core.mover_ms.to_bytes(6, "big") + texts


def topic_read(data):
    reader = Reader(data)
    topic = Values(reader.numbers(TOPIC_NUMBERS))
    if topic.flags & FLOW:
        topic.update(reader.numbers(FLOW_NUMBERS))
    topic.settings = reader.data
    return topic


def topic_written(topic):
    return numbers_written(TOPIC_NUMBERS, topic) + (numbers_written(FLOW_NUMBERS, topic) if topic.flags & FLOW else b"") + topic.settings


def core_of(client, tag):
    return core_read(client.get(f"{tag}:core"))


def topic_of(client, tag, name):
    return topic_read(client.get(f"{tag}:topic:{name}"))


def core_change(client, tag, **fields):
    core = core_of(client, tag)
    core.update(fields)
    client.set(f"{tag}:core", core_written(core))


def extend(client, tag, name, extension):
    """Gives the topic's settings an extension."""
    client.set(f"{tag}:extension:{name}", extension)
    topic_change(client, tag, name, flags=topic_of(client, tag, name).flags | EXTENDED)


def topic_change(client, tag, name, **fields):
    topic = topic_of(client, tag, name)
    topic.update(fields)
    client.set(f"{tag}:topic:{name}", topic_written(topic))


def group_read(data):
    """Of a group: its numbers; `heads`: {priority: (due, sequence)}."""
    reader = Reader(data)
    group = Values(reader.numbers(GROUP_NUMBERS))
    heads = [reader.numbers((("priority", 2), ("due", 6), ("sequence", 6))) for _ in range(group.heads)]
    group.heads = {head["priority"]: (head["due"], head["sequence"]) for head in heads}
    if reader.data:
        raise ValueError("something stands behind a group")
    return group


def group_written(group):
    numbers = dict(group, heads=len(group.heads))
    heads = [priority.to_bytes(2, "big") + due.to_bytes(6, "big") + sequence.to_bytes(6, "big") for priority, (due, sequence) in group.heads.items()]
    return numbers_written(GROUP_NUMBERS, numbers) + b"".join(heads)


# ---- batches ----

GUEST_STOPPED = 1
BATCH_STOPPED = 4  # bit of a batch's state


def batch_read(text):
    """Number, unfinished and dead members of a batch."""
    if len(text) != 52:
        raise ValueError("a batch of another length")
    return int.from_bytes(text[3:9], "big"), int.from_bytes(text[9:13], "big"), int.from_bytes(text[17:21], "big")


def guest_read(text):
    """Number, unfinished and dead members of a guest."""
    if len(text) != 34:
        raise ValueError("a guest of another length")
    return int.from_bytes(text[:6], "big"), int.from_bytes(text[14:18], "big"), int.from_bytes(text[22:26], "big")


def part_read(text):
    """Unfinished and dead members that another shard has reported."""
    if len(text) != 36:
        raise ValueError("a part of another length")
    return int.from_bytes(text[16:20], "big"), int.from_bytes(text[24:28], "big")


def _varint(text):
    value, shift = 0, 0
    for at, byte in enumerate(text):
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, text[at + 1:]
    raise ValueError("cut short")


def member_of(record):
    """Topic, id and number of the batch whose member the record's job is; None: of no batch."""
    flags, at = record[0], 15
    if not flags & 16:
        return None
    if flags & 1:
        at += 29 + (1 + 4 * record[44] if record[27] == 4 else 0)
    if flags & 32:
        at += 6
    if flags & 64:
        at += 1 + record[at]
    part = record[at + 2:at + 2 + int.from_bytes(record[at:at + 2], "big")]
    part = part[1 + part[0]:]
    part = part[1 + part[0]:]
    if not part[0] & 1:
        return None
    length, rest = _varint(part[1:])
    topic, rest = rest[:length], rest[length:]
    length, rest = _varint(rest)
    ident, rest = rest[:length], rest[length:]
    return topic, ident, _varint(rest)[0]


# ---- kept jobs ----

KEPT_FIGURES = (6, 6, 6, 4, 4, 6, 6, 4)


def kept_figures(text):
    """Returns the number of kept jobs, their bytes, and the number of parts of the index."""
    numbers = [int.from_bytes(text[sum(KEPT_FIGURES[:at]):sum(KEPT_FIGURES[:at + 1])], "big") for at in range(len(KEPT_FIGURES))] if text else [0] * 7 + [1]
    return numbers[0], numbers[1], numbers[7]


def kept_read(entry):
    """Splits an entry of a page of kept jobs: its id and value."""
    return entry[1:1 + entry[0]], entry[1 + entry[0]:]


def kept_part(ident, parts):
    """Returns the part of the index that has this id."""
    prime, value, span, at = 4294967291, len(ident), 1, 0
    while at < len(ident):
        size = min(6, len(ident) - at)
        value, at = (value * 65599 + int.from_bytes(ident[at:at + size], "big")) % prime, at + size
    while span < parts:
        span *= 2
    part = value * 1048573 % prime % span
    return part if part < parts else part - span // 2
