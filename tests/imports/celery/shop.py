"""shop.py REDIS-URL SCRIPT FROM...: an application of Celery with a schedule of its own and entries of redbeat. Runs the script of docs/schedules.md with it as `app`, then
prints the next fires after each moment as Celery computes them."""

import datetime
import json
import sys

from celery import Celery
from celery.schedules import crontab
from redbeat import RedBeatSchedulerEntry
from redbeat.schedules import rrule

url, script, *moments = sys.argv[1:]
app = Celery("shop", broker=url)
app.conf.timezone = "Europe/Berlin"
app.conf.redbeat_redis_url = url
app.conf.beat_schedule = {
    "nightly report": {"task": "shop.report", "schedule": crontab(minute=30, hour=2), "args": (1, "a"), "kwargs": {"kind": "daily"}},
    "lists": {"task": "shop.lists", "schedule": crontab(minute=[0, 30], hour={1, 13}, day_of_week="mon-fri")},
    "both-days": {"task": "shop.days", "schedule": crontab(minute="*/15", hour="8-10", day_of_month="1-7,15", day_of_week="sun")},
    "weekly": {"task": "shop.weekly", "schedule": crontab(minute=0, hour=9, day_of_week=0)},
    "poll": {"task": "shop.poll", "schedule": 30.0},
    "delta": {"task": "shop.delta", "schedule": datetime.timedelta(minutes=2)},
    "monthly": {"task": "shop.monthly", "schedule": rrule("MONTHLY")},
}
RedBeatSchedulerEntry("stored", "shop.stored", crontab(minute="0", hour="*/6"), args=[7], app=app).save()

with open(script, encoding="utf-8") as file:
    exec(compile(file.read(), script, "exec"), {"app": app})  # noqa: S102

fires = {}
for name, entry in {**app.conf.beat_schedule, "stored": {"schedule": crontab(minute="0", hour="*/6", app=app)}}.items():
    when = entry["schedule"]
    if not isinstance(when, crontab):
        continue
    fires[name.replace(" ", "-")] = found = []
    for start in moments:
        now, some = datetime.datetime.fromtimestamp(int(start) / 1000, app.timezone), []
        for _ in range(12):
            last = now
            when.nowfun = lambda at=last: at
            remaining = when.remaining_delta(last)
            now = (remaining[0] + remaining[1]) if isinstance(remaining, tuple) else last + remaining
            some.append(round(now.timestamp() * 1000))
        found.append(some)
print(json.dumps(fires))
