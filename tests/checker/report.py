"""All rules over one history, and the report: counts with their bounds. No failure in n trials means fewer than 3/n at 95 %."""

import json

from .history import History, Malformed
from .rules_counts import acked_pushes, counts_add_up, state_survives
from .rules_keep import no_loss, no_phantom, one_job_per_id, stays_finished
from .rules_lease import attempts_count, named_causes, numbers_fence, one_holder
from .rules_results import results_stay
from .rules_time import lateness, never_early
from .validity import DEFAULTS, lacks

RULES = (no_loss, no_phantom, never_early, stays_finished, one_holder, named_causes, attempts_count, one_job_per_id, counts_add_up,
         state_survives, numbers_fence, lateness, results_stay)
EXIT = {"PASS": 0, "FAIL": 1, "INVALID": 3}
SHOWN = 20


def check(lines, least=None):
    try:
        history = History().read(lines)
    except Malformed as fault:
        return {"result": "INVALID", "lacks": [str(fault)], "rules": {}, "size": {}}
    rules = {}
    for rule in RULES:
        result = rule(history)
        rules[result.rule] = {"text": " ".join(rule.__doc__.split()), "trials": result.trials, "violations": result.violations,
                               "notes": result.notes}
    missing = lacks(history, {**DEFAULTS, **(least or {})})
    failed = any(rule["violations"] for rule in rules.values())
    return {"result": "FAIL" if failed else "INVALID" if missing else "PASS", "lacks": missing, "rules": rules,
            "size": {"calls": history.calls, "pushes": acked_pushes(history), "kills": len(history.kills),
                     "disturbances": len(history.disturbances), "failovers": len(history.failovers),
                     "deliveries": sum(len(key.deliveries) for key in history.keys.values()),
                     "lost_replies": len(history.in_flight)}}


def render(report, as_json=False):
    if as_json:
        return json.dumps(report, indent=1)
    lines = [", ".join(f"{what} {count}" for what, count in report["size"].items())]
    for name, rule in report["rules"].items():
        count = len(rule["violations"])
        bound = f"< {3 / rule['trials']:.1e}" if rule["trials"] and not count else ""
        notes = ", ".join(f"{what} {value}" for what, value in sorted(rule["notes"].items()))
        lines.append(f"{name}  {rule['trials']:>8} trials  {count:>4} violations  {bound:<10} {notes}")
        lines += [f"     {sentence}" for sentence in rule["violations"][:SHOWN]]
        if count > SHOWN:
            lines.append(f"     … and {count - SHOWN} more")
    lines += [f"lacks: {sentence}" for sentence in report["lacks"]]
    return "\n".join(lines + [report["result"]])
