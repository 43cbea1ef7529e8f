"""Invariants of a shard between any two calls, recomputed from its keys: every job is in exactly one place, that of its state and due
time; counts equal the result of a scan; no key is left over. `scan` returns a sentence for each fault. Numbers by README.md of src/stores/redis/scripts.
"""

import collections
import struct

import state

ATTEMPTS_MAX = 8  # a history remembers
LEAF_MAX = 128  # entries a leaf may hold, besides those of one due: Redis' limit of the compact form
DELAYED, READY, LEASED, DEAD = 1, 2, 3, 4
LIVE = ("delayed", "retrying", "ready", "leased", "dead")
GONE = ("acked", "cancelled", "expired")
PER_TOPIC = {"topic": "string", "extension": "string", "job": "hash", "try": "hash", "fresh": "zset", "index": "zset", "priorities": "zset", "expiry": "zset", "held": "zset",
             "dead": "zset", "finished": "zset", "history": "hash", "next": "hash", "kept": "string", "order": "zset", "groups": "hash", "group": "hash", "wakes": "zset",
             "waits": "hash"}
PER_PART = {"leaf": "zset", "ready": "zset", "turns": "zset", "page": "list", "done": "hash"}  # one per number; of ready jobs also one per number and group
OF_SHARD = {"core": "string", "name": "string", "listened": "string", "topics": "zset", "leases": "zset", "leased": "hash", "servers": "zset", "unpacked": "set", "pauses": "zset",
            "moving": "hash", "aware": "zset", "leaving": "zset", "arrived": "hash", "waiting": "string", "awaited": "zset", "batches": "hash",
            "guests": "hash", "mail": "zset", "orders": "hash", "joins": "zset", "joined": "hash", "fences": "hash", "stopped": "zset", "renew": "set", "renewal": "hash"}
NUMBERS_END = 2**47  # no counter comes this far; a number from here on was damaged, and no other job gets it
KEPT_SLACK_MS = 1000  # so long after its time a kept job is removed at the earliest
INFINITE = float("inf")
POLICY_BYTES = 6 + 6 + 1 + 6 + 6 + 4


def scan(client, tag):
    shard = _Keys(client, tag)
    for name in sorted(shard.topics):
        _Topic(shard, name).judge()
    shard.judge()
    return shard.faults


class _Keys:
    """A snapshot of all keys of a shard, read together."""

    def __init__(self, client, tag):
        self.client, self.tag, self.faults = client, tag, []
        self.core, self.name, self.unpacked, self.servers, self.leases, self.leased, self.events = None, b"", set(), {}, {}, {}, {}
        self.pauses, self.awaited, self.waiting = {}, {}, b""
        self.batches, self.members = {}, {}  # topic NUL id: state; number: names
        self.guests, self.guest_members, self.parts = {}, {}, {}  # topic NUL id: state; topic NUL id: names; number: counts of other shards
        self.mail, self.joins, self.joined = {}, {}, {}
        self.topics = {}  # name: {kind: {} or {part: {}}}
        self.deliveries = {}  # of leased jobs: (lease_until, place)
        keys = sorted(set(client.scan_iter(tag + ":*", count=1000)))
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.type(key)
        kinds = pipe.execute()
        for key, kind in zip(keys, kinds):
            if kind == b"hash":
                pipe.hgetall(key)
            elif kind == b"list":
                pipe.lrange(key, 0, -1)
            elif kind == b"zset":
                pipe.zrange(key, 0, -1, withscores=True)
            elif kind == b"string":
                pipe.get(key)
            elif kind == b"set":
                pipe.smembers(key)
            else:
                pipe.exists(key)
        values = pipe.execute()
        for at, (key, kind) in enumerate(zip(keys, kinds)):
            self._file(key[len(tag) + 1:], kind.decode(), values[at])

    def blame(self, sentence):
        self.faults.append(f"{self.tag}: {sentence}")

    def _file(self, rest, kind, value):
        family, _, name = rest.partition(b":")
        family = family.decode()
        part = None
        if family == "members":
            self.members[int(name)] = set(value)
            return None
        if family == "guest":
            self.guest_members[name] = set(value)
            return None
        if family == "parts":
            self.parts[int(name)] = [state.part_read(text) for text in dict(value).values()]
            return None
        if family in PER_PART:
            name, _, part = name.partition(b":") if family == "ready" else name.rpartition(b":")
        if family in ("broken", "ticket"):
            return None  # records that could not be read, set aside by a check; calls of servers
        wanted = OF_SHARD.get(family) or PER_TOPIC.get(family) or PER_PART.get(family)
        if wanted is None or (family in OF_SHARD) != (not name):
            return self.blame(f"an unknown key: {rest!r}")
        if kind != wanted:
            return self.blame(f"{rest!r} is a {kind}, not a {wanted}")
        if kind in ("hash", "zset"):
            value = dict(value)
        elif family in ("core", "topic"):
            try:
                value = (state.core_read if family == "core" else state.topic_read)(value)
            except ValueError as fault:
                return self.blame(f"{rest!r}: {fault}")
        if family in OF_SHARD:
            setattr(self, {"topics": "events"}.get(family, family), value)
            return None
        kinds = self.topics.setdefault(name, {kind: {} for kind in PER_PART})
        if part is not None:
            kinds[family][part] = value
        else:
            kinds[family] = value
        return None

    def _members(self):
        """Returns the stored members of each batch, by its name and number: (topic NUL id, whether it is dead)."""
        found = {}
        for topic, kinds in self.topics.items():
            for ident, record in kinds.get("job", {}).items():
                member = state.member_of(record)
                if member:
                    is_dead = kinds.get("try", {}).get(ident, b"\1")[0] == DEAD
                    found.setdefault((member[0] + b"\0" + member[1], member[2]), []).append((topic + b"\0" + ident, is_dead))
        return found

    def _judge_members(self, kind, name, counts, listed, members):
        are_dead = sum(is_dead for _, is_dead in members)
        if counts != (len(members) - are_dead, are_dead):
            self.blame(f"{kind} {name!r} counts {counts} unfinished and dead members of {members}")
        if listed != {member for member, _ in members}:
            self.blame(f"{kind} {name!r} lists {listed}, not {members}")

    def _judge_batches(self):
        """Counts the members of each open batch, and of each guest."""
        found = self._members()
        for name, text in self.batches.items():
            number, unfinished, dead = state.batch_read(text)
            parts = self.parts.get(number, [])
            counts = unfinished - sum(part[0] for part in parts), dead - sum(part[1] for part in parts)
            if not text[0] & state.BATCH_STOPPED:
                self._judge_members("batch", name, counts, self.members.get(number, set()), found.get((name, number), []))
        for name, text in self.guests.items():
            number, unfinished, dead = state.guest_read(text)
            if not text[12] & state.GUEST_STOPPED:
                self._judge_members("guest", name, (unfinished, dead), self.guest_members.get(name, set()), found.get((name, number), []))
        numbers = {state.batch_read(text)[0] for text in self.batches.values()}
        if (set(self.members) | set(self.parts)) - numbers or set(self.guest_members) - set(self.guests):
            self.blame(f"members of batches that do not exist: {sorted(self.members)}, {sorted(self.parts)}, {sorted(self.guest_members)}")
        if set(self.mail) - set(self.guests) or set(self.joins) != set(self.joined):
            self.blame(f"mail of {sorted(self.mail)} with guests {sorted(self.guests)}; joins {sorted(self.joins)}, {sorted(self.joined)}")

    def judge(self):
        if self.core is None:
            return self.blame("there is no core")
        if self.core.layout != state.LAYOUT or not 0 < self.core.sequence + 1 < NUMBERS_END or self.core.leaf >= NUMBERS_END:
            self.blame(f"core of layout {self.core.layout}, sequence {self.core.sequence}, leaf {self.core.leaf}")
        if set(self.events) != {name for name, kinds in self.topics.items() if kinds.get("topic")}:
            self.blame(f"topics with an event {sorted(self.events)}, topics that exist {sorted(self.topics)}")
        found = {str(number).encode(): until for number, (until, _) in self.deliveries.items()}
        if {number: int(until) for number, until in self.leases.items()} != found:
            self.blame(f"leases say {_differ(self.leases, found)}")
        places = {str(number).encode(): place for number, (_, place) in self.deliveries.items()}
        if self.leased != places:
            self.blame(f"leased says {_differ(self.leased, places)}")
        self._judge_batches()
        timed = {name for name, kinds in self.topics.items() if kinds.get("topic") and kinds["topic"].flags & state.TIMED}
        if set(self.pauses) != timed or any(not self.topics[name]["topic"].flags & state.PAUSED for name in timed):
            self.blame(f"pauses with an end {sorted(self.pauses)}, topics that are paused so {sorted(timed)}")
        if self.pauses and not self.core.core_flags & state.PAUSES:
            self.blame(f"pauses with an end in a core with flags {self.core.core_flags}")
        self.judge_next()
        return None

    def judge_next(self):
        """The kept events are lower bounds: of the one of next_topic, and of all others."""
        events = {name: kinds["topic"].next for name, kinds in self.topics.items() if kinds.get("topic")}
        named = events.pop(self.core.next_topic, INFINITE)
        others = min([*events.values(), *self.leases.values(), *self.pauses.values(), INFINITE])
        if self.core.next_topic and (self.core.next > named or self.core.rest > others) or self.core.next > min(named, others):
            self.blame(f"next {self.core.next} of {self.core.next_topic!r} and {self.core.rest}, but {named} and {others}")


class _Job:
    def __init__(self, ident, record, tried):
        self.id = ident
        if len(record) < 15:
            raise ValueError("a record cut short")
        self.flags, self.priority = struct.unpack(">BH", record[:3])
        self.sequence, self.due = _number(record[3:9]), _number(record[9:15])
        self.first, self.state, self.attempt, self.until, self.delivery = self.due, DELAYED, 0, 0, 0
        self.own_ttl, self.tried, self.has_next = 0, tried is not None, False
        if self.flags & ~127:
            raise ValueError(f"flags {self.flags}")
        if self.flags & 1:
            if len(record) < 15 + POLICY_BYTES or record[27] == 4 and len(record) < 16 + POLICY_BYTES + 4 * record[44]:
                raise ValueError("a policy cut short")
            self.own_ttl = _number(record[21:27])
        if self.flags & 32 and len(record) < 21 + (POLICY_BYTES if self.flags & 1 else 0):
            raise ValueError("a keep_finished cut short")
        self.group, at = b"", 15 + (POLICY_BYTES if self.flags & 1 else 0) + (6 if self.flags & 32 else 0)
        if self.flags & 1 and record[27] == 4:
            at += 1 + 4 * record[44]
        if self.flags & 64:
            self.group = record[at + 1:at + 1 + record[at]]
        if tried is not None:
            if len(tried) < 37:
                raise ValueError("a try cut short")
            self.state, self.priority, self.attempt = struct.unpack(">BHI", tried[:7])
            if self.state & 16:
                flags, at = (tried[37], 39 + tried[38]) if len(tried) > 38 else (0, 0)
                at += 6 if flags & 2 else 0
                if self.state != LEASED + 16 or len(tried) < max(at, 39) or flags > 7 or flags & 4 and len(tried) < at + 2 + _number(tried[at:at + 2]):
                    raise ValueError("a holder cut short, or of a job that nobody holds")
                self.state -= 16
                self.has_next = flags & 2 == 2
            self.due, self.first, self.until, self.delivery, self.lease = (_number(tried[at:at + 6]) for at in range(7, 37, 6))
        self.member = record[3:9] + ident


class _Topic:
    def __init__(self, shard, name):
        self.shard, self.name = shard, name
        self.kinds = shard.topics[name]
        self.hash = self.kinds.get("topic")
        self.jobs = {}

    def blame(self, sentence):
        self.shard.blame(f"topic {self.name.decode()}: {sentence}")

    def get(self, kind):
        return self.kinds.get(kind) or {}

    def judge(self):
        if self.hash is None:
            return self.blame(f"keys without a topic: {sorted(kind for kind, value in self.kinds.items() if value)}")
        for ident, record in self.get("job").items():
            try:
                self.jobs[ident] = _Job(ident, record, self.get("try").get(ident))
            except ValueError as fault:
                self.blame(f"job {ident!r}: {fault}")
        for ident in set(self.get("try")) - set(self.get("job")):
            self.blame(f"a try without a job: {ident!r}")
        for ident in self.get("next"):
            if ident not in self.jobs or not self.jobs[ident].has_next:
                self.blame(f"a successor that no leased job waits for: {ident!r}")
        for job in self.jobs.values():
            if job.has_next and job.id not in self.get("next"):
                self.blame(f"{job.id!r} waits for a successor that does not exist")
        packed = self.hash.settings
        wanted = 51 + (1 + 4 * packed[51] if len(packed) > 51 and packed[12] == 4 else 0)
        if len(packed) not in (0, 40, wanted, wanted + 19, wanted + 19 + 33):
            self.blame(f"settings of {len(packed)} bytes")
        self.is_strict = len(packed) > wanted + 19 and packed[-1] & 1 == 1
        self.places = {}
        self.judge_leaves()
        self.judge_ready()
        self.judge_set("held", lambda job: job.state == LEASED)
        self.judge_set("dead", lambda job: job.state == DEAD)
        self.evaluate_expiry()
        self.judge_jobs()
        self.judge_counts()
        self.judge_histories()
        self.judge_kept()
        self.judge_groups()
        self.evaluate_event()
        return None

    def hangs(self, member, where, score):
        """The job of a member; notes where it hangs."""
        job = self.jobs.get(member[6:])
        if job is None or job.member != member:
            self.blame(f"{where} holds {member!r}, which is no job's")
            return None
        if member in self.places:
            self.blame(f"{job.id!r} hangs in {self.places[member]} and in {where}")
        self.places[member] = where
        if score != (0 if where.startswith("ready") and self.is_strict and job.attempt else job.due):
            self.blame(f"{job.id!r}: due {job.due}, in {where} by {score:.0f}")
        return job

    def judge_leaves(self):
        for member, score in self.get("fresh").items():
            job = self.hangs(member, "fresh", score)
            if job and job.state not in (DELAYED, READY):
                self.blame(f"{job.id!r}: among the fresh, but its state is {job.state}")
        index, leaves = self.get("index"), self.kinds["leaf"]
        if set(index) != set(leaves):
            self.blame(f"index of leaves {sorted(index)}, leaves {sorted(leaves)}")
        ordered = sorted(leaves, key=lambda leaf: index.get(leaf, INFINITE))
        lows = [index.get(leaf, INFINITE) for leaf in ordered]
        if len(set(lows)) != len(lows):
            self.blame(f"two leaves begin at the same due: {lows}")
        for at, leaf in enumerate(ordered):
            members = leaves[leaf]
            above = lows[at + 1] if at + 1 < len(lows) else INFINITE
            for member, score in members.items():
                if not lows[at] <= score < above:
                    self.blame(f"leaf {leaf.decode()} spans {lows[at]:.0f} to {above:.0f} and holds {score:.0f}")
                job = self.hangs(member, f"leaf {leaf.decode()}", score)
                if job and job.state not in (DELAYED, READY):
                    self.blame(f"{job.id!r}: in a leaf, but its state is {job.state}")
            if len(members) > LEAF_MAX:
                most = collections.Counter(members.values()).most_common(1)[0][1]
                if len(members) - most > LEAF_MAX:
                    self.blame(f"leaf {leaf.decode()} has {len(members)} entries, {most} of them at one due")

    def judge_ready(self):
        for part, members in self.kinds["ready"].items():
            for member, score in members.items():
                job = self.hangs(member, f"ready {part.decode()}", score)
                if job and (job.state not in (DELAYED, READY) or _lane(job) != part):
                    self.blame(f"{job.id!r}: state {job.state}, priority {job.priority}, ready under {part.decode()}")
        found = {part: float(part.partition(b":")[0]) for part in self.kinds["ready"]}
        if self.get("priorities") != found:
            self.blame(f"priorities {self.get('priorities')}, ready sets {sorted(found)}")

    def judge_set(self, kind, fits):
        for member, score in self.get(kind).items():
            job = self.hangs(member, kind, score)
            if job and not fits(job):
                self.blame(f"{job.id!r}: in {kind}, but its state is {job.state}")

    def evaluate_expiry(self):
        """A job that became ready under another ttl of the topic keeps it; so only a ttl of the job's own determines the exact time."""
        expiry = self.get("expiry")
        for member, score in expiry.items():
            job = self.jobs.get(member[6:])
            if job is None or job.member != member:
                self.blame(f"expiry holds {member!r}, which is no job's")
            elif not self.places.get(member, "").startswith("ready"):
                self.blame(f"{job.id!r} is to expire, but hangs in {self.places.get(member)}")
            elif job.own_ttl and score != job.first + job.own_ttl:
                self.blame(f"{job.id!r}: first due {job.first}, ttl {job.own_ttl}, expires at {score:.0f}")
        for member, where in self.places.items():
            if where.startswith("ready") and self.jobs[member[6:]].own_ttl and member not in expiry:
                self.blame(f"{member[6:]!r} has a ttl of its own, is ready and will not expire")

    def judge_jobs(self):
        sequences = set()
        for job in self.jobs.values():
            if job.member not in self.places:
                self.blame(f"{job.id!r}: state {job.state}, and hangs nowhere")
            if job.state == LEASED:
                place = job.member[:6] + self.name + (b"\1" + job.group if job.group else b"") + b"\0" + job.id
                if job.delivery in self.shard.deliveries:
                    self.blame(f"delivery {job.delivery} was given twice")
                self.shard.deliveries[job.delivery] = (job.until, place)
                if job.attempt < 1:
                    self.blame(f"{job.id!r}: leased at attempt {job.attempt}")
            elif job.until:
                self.blame(f"{job.id!r}: not leased, but until {job.until}")
            if job.state not in (DELAYED, READY, LEASED, DEAD):
                self.blame(f"{job.id!r}: state {job.state}")
            if (job.own_ttl or job.flags & 1 or job.priority != 100) and not self.hash.flags & state.SPECIAL:
                self.blame(f"{job.id!r} has a policy or priority of its own, and the topic does not know of such")
            if job.sequence in sequences:
                self.blame(f"push number {job.sequence} twice")
            sequences.add(job.sequence)
            if self.shard.core and any(self.shard.core.sequence < number < NUMBERS_END for number in (job.sequence, job.delivery)):
                self.blame(f"{job.id!r}: push {job.sequence}, delivery {job.delivery}, above the shard's sequence")

    def judge_counts(self):
        found = dict.fromkeys(LIVE, 0)
        for member, where in self.places.items():
            if where == "fresh" or where.startswith("leaf"):
                found["retrying" if self.jobs[member[6:]].attempt else "delayed"] += 1
            else:
                found[{"held": "leased", "dead": "dead"}.get(where, "ready")] += 1
        kept = {field: self.hash[field] for field in LIVE + GONE + ("pushed",)}
        for field in LIVE:
            if kept[field] != found[field]:
                self.blame(f"counts {kept[field]} {field}, a scan finds {found[field]}")
        dead = sum(len(self.get("job")[member[6:]]) + len(member) - 6 for member, where in self.places.items() if where == "dead")
        if self.hash.dead_bytes != dead:
            self.blame(f"counts {self.hash.dead_bytes} bytes of dead jobs, a scan finds {dead}")
        if kept["pushed"] != sum(kept[field] for field in LIVE + GONE):
            self.blame(f"pushed {kept['pushed']}, accounted for {({field: kept[field] for field in LIVE + GONE})}")

    def judge_histories(self):
        """Whole, of the present job, and known of."""
        for kind, flag in (("history", state.HISTORIC), ("next", state.SUCCEEDING), ("extension", state.EXTENDED), ("index", state.PACKED), ("expiry", state.EXPIRING),
                           ("finished", state.REMEMBERING), ("order", state.KEEPING)):
            if self.kinds.get(kind) and not self.hash.flags & flag:
                self.blame(f"has {kind}, and nobody looks for it")
        if (self.name in self.shard.unpacked) != bool(self.hash.flags & state.UNPACKED):
            self.blame("its flag and T:unpacked say two things")
        if not self.hash.flags & state.TRIED and any(job.tried and job.state in (DELAYED, READY) for job in self.jobs.values()):
            self.blame("has jobs that wait and have a try, and nobody looks for it")
        for ident, kept in self.get("history").items():
            job = self.jobs.get(ident)
            if job is None:
                self.blame(f"a history without a job: {ident!r}")
            elif _number(kept[:6]) != job.sequence:
                self.blame(f"{ident!r} has the history of another job")
            elif len(kept) < 19 or kept[18] > ATTEMPTS_MAX or 19 + kept[18] + sum(kept[19:19 + kept[18]]) != len(kept):
                self.blame(f"{ident!r} has a history that is not whole")

    def judge_kept(self):
        """Each kept job is in one page, in the order of the ends of their times; the index leads to it, and the figures are right."""
        order, pages = self.get("order"), self.kinds["page"]
        if set(order) != set(pages):
            self.blame(f"order of pages {sorted(order)}, pages {sorted(pages)}")
        found, size, last = {}, 0, (0, 0)
        for page in sorted(pages, key=lambda name: (order.get(name, INFINITE), name)):
            for at, entry in enumerate(pages[page]):
                ident, value = state.kept_read(entry)
                place = (_number(value[8:14]), _number(value[2:8]))
                if order.get(page, 0) > place[0] or place < last:
                    self.blame(f"page {page.decode()} begins at {order.get(page)} and holds {place}, behind {last}")
                if ident in found:
                    self.blame(f"{ident!r} is kept in two pages")
                found[ident], last = page, place
                size += len(ident) + len(value)
                if self.shard.core and self.shard.core.sequence < place[1] < NUMBERS_END:
                    self.blame("the number of a kept job is above the shard's sequence")
        indexed = {ident: b"%012d" % int(place[:-2]) for part in self.kinds["done"].values() for ident, place in part.items()}
        if indexed != found or sum(map(len, self.kinds["done"].values())) != len(found):
            self.blame(f"index of kept jobs {_differ(indexed, found)}")
        for ident in set(found) & set(self.get("job")):
            self.blame(f"{ident!r} exists and is kept as finished")
        figures = state.kept_figures(self.kinds.get("kept"))
        if figures[:2] != (len(found), size):
            self.blame(f"counts {figures[0]} kept jobs of {figures[1]} bytes, a scan finds {len(found)} of {size}")
        for part, ids in self.kinds["done"].items():
            for ident in ids:
                if state.kept_part(ident, figures[2]) != int(part):
                    self.blame(f"{ident!r} is in part {part} of the index of kept jobs, which has {figures[2]}")

    def judge_groups(self):
        """What is kept of each group is what a scan of the jobs finds; groups that may be served, and only these, have their turn."""
        if not self.hash.flags & state.GROUPED:
            for kind in ("groups", "group", "wakes", "turns", "waits"):
                if self.kinds.get(kind):
                    self.blame(f"has {kind}, and nobody looks for it")
            if any(job.group for job in self.jobs.values()):
                self.blame("has jobs of groups, and nobody looks for them")
            return
        if not self.hash.flags & state.SPECIAL or not self.hash.flags & state.FLOW:
            self.blame(f"has groups, and flags {self.hash.flags}")
        groups = {name: state.group_read(data) for name, data in self.get("groups").items()}
        in_flight, ready, tried, heads = collections.Counter(), collections.Counter(), collections.Counter(), collections.defaultdict(dict)
        for member, where in self.places.items():
            job = self.jobs[member[6:]]
            if self.is_strict and job.attempt and job.state == DELAYED:
                tried[job.group] += 1
            if where == "held":
                in_flight[job.group] += 1
            elif where.startswith("ready"):
                ready[job.group] += 1
                head = (0 if self.is_strict and job.attempt else job.due, job.sequence)
                heads[job.group][job.priority] = min(head, heads[job.group].get(job.priority, head))
        self.judge_delayed()
        own, turns = self.get("group"), collections.defaultdict(set)
        for name in set(groups) | set(in_flight) | set(ready) | set(tried):
            group = groups.get(name)
            if group is None:
                self.blame(f"group {name!r}: {in_flight[name]} in flight, {ready[name]} ready, and it is not kept")
                continue
            if (group.in_flight, group.ready, group.tried, group.heads) != (in_flight[name], ready[name], tried[name], heads[name]):
                self.blame(f"group {name!r}: kept {dict(group)}, a scan finds {in_flight[name]} in flight, {ready[name]} ready, {tried[name]} tried, first {heads[name]}")
            if self.is_strict and group.bits & 1 and (group.in_flight or group.tried and all(due for due, _ in group.heads.values())):
                self.blame(f"group {name!r} is served before a job in front of it has ended")
            if bool(group.bits & 2) != (name in self.get("wakes")):
                self.blame(f"group {name!r}: its bits {group.bits} and T:wakes say two things")
            weight = (own[name][0] if name in own else 0) or 1
            heads_in_turn = sorted(group.heads.items(), key=lambda head: (head[1][0] > 0, head[0] if head[1][0] else head[1][1]))[:1] if self.is_strict else group.heads.items()
            for priority, (due, sequence) in heads_in_turn if group.bits & 1 else ():
                numbers = (group.in_flight * 10000 // weight, group.passed, due, sequence)
                turns[str(priority).encode()].add(b"".join(number.to_bytes(6, "big") for number in numbers) + name)
        found = {priority: set(members) for priority, members in self.kinds["turns"].items()}
        if found != turns:
            self.blame(f"turns {found}, by its groups {dict(turns)}")
        is_open = sum(group.ready for group in groups.values() if group.bits & 1)
        if self.hash.flow_open != is_open:
            self.blame(f"counts {self.hash.flow_open} jobs that may be delivered, by its groups {is_open}")
        for reason in (3, 4, 5, 6, 7):
            shut = sum(group.ready for group in groups.values() if group.bits >> 2 == reason)
            if self.hash[f"flow_shut_{reason}"] != shut:
                self.blame(f"counts {self.hash[f'flow_shut_{reason}']} jobs that are held for reason {reason}, by its groups {shut}")
        if any(group.ready and bool(group.bits & 1) == bool(group.bits >> 2) for group in groups.values()):
            self.blame("a group with ready jobs is served and held, or neither")
        for name in set(self.get("wakes")) - set(groups):
            self.blame(f"wakes a group that is not kept: {name!r}")

    def judge_delayed(self):
        """The delayed jobs of each group are counted if the topic says so."""
        delayed = collections.Counter(self.jobs[member[6:]].group for member, where in self.places.items() if where.startswith(("fresh", "leaf")))
        counted = {name: int(count) for name, count in self.get("waits").items()}
        wanted = dict(delayed) if self.hash.flow_bits & 4 else {}
        if counted != wanted:
            self.blame(f"counts delayed jobs by group {counted}, a scan finds {wanted}")

    def evaluate_event(self):
        dues = [score for leaf in self.kinds["leaf"].values() for score in leaf.values()]
        dues += list(self.get("fresh").values()) + list(self.get("expiry").values()) + list(self.get("finished").values())
        dues += [_number(state.kept_read(entry)[1][8:14]) + KEPT_SLACK_MS for page in self.kinds["page"].values() for entry in page]
        dues += list(self.get("wakes").values())
        if self.hash.next > min([*dues, INFINITE]):
            self.blame(f"its next event is at {min(dues):.0f}, it looks at {self.hash.next}")
        if self.shard.events.get(self.name) != self.hash.listed or self.hash.listed > self.hash.next:
            self.blame(f"is listed by {self.shard.events.get(self.name)}, says {self.hash.listed}, next is {self.hash.next}")


def _lane(job):
    return str(job.priority).encode() + (b":" + job.group if job.group else b"")


def _number(data):
    return int.from_bytes(data, "big")


def _differ(answer, found):
    return {key: (answer.get(key), found.get(key)) for key in set(answer) | set(found) if answer.get(key) != found.get(key)}
