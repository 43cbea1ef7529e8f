"""The quick programs of tests/sqs; sqs_clients.py runs all of them."""

import pytest
import sqs_clients


@pytest.mark.plain("the programs know no certificate")
@pytest.mark.parametrize("name", ["javascript", "sqs-consumer"])
def test_a_program_for_sqs_works_unchanged(name, start_server):
    server = start_server("--sqs", f"{sqs_clients.REGION}/{sqs_clients.ACCOUNT}", *sqs_clients.SMALL)
    try:
        sqs_clients.tried(name, server)
    except sqs_clients.NotHere as why:
        pytest.skip(f"{name}: {why}")
