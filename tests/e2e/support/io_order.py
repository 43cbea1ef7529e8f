"""Proves from a trace that every answer came after the sync that covers it."""

import re

from io_disk import Disk, File
from io_log import ACKED, CANCELLED, DONE, JOB, PUSHED, PUSHED_REPLACING, STATE, TOPIC, Batch, is_batch, key_of
from io_trace import SYNCED, WRITING, WRITTEN

LOG_FILE = re.compile(r"\d{8}\.log")
SHARD_WAL = ("shard-00", "wal")


class Order:
    """Give it the records one by one; then ask `faults(changes)`."""

    def __init__(self):
        self.disk = Disk()
        self.seed = None
        self.jobs, self.keys, self.topics = {}, {}, {}  # the log's entries of each: (began, batch, record)
        self.batches, self.wrong = 0, []
        self._written, self._unsafe = {}, {}  # place of WRITING -> batch; file -> batches not covered by a sync
        self._sequences = set()  # of batches not covered
        self.checked = {}

    def follow(self, record):
        if record.kind == SYNCED:
            self._covers(record)
        self.disk.play(record)
        if record.kind == WRITING and record.data is not None:
            if self.seed is None and (found := re.search(rb"hash_seed=0x([0-9a-f]+)", bytes(record.data[:400]))):
                self.seed = int(found.group(1), 16)
            if is_batch(record.data):
                self._batch(record)
        elif record.kind == WRITTEN and record.a in self._written:
            self._written.pop(record.a).ended = record.at

    def _batch(self, record):
        batch = Batch(record.data)
        batch.ended = batch.covered = None
        file = self.disk.handles[record.id]
        if not any(node is file and LOG_FILE.fullmatch(name) for name, node in self._wal().items()):
            self.wrong.append(f"batch {batch.sequence} went to a file whose name is not safe")
        if any(sequence <= batch.synced for sequence in self._sequences):
            self.wrong.append(f"batch {batch.sequence} says that {batch.synced} is synced, which is not so")
        self.batches += 1
        self._written[record.at] = batch
        self._unsafe.setdefault(file, []).append(batch)
        self._sequences.add(batch.sequence)
        for answer in batch.records:
            entry = (record.at, batch, answer)
            if answer.kind == JOB:
                self.jobs.setdefault((answer.topic, answer.id), []).append(entry)
            elif answer.kind == TOPIC:
                self.topics.setdefault(answer.topic, []).append(entry)
            else:
                self.keys.setdefault(answer.key[1], []).append(entry)

    def _wal(self):
        names = self.disk.root.safe
        for part in SHARD_WAL:
            names = names[part].safe
        return names

    def _covers(self, record):
        file = self.disk.handles[record.id]
        if not isinstance(file, File) or record.b != 0:
            return
        left = []
        for batch in self._unsafe.get(file, ()):
            if batch.ended is not None and batch.ended < record.a:
                batch.covered = record.at
                self._sequences.discard(batch.sequence)
            else:
                left.append(batch)
        self._unsafe[file] = left

    # ---- answers ----

    def faults(self, changes):
        """The faults, as text. `checked` then has the number of checked answers of each kind."""
        faults = list(self.wrong)
        for change in changes:
            if change.answered is None:
                continue
            self.checked[change.what] = self.checked.get(change.what, 0) + 1
            answer = self._written_by(change)
            if not answer:
                faults.append(f"the log does not say it: {change}")
            elif not any(batch.covered is not None and batch.covered < change.answered for _, batch, _ in answer):
                faults.append(f"answered before the sync: {change}, the batch covered at {[batch.covered for _, batch, _ in answer]}")
        return faults

    def _written_by(self, change):
        """Records that can be this change: they contain it, and were written after it was requested."""
        if change.what == "existed":  # of the first push
            return self.jobs.get((change.topic, change.id), [])
        if change.what == "push":
            return [entry for entry in self.jobs.get((change.topic, change.id), ()) if entry[0] > change.asked
                    and entry[2].origin in (PUSHED, PUSHED_REPLACING) and entry[2].body == change.body]
        if change.what == "topic" and change.paused is not None:
            return self._paused_by(change)
        if change.what == "topic":
            return [entry for entry in self.topics.get(change.topic, ()) if entry[0] > change.asked and entry[2].exists]
        low = key_of(change.topic, change.id, self.seed)[1]
        return [entry for entry in self.keys.get(low, ()) if entry[0] > change.asked and self._is_it(change, entry[2])]

    def _paused_by(self, change):
        """Returns all records with this state, back to the last with another one: nothing need be written if it is so already. A checkpoint repeats
        them."""
        answer = []
        for entry in self.topics.get(change.topic, ()):
            if entry[0] < change.asked and entry[2].paused != change.paused:
                answer.clear()
            elif entry[0] < change.answered and entry[2].paused == change.paused:
                answer.append(entry)
        return answer

    @staticmethod
    def _is_it(change, answer):
        if change.what in ("ack", "cancel"):
            return answer.kind == DONE and answer.reason == (ACKED if change.what == "ack" else CANCELLED)
        if change.what == "nack":
            return answer.kind == STATE and answer.error.decode() == change.error
        return answer.kind == STATE and answer.due == change.due
