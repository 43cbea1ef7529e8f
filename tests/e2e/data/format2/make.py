"""Makes format2.tar.gz: a data directory as the release with format 2 left it. How to run it: README.md."""

import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from server import BINARY, Server  # noqa: E402

FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
FAR = "2035-01-01T00:00:00Z"
BODY = b"a long text that is packed well. " * 4500  # about 145 KiB: 80 of them need three files of the log


def furnish(client):
    client.put_topic("orders", max_attempts=3, lease_for="24h", dedup_window="3000d")
    client.put_topic("mails", max_attempts=1, lease_for="24h")
    client.put_topic("empty", priority=3)
    for number in range(80):
        client.push("orders", f"big-{number}", BODY, at=FAR)
    client.push("orders", "by-clock", b"{}", content_type="application/json", at=FAR, priority=7, meta={"who": "me"})
    client.push("orders", "by-delay", b"\0\xff", content_type="application/x-bytes", delay="3000d")
    client.push("orders", "retrying", b"again")
    client.nack(client.take("orders")[0]["lease"], error="not yet", delay="3000d")
    client.push("orders", "remembered", b"done")
    client.ack(client.take("orders")[0]["lease"])
    client.push("orders", "cancelled", b"x", at=FAR)
    client.cancel("orders", "cancelled")
    client.push("orders", "moved", b"x", delay="1h")
    client.reschedule("orders", "moved", at=FAR)
    client.push("mails", "dead", b"no")
    client.nack(client.take("mails")[0]["lease"], error="no use")
    client.push("mails", "leased", b"held")
    assert client.take("mails")[0]["id"] == "leased"
    client.push("quiet", "ready", b"r")
    client.topic_verb("quiet", "pause")


def main(scratch, into):
    print("made with", BINARY)
    server = Server(scratch, FLAGS).start()
    furnish(server.client())
    server.restart("kill")
    assert server.terminate() == 0
    with tarfile.open(into, "w:gz", compresslevel=9) as archive:
        archive.add(server.data, "data", filter=lambda about: (setattr(about, "uid", 0), setattr(about, "gid", 0), about)[-1])


if __name__ == "__main__":
    main(*sys.argv[1:])
