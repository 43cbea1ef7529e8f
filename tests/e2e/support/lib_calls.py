"""libtarry by ctypes, a queue in a directory: the structs of tarry.h and its calls, for tests that have the library in a process they can kill."""

import contextlib
import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

HAS_PRIORITY, HAS_AT, ONLY_DEAD, HAS_DELAY, FINAL, WITH_BODY = 1, 2, 8, 16, 32, 64
SYNCS = {"always": 1, "never": 3}
STATES = {1: "delayed", 2: "ready", 3: "leased", 4: "dead", 5: "finished"}
BATCH_MAX = 1000


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class Options(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("memory_max", c_uint64), ("body_max", c_uint64), ("topics_max", c_uint32),
                ("shards", c_uint32), ("test_clock_ms", c_int64), ("dir", c_char_p), ("sync", c_uint32), ("wal_file_bytes", c_uint32),
                ("sync_interval_ms", c_int64), ("log", c_void_p), ("log_owner", c_void_p)]


class Push(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("topic", c_char_p), ("id", c_char_p), ("body", c_char_p), ("body_bytes", c_size_t),
                ("content_type", c_char_p), ("meta", c_char_p), ("meta_bytes", c_size_t), ("delay_ms", c_int64), ("at_ms", c_int64),
                ("priority", c_int32), ("on_conflict", c_uint32), ("lease_ms", c_int64), ("ttl_ms", c_int64), ("max_attempts", c_uint32),
                ("backoff", c_uint32), ("backoff_first_ms", c_int64), ("backoff_max_ms", c_int64), ("error", c_char_p), ("error_bytes", c_uint32),
                ("attempt", c_uint32)]


class Result(Sized):
    _fields_ = [("size", c_uint32), ("code", c_int32), ("state", c_int32), ("cancel_requested", c_int32), ("due_ms", c_int64),
                ("lease_until_ms", c_int64), ("detail", c_char_p), ("id", c_char * 136)]


class Change(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("topic", c_char_p), ("id", c_char_p), ("delay_ms", c_int64), ("at_ms", c_int64),
                ("delivery", c_uint64), ("priority", c_int32), ("reserved", c_uint32)]


class Take(Sized):
    _fields_ = [("size", c_uint32), ("max", c_uint32), ("topics", POINTER(c_char_p)), ("topic_count", c_uint32), ("reserved", c_uint32),
                ("lease_ms", c_int64), ("tag", c_uint64), ("consumer", c_char_p)]


class Answer(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("job", c_void_p), ("lease", c_char_p), ("delay_ms", c_int64), ("lease_ms", c_int64),
                ("error", c_char_p), ("error_bytes", c_size_t)]


class List(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("topic", c_char_p), ("state", c_int32), ("limit", c_uint32), ("cursor", c_char * 64)]


class Settings(Sized):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("lease_ms", c_int64), ("ttl_ms", c_int64), ("max_attempts", c_uint32), ("backoff", c_uint32),
                ("backoff_first_ms", c_int64), ("backoff_max_ms", c_int64), ("priority", c_int32), ("on_conflict", c_uint32),
                ("dedup_window_ms", c_int64), ("max_jobs", c_uint64)]


class Transfer(Sized):
    _fields_ = [("size", c_uint32), ("fd", c_int32), ("write", c_void_p), ("read", c_void_p), ("owner", c_void_p), ("on_conflict", c_uint32),
                ("reserved", c_uint32), ("topics", c_uint64), ("jobs", c_uint64), ("line", c_uint64)]


TOTALS = ("pushed", "replaced", "delivered", "acked", "nacked", "lease_ended", "cancelled", "expired", "died", "redriven")
COUNTS = ("delayed", "retrying", "ready", "leased", "dead")


class Topic(Sized):
    _fields_ = [("size", c_uint32), ("is_paused", c_int32), ("name", c_char * 208), ("paused_until_ms", c_int64),
                *((name, c_uint64) for name in COUNTS + TOTALS), ("dead_bytes", c_uint64), ("oldest_ready_due_ms", c_int64)]


class Refused(Exception):
    """A call that ended with a code."""

    def __init__(self, code, detail=""):
        self.code, self.detail = code, detail
        super().__init__(f"{code} {detail}")


class Library:
    """The shared library; code() names its codes."""

    def __init__(self, path):
        self.so = ctypes.CDLL(str(path))
        for name in ("code_name", "strerror", "job_id", "job_topic", "job_content_type", "job_lease"):
            getattr(self.so, "tarry_" + name).restype = c_char_p
        for name in ("job_body", "job_error"):
            getattr(self.so, "tarry_" + name).restype = c_void_p
        for name in ("job_due_ms", "job_lease_until_ms"):
            getattr(self.so, "tarry_" + name).restype = c_int64
        self.so.tarry_job_delivery.restype = c_uint64
        self.so.tarry_job_attempt.restype = c_uint32
        self.so.tarry_interrupt.restype = c_size_t

    def code(self, number):
        return self.so.tarry_code_name(c_int(number)).decode()

    def open(self, directory, **options):
        return Queue(self, Options(dir=directory and str(directory).encode(), **options))


class Queue:
    def __init__(self, library, options):
        self.library, self.so, self.handle = library, library.so, c_void_p()
        error = ctypes.create_string_buffer(400)
        code = self.so.tarry_open(byref(options), byref(self.handle), error, c_size_t(400))
        if code:
            raise Refused(library.code(code), error.value.decode())

    def close(self):
        return self.library.code(self.so.tarry_close(self.handle))

    def _check(self, code, *fine):
        name = self.library.code(code)
        if code and name not in fine:
            raise Refused(name)
        return name

    # ---- items: a list of dictionaries, (code, result) of each ----

    def items(self, verb, kind, items):
        """Makes one call for all items."""
        array, results = (kind * len(items))(), (Result * max(1, len(items)))()
        for at, item in enumerate(items):
            array[at] = kind(**item)
        results[0].size = ctypes.sizeof(Result)
        getattr(self.so, "tarry_" + verb)(self.handle, array, c_size_t(len(items)), results)
        if items and not results[0].size == ctypes.sizeof(Result):
            raise AssertionError("a result that was not written")
        return [(self.library.code(result.code), result) for result in results[:len(items)]]

    # ---- jobs ----

    @contextlib.contextmanager
    def _jobs(self, call, most):
        jobs, count = (c_void_p * most)(), c_size_t()
        self._check(call(jobs, byref(count)))
        try:
            yield [self._shown(c_void_p(job)) for job in jobs[:count.value]]
        finally:
            for job in jobs[:count.value]:
                self.so.tarry_job_free(c_void_p(job))

    def _shown(self, job):
        so, count = self.so, c_size_t()
        body = so.tarry_job_body(job, byref(count))
        return {"topic": so.tarry_job_topic(job).decode(), "id": so.tarry_job_id(job).decode(), "lease": so.tarry_job_lease(job).decode(),
                "content_type": so.tarry_job_content_type(job).decode() or "application/octet-stream", "state": STATES[so.tarry_job_state(job)],
                "attempt": so.tarry_job_attempt(job), "delivery": so.tarry_job_delivery(job), "due_ms": so.tarry_job_due_ms(job),
                "bytes": ctypes.string_at(body, count.value)}

    def take(self, topics, most=1, wait_ms=0, lease_ms=0):
        names = (c_char_p * len(topics))(*(topic.encode() for topic in topics))
        take = Take(max=most, topics=names, topic_count=len(topics), lease_ms=lease_ms)
        with self._jobs(lambda jobs, count: self.so.tarry_take(self.handle, byref(take), c_int64(wait_ms), jobs, count), most) as jobs:
            return jobs

    def list(self, topic, state=0, limit=BATCH_MAX, cursor="", flags=0):
        """(jobs, the next cursor)."""
        asked = List(topic=topic.encode(), state=state, limit=limit, cursor=cursor.encode(), flags=flags)
        with self._jobs(lambda jobs, count: self.so.tarry_list(self.handle, byref(asked), jobs, count), limit) as jobs:
            return jobs, asked.cursor.decode()

    def get(self, topic, ident):
        job = c_void_p()
        self._check(self.so.tarry_get(self.handle, topic.encode(), ident.encode(), byref(job)))
        shown = self._shown(job)
        self.so.tarry_job_free(job)
        return shown

    # ---- export and import ----

    def transfer(self, verb, path, **options):
        """(code, output); verb: export, import."""
        with open(path, "wb" if verb == "export" else "rb") as file:
            reported = Transfer(fd=file.fileno(), **options)
            return self.library.code(getattr(self.so, "tarry_" + verb)(self.handle, byref(reported))), reported

    # ---- topics ----

    def put_topic(self, topic, **settings):
        return self._check(self.so.tarry_topic_put(self.handle, topic.encode(), byref(Settings(**settings))), "created")

    def pause(self, topic):
        self._check(self.so.tarry_topic_pause(self.handle, topic.encode(), c_int64(0)))

    def resume(self, topic):
        self._check(self.so.tarry_topic_resume(self.handle, topic.encode()))

    def topic(self, topic):
        reported = Topic()
        self._check(self.so.tarry_topic_get(self.handle, topic.encode(), byref(reported)))
        return reported
