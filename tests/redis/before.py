"""A shard as servers of before keep it (layout 1), by their own library: tests/e2e/support/data/layout1/layout1.lua."""

import pathlib

from abi import NACK, NONE, REFUSE, Answer, Shard, jobs_taken, pack, raw, unpack

TEXT = (pathlib.Path(__file__).parents[1] / "e2e" / "support" / "data" / "layout1" / "layout1.lua").read_bytes()
LIBRARY = TEXT.split(b"\n")[0].split(b"name=")[1].decode()
FUNCTIONS = ("adjust", "push", "take", "answer", "change", "advance", "get", "list", "topic", "topics", "purge", "redrive", "look", "pack", "hello")


class AnswerBefore(Answer):
    def __init__(self, elements):
        self.elements = elements
        self.now, self.next, self.adjust, self.rest = unpack(">I6I6i6", elements[0])
        self.more = elements[1:]


class Before(Shard):
    """One of those servers' view of a shard."""

    is_before = True

    def __init__(self, client, **options):
        super().__init__(client, check=False, **options)
        client.execute_command("FUNCTION", "LOAD", "REPLACE", TEXT)

    def call(self, name, *arguments):
        return AnswerBefore(self.client.execute_command("FCALL", f"{LIBRARY}_{name}", 1, self.core, *[raw(argument) for argument in arguments]))

    def take(self, topic, most=1000, bytes_max=1 << 24, lease=0, ticket=None):
        return jobs_taken(self.change_call("take", topic, most, bytes_max, lease, ticket=ticket))

    def answer(self, *answers, ticket=None, chance=12345):
        words = []
        for verb, delivery, *rest in answers:
            ms = rest[0] if rest else NONE if verb in (NACK, REFUSE) else 0
            words += [pack(">I6BI6", delivery, verb, ms), rest[1] if len(rest) > 1 else b""]
        return self.change_call("answer", chance, *words, ticket=ticket).items(">BBI6I6")

    def counters(self):
        changes, deaths, rest = unpack(">I6I6", self.call("look").rest)
        assert not rest
        return changes, deaths

    def advance(self, most=1000, chance=777):
        answer = self.call("advance", b"", self.server, chance, most)
        more, _, rest = unpack(">BB", answer.rest)
        assert not rest
        return answer, bool(more), answer.more


def seen(shard):
    """All that a server shows of it: topics, jobs with their tries and histories."""
    out = {}
    more, topics = shard.topics()
    assert not more
    for name, topic in topics.items():
        jobs = {}
        for job in shard.list_all(name.decode()):
            jobs[job.id] = {**vars(job)}
        out[name] = ({**vars(topic)}, jobs)
    return out


def convert(shard, cursor="0", most=10, shards=8):
    """One step: (what follows, cursor, topics)."""
    kind, cursor, topics = shard.command("convert", cursor, most, shards, b"fedcba9876543210")
    return kind, cursor, topics


def convert_all(shard, most=10):
    total, cursor = 0, b"0"
    for _ in range(100_000):
        kind, cursor, topics = convert(shard, cursor, most)
        total += topics
        if kind != 1:
            return kind, total
    raise AssertionError("it does not end")
