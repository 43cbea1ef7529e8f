"""tarry: a client of the delay queue. A job goes in now and comes out when it is due. docs/clients.md describes the calls."""

from .client import Client
from .codec import AesGcm, ClaimCheck, Codec, CodecError, DirectoryStore, Gzip
from .errors import Conflict, Denied, Full, LeaseEnded, NotFound, Refused, Reject, Retry, TarryError, Unavailable
from .job import BatchPushed, Job, Pushed, Scheduled, new_id
from .signature import BadSignature, verify
from .worker import Worker

__version__ = "1.0.0"
__all__ = [
    "AesGcm",
    "BadSignature",
    "BatchPushed",
    "ClaimCheck",
    "Client",
    "Codec",
    "CodecError",
    "Conflict",
    "Denied",
    "DirectoryStore",
    "Full",
    "Gzip",
    "Job",
    "LeaseEnded",
    "NotFound",
    "Pushed",
    "Refused",
    "Reject",
    "Retry",
    "Scheduled",
    "TarryError",
    "Unavailable",
    "Worker",
    "new_id",
    "verify",
]
