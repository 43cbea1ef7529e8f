#!/usr/bin/env python3
"""tarry's Ruby worker beside Sidekiq on Redis: bench/clients/ruby/run.py [--jobs N] [--rounds N]. Needs Debian's ruby-sidekiq."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from beside import REPO, compare  # noqa: E402

THREADS = "10"  # the default of Sidekiq 6.4
compare({
    "tarry": (["ruby", "with_tarry.rb", "push", "{jobs}"], ["ruby", "with_tarry.rb", "work", THREADS]),
    "tarry, 100 threads": (["ruby", "with_tarry.rb", "push", "{jobs}"], ["ruby", "with_tarry.rb", "work", "100"]),
    "sidekiq": (["ruby", "with_sidekiq.rb", "{jobs}"], ["sidekiq", "-r", "./with_sidekiq.rb", "-c", THREADS, "-e", "production"]),
}, HERE, {"RUBYLIB": str(REPO / "clients" / "ruby" / "lib")})
