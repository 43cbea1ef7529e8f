"""TARRY_TEST_CLIENT=python,go picks languages; without it all are tested."""

import os


def chosen(names):
    """The names that are to be tested."""
    wanted = os.environ.get("TARRY_TEST_CLIENT")
    return [name for name in names if wanted is None or name in wanted.split(",")]
