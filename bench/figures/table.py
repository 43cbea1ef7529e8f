"""The table of figures: what was reached, and what was to be reached."""


def ratio(results, piece, name, other):
    row = results.get(piece, {})
    if name not in row or other not in row or not row[other]["median"]:
        return None
    return row[name]["median"] / row[other]["median"]


def value(results, piece, name="tarry"):
    return results.get(piece, {}).get(name, {}).get("median")


# piece, what, target in words, how to get the figure, how to judge it, how to write it
AIMS = (
    ("push", "push, 8 connections 64 deep", "≥ 2.5 × beanstalkd without log",
     lambda r: ratio(r, "push", "tarry", "beanstalkd"), lambda x: x >= 2.5, "{:.2f} ×"),
    ("push", "", "≥ 50 × beanstalkd with a sync per put",
     lambda r: ratio(r, "push", "tarry", "beanstalkd-sync"), lambda x: x >= 50, "{:.1f} ×"),
    ("single", "push, 64 connections 1 deep", "≥ 1 × beanstalkd without log",
     lambda r: ratio(r, "single", "tarry", "beanstalkd"), lambda x: x >= 1, "{:.2f} ×"),
    ("batch", "push in batches of 100", "≥ 500,000/s", lambda r: value(r, "batch"), lambda x: x >= 500_000,
     "{:,.0f}/s"),
    ("life", "whole life, take by 100", "≥ 3 × beanstalkd without log",
     lambda r: ratio(r, "life", "tarry", "beanstalkd"), lambda x: x >= 3, "{:.2f} ×"),
    ("late", "lateness p99, 10,000/s, 1 M pending", "≤ 2 ms", lambda r: value(r, "late"), lambda x: x <= 2,
     "{:.2f} ms"),
    ("late", "", "never early", lambda r: sum(run["early"] for run in r["late"]["tarry"]["runs"])
     if "tarry" in r.get("late", {}) else None, lambda x: x == 0, "{} early"),
    ("ram", "memory, 10 M pending", "≤ 100 bytes a job", lambda r: value(r, "ram"), lambda x: x <= 100,
     "{:.1f} bytes"),
    ("idle", "idle server, 10 s", "no wake-ups", lambda r: value(r, "idle"), lambda x: x == 0, "{} switches"),
)


def medians(results, pieces):
    """One line a piece, with the median of each server."""
    for name, row in results.items():
        yield f"{name}: {pieces[name].__doc__}"
        for server, figure in row.items():
            median = figure["median"]
            yield f"    {server:18}{median:>14,.0f}" if median >= 1000 else f"    {server:18}{median:>14.4g}"


def aims(results):
    """The aims that could be judged: what, target, reached, yes or no."""
    for piece, what, target, get, judge, form in AIMS:
        figure = get(results) if piece in results else None
        if figure is not None:
            yield {"what": what or piece, "target": target, "reached": form.format(figure), "holds": judge(figure)}


def print_table(results, pieces):
    print()
    for line in medians(results, pieces):
        print(line)
    rows = list(aims(results))
    if rows:
        print(f"\n{'figure':38}{'to reach':40}{'reached':>16}")
    for row in rows:
        print(f"{row['what']:38}{row['target']:40}{row['reached']:>16}  {'yes' if row['holds'] else 'NO'}")
