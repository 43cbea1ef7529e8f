"""
Each client plays each scenario of clients/conformance, against the server that TARRY_BIN names. What is compiled is built first. A language
that is not here is named as not run.

TARRY_TEST_CLIENT=python picks one.
"""

import functools
import os
import subprocess
import sys

import pytest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "..", "clients", "conformance")]

import adapters  # noqa: E402
import run  # noqa: E402

CLIENTS = [name for name in adapters.ADAPTERS if os.environ.get("TARRY_TEST_CLIENT") in (None, name) and adapters.folder(name).exists()]


@functools.cache
def built(client):
    """None, or why the client cannot be tried."""
    if lacking := adapters.lacking(client):
        return f"not run: the client '{client}', {', '.join(lacking)} is not here"
    if client in adapters.BUILD:
        subprocess.run(adapters.BUILD[client], cwd=adapters.folder(client), check=True, timeout=600)
    return None


@pytest.mark.parametrize("scenario", run.USUAL)
@pytest.mark.parametrize("client", CLIENTS)
def test_plays(client, scenario):
    if why := built(client):
        pytest.skip(why)
    if run.SCENARIOS[scenario].get("clock_ahead_s") and not run.has_fake_clock():
        pytest.skip("not run: faketime is not here")
    fault = run.play(client, scenario)
    assert fault is None, fault
