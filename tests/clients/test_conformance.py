"""Each client plays each scenario of clients/conformance, against the server that TARRY_BIN names. Compiled clients are built first. A missing
language is reported as not run.

TARRY_TEST_CLIENT=python picks one, see languages.py.
"""

import functools
import os
import subprocess
import sys
import types

import languages
import pytest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "clients", "conformance")]

import adapters  # noqa: E402
import run  # noqa: E402

CLIENTS = [name for name in languages.chosen(adapters.ADAPTERS) if adapters.folder(name).exists()]


@functools.cache
def built(client):
    """Returns None, or the reason why the client cannot be tested."""
    if lacking := adapters.lacking(client):
        return f"not run: the client '{client}', {', '.join(lacking)} is not installed"
    if client in adapters.BUILD:
        subprocess.run(adapters.BUILD[client], cwd=adapters.folder(client), check=True, timeout=600)
    return None


@pytest.mark.parametrize("scenario", run.USUAL)
@pytest.mark.parametrize("client", CLIENTS)
def test_plays(client, scenario):
    if why := built(client):
        pytest.skip(why)
    if run.SCENARIOS[scenario].get("clock_ahead_s") and not run.has_fake_clock():
        pytest.skip("not run: faketime is not installed")
    fault = run.play(client, scenario)
    assert fault is None, fault


def judged(kills_s=(), away_ms=0, leases_ms=(), attempts=(1, 1, 1), **began_s):
    """A play in which these jobs began at these times, without a server."""
    play = run.Play.__new__(run.Play)
    events = [{"event": "began", "id": one, "at_s": at, "attempt": attempt} for one, times in began_s.items() for at, attempt in zip(times, attempts)]
    play.adapter, play.kills_s, play.notes = types.SimpleNamespace(events=events), list(kills_s), []
    play.away_ms, play.leases_ms = away_ms, list(leases_ms)
    return play


def test_a_job_may_repeat_only_if_it_was_taken_during_a_kill():
    play = judged(kills_s=[2.0, 5.0], beside=(2.01, 4.1), between=(4.1, 4.2), thrice=(2.01, 3.0, 4.1), both=(1.9, 4.99, 6.0))
    assert [play._was_forgotten(*one) for one in (("beside", 2), ("between", 2), ("thrice", 3), ("both", 3), ("beside", 3))] == [True, False, False, True, False]
    assert play.notes == ["'beside', taken as the server was killed, came again", "'both', taken as the server was killed, came again"]
    assert not judged(kills_s=[4.5], late=(1.0, 5.0))._was_forgotten("late", 2), "the kill came long after the take"
    assert not judged(kills_s=[2.0], attempts=(1, 2), again=(2.01, 4.1))._was_forgotten("again", 2), "the first attempt was not forgotten"


def test_a_run_is_void_if_the_server_was_away_longer_than_a_lease_and_the_grace():
    judged(away_ms=3800, leases_ms=[2000, 60000])._check_absence()
    judged(away_ms=9000)._check_absence()
    with pytest.raises(run.Void):
        judged(away_ms=3801, leases_ms=[2000, 60000])._check_absence()
