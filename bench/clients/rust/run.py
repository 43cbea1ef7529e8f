#!/usr/bin/env python3
"""tarry's Rust worker beside apalis on Redis: bench/clients/rust/run.py [--jobs N] [--rounds N]. Cargo fetches apalis."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from beside import REPO, compare  # noqa: E402

TARGET = REPO / "build-bench" / "rust"
PROGRAM = TARGET / "release" / "bench"

subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=HERE, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}, check=True)
compare({name: ([PROGRAM, name, "push", "{jobs}"], [PROGRAM, name, "work"]) for name in ("tarry", "apalis")}, HERE)
