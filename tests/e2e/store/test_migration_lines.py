"""Lines that do not get in, and the calls of the API that export and import are made of."""

import base64
import json

import pytest
from client import Refused
from migration import NOTHING, REFUSED, UNREACHABLE, USAGE, assert_sums_add_up, export, fill, lines_of, load, push_many, source, target, tarry  # noqa: F401, F811: fixtures
from server import eventually, free_port, meanwhile


def test_refused_lines_are_named_and_kept(target, tmp_path):
    rejects = tmp_path / "rejects"
    good = b'{"topic":"t","id":"good","delay":"1h","body":"x"}\n'
    bad = [b"no json", b'{"topic":".t","id":"a"}', b'{"topic":"t","id":"b","attempt":-1}', b'{"topic":"t","id":"c","state":"ready"}',
           b'{"topic":"t","id":"d","on_conflict":"sometimes"}', b"[1]"]
    err = load(target, good + b"\n" + b"\n".join(bad) + b"\n", "--rejects", str(rejects), code=REFUSED)
    assert "1 created" in err and "6 refused" in err
    assert sorted(rejects.read_bytes().splitlines()) == sorted(bad)
    for line, code in ((3, "bad_json"), (4, "bad_topic"), (5, "bad_option"), (6, "bad_option"), (7, "bad_option"), (8, "bad_json")):
        assert f"line {line} refused: {code}" in err, err
    assert target.client().topic("t")["totals"]["pushed"] == 1


def test_a_body_rejected_by_the_target_is_rejected_separately(source, start_server):
    small = start_server("--max-body", "1KiB")
    source.client().push("t", "big", b"x" * 2000, delay="1h")
    source.client().push("t", "small", b"x", delay="1h")
    err = load(small, export(source), code=REFUSED)
    assert "1 created" in err and "refused: body_too_big" in err


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
def test_an_aborted_import_counts_accepted_jobs(target, on_conflict):
    """The server accepts four jobs of the batch, and refuses the others until the waiting time ends."""
    target.client().call("PUT", "/v1/topics/t?max_jobs=4")
    lines = b"".join(b'{"topic":"t","id":"%d","delay":"1h","body":"x"}\n' % number for number in range(10))
    out, err = tarry(target, "import", "--json", "--retry-for", "500ms", "--on-conflict", on_conflict, stdin=lines, code=REFUSED)
    assert json.loads(out) == {"created": 4, "replaced": 0, "existed": 0, "refused": 0}, err
    assert target.client().topic("t")["counts"]["delayed"] == 4
    assert "continue with --skip 0" in err


def test_an_import_counts_a_job_as_created_though_it_was_sent_twice(target):
    """The batch is sent again as a whole once the topic has room."""
    target.client().call("PUT", "/v1/topics/t?max_jobs=4")
    lines = b"".join(b'{"topic":"t","id":"%d","delay":"1h","body":"x"}\n' % number for number in range(10))

    def make_room(_ended):
        eventually(lambda: target.client().topic("t")["counts"]["delayed"] == 4)
        target.client().call("PUT", "/v1/topics/t")

    with meanwhile(make_room):
        out, _ = tarry(target, "import", "--json", stdin=lines)
    assert json.loads(out) == {"created": 10, "replaced": 0, "existed": 0, "refused": 0}


def test_batch_items_of_ones_own_can_be_imported(target):
    load(target, b'{"topic":"t","id":"a","delay":"1h"}\r\n{"topic":"t","delay":"1h","on_conflict":"replace"}')
    assert target.client().topic("t")["counts"]["delayed"] == 2


def test_only_named_topics_are_exported(source, target):
    fill(source)
    dump = export(source, "--topic", "bare", "--topic", "paused")
    assert {line["topic"] for line in lines_of(dump) if "topic" in line} == {"bare", "paused"}
    assert "there is no topic 'nobody'" in tarry(source, "export", "--topic", "nobody", code=NOTHING)[1]


def test_an_export_to_standard_output_has_no_character_that_a_terminal_interprets(source, target):
    hostile = "\u202eb\u2028c\u200fd\u009be\x7f"
    source.client().push("t", "a", json.dumps({"text": hostile}, ensure_ascii=False).encode(), delay="1h", content_type="application/json")
    dump = export(source)
    assert not any(character in dump.decode() for character in hostile if character not in "bcde")
    load(target, dump)
    assert target.client().get("t", "a")["body"] == {"text": hostile}


def test_an_empty_server_exports_and_imports(source, target):
    assert "imported 0 jobs" in load(target, export(source))
    assert target.client().topics() == []


def test_exit_codes(source, tmp_path):
    away = f"http://127.0.0.1:{free_port()}"
    tarry(source, "export", "--url", away, code=UNREACHABLE)
    tarry(source, "import", "--url", away, code=UNREACHABLE)
    tarry(source, "export", "--resume", code=USAGE)
    tarry(source, "import", "--on-conflict", "reject", code=USAGE)
    tarry(source, "import", str(tmp_path / "none"), code=REFUSED)


def test_a_list_shows_bodies_on_request(source):
    client = source.client()
    client.push("t", "j", b'{"a": 1}', content_type="application/json", delay="1h")
    assert "body" not in client.list("t")["jobs"][0] and "body" not in client.list("t", body="false")["jobs"][0]
    assert client.list("t", body="true")["jobs"][0]["body"] == {"a": 1}
    assert base64.b64decode(client.list("t", body="base64")["jobs"][0]["body_base64"]) == b'{"a": 1}'
    with pytest.raises(Refused) as refused:
        client.list("t", body="yes")
    assert refused.value.code == "bad_option"


def test_a_page_with_large_bodies_is_cut_and_the_next_one_continues(start_server):
    for shards in ("1", "3"):
        server = start_server("--shards", shards, "--sync", "never")
        client = server.client()
        for i in range(12):
            client.push("t", f"j{i}", b"x" * (1 << 20), delay="1h")
        page = client.list("t", limit=1000, body="true")
        assert 1 <= len(page["jobs"]) < 12 and page["cursor"]
        seen, cursor = [], None
        while True:
            page = client.list("t", limit=1000, body="true", cursor=cursor)
            seen += [job["id"] for job in page["jobs"]]
            cursor = page["cursor"]
            if not cursor:
                break
        assert sorted(seen) == sorted(f"j{i}" for i in range(12))


def test_a_pushed_past_has_its_limits(source):
    client = source.client()
    rows = client.push_batch([
        {"topic": "t", "id": "a", "attempt": 10**9, "delay": "1h"},
        {"topic": "t", "id": "b", "attempt": 10**9 + 1},
        {"topic": "t", "id": "c", "state": "leased"},
        {"topic": "t", "id": "d", "state": "dead", "error": "\u20ac" * 200},
    ])
    assert [row["result"] for row in rows] == ["created", "bad_option", "bad_option", "created"]
    assert rows[3]["state"] == "dead"
    assert client.get("t", "d")["last_error"] == "\u20ac" * 85  # 256 bytes, and no half character
    with pytest.raises(Refused) as refused:
        client.push("t", "e", attempt=1)
    assert refused.value.code == "unknown_option"
    assert_sums_add_up(source)


def test_an_export_declares_its_content_and_its_end(source):
    push_many(source, 3)
    head, *_, end = lines_of(export(source))
    assert head["tarry_export"] == 1 and head["topics"] == ["t0", "t1", "t2"]
    assert end == {"tarry_export_end": 1, "topics": 3, "jobs": 3}
