"""libtarry: the delay queue tarry inside a process. A job goes in now and comes out when it is due; docs/bindings-python.md describes the calls."""

from .errors import Closed, Conflict, Forked, Full, LeaseEnded, NotFound, OutOfMemory, Refused, TarryError, Unavailable
from .job import Attempt, Batch, Job, Pushed
from .queue import Queue, open
from .topic import Settings, Topic

__version__ = "1.0.0"
__all__ = [
    "Attempt",
    "Batch",
    "Closed",
    "Conflict",
    "Forked",
    "Full",
    "Job",
    "LeaseEnded",
    "NotFound",
    "OutOfMemory",
    "Pushed",
    "Queue",
    "Refused",
    "Settings",
    "TarryError",
    "Topic",
    "Unavailable",
    "open",
]
