"""python3 -m checker HISTORY: exit code 0 PASS, 1 FAIL, 3 INVALID."""

import argparse
import sys

from .report import EXIT, check, render
from .validity import DEFAULTS


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="checker", description=__doc__)
    parser.add_argument("history", help="NDJSON; - reads standard input")
    parser.add_argument("--json", action="store_true", help="the report for programs")
    for name, least in DEFAULTS.items():
        parser.add_argument(f"--min-{name}", type=int, default=least, help=f"INVALID below (default {least})")
    chosen = parser.parse_args(arguments)
    least = {name: getattr(chosen, "min_" + name) for name in DEFAULTS}
    if chosen.history == "-":
        report = check(sys.stdin, least)
    else:
        with open(chosen.history, encoding="utf-8") as lines:
            report = check(lines, least)
    print(render(report, as_json=chosen.json))
    return EXIT[report["result"]]


sys.exit(main())
