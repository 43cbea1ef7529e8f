"""A real Prometheus that scrapes servers of a test every half second. Its alert rules are the packaged ones, with minutes made seconds."""

import json
import re
import urllib.parse
import urllib.request

from child import Child
from server import REPO

RULES = REPO / "packaging" / "prometheus" / "tarry.rules.yml"
# The delay of an alert, its time range, and its thresholds: as packaged, and in a test.
QUICK = [(r"for: \w+", "for: 0s"), (r"\[(2m|5m|10m|15m)\]", "[6s]"), (r"(age_seconds\)) > 60\b", r"\1 > 2"), (r"(\[6s\]\)\)) > 10\b", r"\1 > 0.5")]


def quick_rules():
    text = RULES.read_text(encoding="utf-8")
    for packaged, quick in QUICK:
        assert re.search(packaged, text), packaged
        text = re.sub(packaged, quick, text)
    return text


class Prometheus(Child):
    NAME = "prometheus"

    def __init__(self, ports):
        """`ports`: of the servers on this machine that it asks."""
        super().__init__()
        (self.directory / "rules.yml").write_text(quick_rules(), encoding="utf-8")
        (self.directory / "prometheus.yml").write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "tarry", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}],
        }), encoding="utf-8")

    def command(self):
        return ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]

    def is_ready(self):
        return self._ask("/-/ready", parse=False) is not None

    def query(self, expression):
        """[(labels, value)] at this moment."""
        answer = self._ask("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    def firing(self):
        """[labels] of the alerts that fire."""
        return [alert["labels"] for alert in self._ask("/api/v1/alerts")["data"]["alerts"] if alert["state"] == "firing"]

    def runbooks(self):
        """The links of firing alerts."""
        return {alert["labels"]["alertname"]: alert["annotations"]["runbook_url"] for alert in self._ask("/api/v1/alerts")["data"]["alerts"]}

    def targets(self):
        """{instance: last error} of what it scrapes."""
        return {one["labels"]["instance"]: one["lastError"] for one in self._ask("/api/v1/targets")["data"]["activeTargets"]}

    def _ask(self, path, parse=True):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.loads(answer.read()) if parse else answer.read()
