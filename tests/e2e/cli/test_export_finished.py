"""`tarry export --finished`: finished jobs travel to a file with outcome, result and times, from each store."""

import json

import pytest
from migration import OK, REFUSED, USAGE, export, finished_in, finished_jobs_are_exported, lines_of, load, settle_finished, tarry


@pytest.fixture(params=["embedded", "redis"])
def source(request, start_server):
    """The tests of the SQL stores call the first check."""
    if request.param == "embedded":
        return start_server("--shards", "3")
    return start_server("--store", request.getfixturevalue("start_redis")().url)


def test_finished_jobs_are_exported_with_outcome_result_and_times(source):
    finished_jobs_are_exported(source)


def test_without_the_option_no_finished_job_is_exported(source):
    settle_finished(source.client())
    dump = export(source)
    assert not finished_in(dump) and lines_of(dump)[0]["jobs"] == 2 and lines_of(dump)[-1] == {"tarry_export_end": 1, "topics": 2, "jobs": 2}


def test_an_import_skips_finished_jobs_with_one_message_and_keeps_them_among_the_rejects(source, start_server, tmp_path):
    settle_finished(source.client())
    dump, target, rejects = export(source, "--finished"), start_server(), tmp_path / "rejects"
    err = load(target, dump, "--rejects", str(rejects), code=REFUSED)
    assert err.count("finished_job, an import cannot store finished jobs; all of them are skipped") == 1
    assert "imported 2 jobs: 2 created, 0 replaced, 0 existed; 3 refused, of which 3 finished\n" in err
    assert {json.loads(line)["id"] for line in rejects.read_text().splitlines()} == {"bytes", "none", "cancelled"}
    assert [job["id"] for job in target.client().list("sums")["jobs"]] == ["live"] and target.client().topic("sums")["counts"]["finished"] == 0
    again = load(target, dump, code=REFUSED)
    assert "imported 2 jobs: 0 created, 0 replaced, 2 existed; 3 refused, of which 3 finished\n" in again


@pytest.mark.parametrize("source", ["embedded"], indirect=True)
def test_an_export_with_finished_jobs_is_continued_anywhere(source, tmp_path):
    """Each beginning of the file is continued: no finished job is missing, whatever part of it was written."""
    client = source.client()
    client.put_topic("sums", keep_finished="1h")
    for at in range(1500):
        client.push("sums", f"job-{at}")
    while jobs := client.take("sums", max=100):
        client.ack(*(job["lease"] for job in jobs))
    client.push("sums", "live", delay="1h")
    whole = export(source, "--finished").splitlines(keepends=True)
    assert len(finished_in(b"".join(whole))) == 1500
    cursors = [at for at, line in enumerate(whole) if b'"cursor"' in line]
    assert len(cursors) == 2  # where finished jobs begin, and after a page of them
    for cut in (1, 2, cursors[0], cursors[0] + 1, cursors[0] + 500, cursors[1] + 1, cursors[1] + 200, len(whole) - 1):
        path = tmp_path / f"cut-{cut}"
        path.write_bytes(b"".join(whole[:cut]))
        tarry(source, "export", "--output", str(path), "--resume")
        lines = lines_of(path.read_bytes())
        assert len({line["id"] for line in lines if line.get("outcome")}) == 1500, cut
        assert lines[-1]["finished"] == sum("outcome" in line for line in lines) and lines[-1]["jobs"] == 1, cut


@pytest.mark.parametrize("source", ["embedded"], indirect=True)
def test_missing_finished_jobs_are_noticed(source, start_server):
    settle_finished(source.client())
    lines = [line for line in export(source, "--finished").splitlines(keepends=True) if b'"none"' not in line]
    err = load(start_server(), b"".join(lines), code=REFUSED)
    assert "its end line has 3 finished jobs, but the file has 2" in err


@pytest.mark.parametrize("source", ["embedded"], indirect=True)
def test_the_choice_is_in_the_file_and_not_repeated(source, tmp_path):
    path = str(tmp_path / "dump")
    settle_finished(source.client())
    out, err = tarry(source, "export", "--finished", "--output", path, "--json", code=OK)
    assert json.loads(out) == {"jobs": 2, "finished": 3, "topics": 2} and "exported 2 jobs and 3 finished jobs of 2 topics" in err
    assert "leave '--finished' out" in tarry(source, "export", "--finished", "--output", path, "--resume", code=USAGE)[1]
