"""The possible content of a data directory after a power cut at a moment of a trace: for each job, from its requests and answers until then."""

import zlib

DUE_SLACK_MS = 20  # relative delays are shown by the wall clock of the showing server


class There:
    """An existing job. `due`: exactly, by the wall clock; `shown`: approximately; None: unknown."""

    __slots__ = ("body_bytes", "crc", "due", "shown", "error")

    def __init__(self, body_bytes, crc, due, shown, error=""):
        self.body_bytes, self.crc, self.due, self.shown, self.error = body_bytes, crc, due, shown, error

    def fits(self, job):
        if job.body_bytes != self.body_bytes or job.crc != self.crc or job.error != self.error:
            return False
        if job.state == "leased":
            return True
        if self.due is not None and job.due != self.due:
            return False
        return self.shown is None or abs(job.due - self.shown) <= DUE_SLACK_MS

    def __repr__(self):
        return f"there, {self.body_bytes} bytes {self.crc}, due {self.due or self.shown}, error '{self.error}'"


def _after(state, change):
    if change.what == "push":
        return There(len(change.body), f"{zlib.crc32(change.body):08x}", change.due, change.shown)
    if change.what in ("ack", "cancel") or state is None:
        return None
    if change.what == "reschedule":
        return There(state.body_bytes, state.crc, change.due, change.shown, state.error)
    return There(state.body_bytes, state.crc, None, change.shown, change.error)


class Job:
    """A line that tests/support/recover.c printed."""

    __slots__ = ("topic", "id", "state", "attempt", "due", "body_bytes", "crc", "error")

    def __init__(self, line):
        _, self.topic, self.id, self.state, attempt, due, body_bytes, self.crc, self.error = line.split("\t")
        self.attempt, self.due, self.body_bytes = int(attempt), int(due), int(body_bytes)

    def is_like(self, other):
        return (self.state, self.attempt, self.body_bytes, self.crc, self.error) == (
            other.state, other.attempt, other.body_bytes, other.crc, other.error) and abs(self.due - other.due) <= DUE_SLACK_MS


class Found:
    """The result of opening a directory."""

    def __init__(self, text):
        self.topics, self.jobs, self.faults = {}, {}, []
        for line in text.splitlines():
            if line.startswith("topic\t"):
                _, name, paused, *counts = line.split("\t")
                self.topics[name] = (paused, [int(count) for count in counts])
            elif line.startswith("job\t"):
                job = Job(line)
                if (job.topic, job.id) in self.jobs:
                    self.faults.append(f"C: {job.topic}/{job.id} is there twice")
                self.jobs[job.topic, job.id] = job
            else:
                self.faults.append(f"it says '{line}'")
        counted = {name: [0, 0, 0] for name in self.topics}
        for job in self.jobs.values():
            counted[job.topic][("waiting", "leased", "dead").index(job.state)] += 1
        for name, counts in counted.items():
            if counts != self.topics[name][1]:
                self.faults.append(f"C: topic '{name}' counts {self.topics[name][1]} waiting, leased and dead, and has {counts}")

    def differences(self, other):
        faults = [f"S: topic '{name}' is not the same again" for name in {*self.topics, *other.topics} if self.topics.get(name) != other.topics.get(name)]
        for name in {*self.jobs, *other.jobs}:
            mine, again = self.jobs.get(name), other.jobs.get(name)
            if not mine or not again or not mine.is_like(again):
                faults.append(f"S: {name} is not the same again")
        return faults


class Story:
    """Goes along a trace; changes as io_calls.Changes has them."""

    def __init__(self, changes):
        self._events, self._at = [], 0
        for change in changes:
            if change.what in ("existed", "topic"):
                continue
            self._events.append((change.asked, 0, change))
            if change.answered is not None:
                self._events.append((change.answered, 1, change))
        self._events.sort(key=lambda event: event[:2])
        self._settled, self._open, self._must = {}, {}, set()
        self.answered = 0

    def go_to(self, moment):
        """Requests and answers up to it have happened."""
        while self._at < len(self._events) and self._events[self._at][0] <= moment:
            _, is_answer, change = self._events[self._at]
            self._at += 1
            name = (change.topic, change.id)
            self.answered += is_answer
            if is_answer:
                self._settle(name, change)
            else:
                self._open.setdefault(name, []).append(change)
            if all(self.states(name)):
                self._must.add(name)
            else:
                self._must.discard(name)

    def _settle(self, name, change):
        """Notes that it has happened, and all earlier requests for the same job."""
        waiting = self._open.get(name, [])
        if change in waiting:
            upto = waiting.index(change) + 1
            for one in waiting[:upto]:
                self._settled[name] = _after(self._settled.get(name), one)
            self._open[name] = waiting[upto:]

    def states(self, name):
        return _states(self._settled.get(name), self._open.get(name, ()))

    def expectation(self):
        """The possible content now. The story may continue meanwhile."""
        return Expectation(dict(self._settled), {name: tuple(changes) for name, changes in self._open.items() if changes}, set(self._must))


def _states(settled, changes):
    """The possible states; None: missing."""
    states = [settled]
    for change in changes:
        states.append(_after(states[-1], change))
    return states


class Expectation:
    def __init__(self, settled, waiting, must):
        self._settled, self._open, self._must = settled, waiting, must

    def faults(self, found):
        faults = list(found.faults)
        for name, job in found.jobs.items():
            states = _states(self._settled.get(name), self._open.get(name, ()))
            if not any(state and state.fits(job) for state in states):
                rule = "P: it was never pushed so" if any(states) else "A: it is back, or never was"
                faults.append(f"{rule}: {name} is {job.state}, {job.body_bytes} bytes {job.crc}, due {job.due}, error '{job.error}'; may be {states}")
        for name in self._must - found.jobs.keys():
            faults.append(f"L: lost: {name} should be {_states(self._settled.get(name), self._open.get(name, ()))}")
        return faults
