"""Manual pages and completions are made of the tables of the help: nothing is in one that is not in the other."""

import functools
import os
import re
import subprocess

import pytest
import yaml
from server import BINARY, REPO, eventually
from ways_in import cli_commands


def tarry(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=30, check=False)


@functools.cache
def printed(*args):
    done = tarry(*args)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def options(command):
    """Names of the options that `tarry help COMMAND` lists, without --help."""
    listed = printed("help", command).split("\noptions:\n")[1]
    return [name for name in re.findall(r"^  --([a-z-]+)", listed, re.MULTILINE) if name != "help"]


def page(name):
    """The page as plain text, by only the requests that tarry uses."""
    text = printed("help", "--man", name).replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\")
    return re.sub(r"\\f[BIR]", "", text)


def test_the_page_of_the_program_has_every_command_and_option():
    sections = dict(re.findall(r"^\.SS (\S+)\n(.*?)(?=^\.S[SH] )", page("tarry"), re.MULTILINE | re.DOTALL))
    assert list(sections) == cli_commands() and len(sections) > 20
    for command, text in sections.items():
        assert re.findall(r"^\.TP\n--([a-z-]+)", text, re.MULTILINE) == options(command), command
        assert text.startswith(f".B tarry {command}")


def test_the_page_of_the_configuration_has_every_key():
    keys = re.findall(r"^\.TP\n([a-z-]+) = ", page("tarry.conf"), re.MULTILINE)
    assert keys == [name for name in options("serve") if name not in ("config", "check")] and len(keys) > 15


def test_each_command_has_a_page_with_its_options():
    for command in cli_commands():
        text = page(f"tarry-{command}")
        assert text.startswith(f".TH tarry-{command} 1 ") and f".SH SYNOPSIS\n.B tarry {command}" in text
        found = re.findall(r"^\.TP\n--([a-z-]+)", text, re.MULTILINE)
        assert [name for name in found if name != "help"] == options(command), command


def test_the_configuration_of_the_package_has_every_key_with_its_default():
    """Commented out they show the default, or an example if there is no default."""
    conf = (REPO / "packaging/tarry.conf").read_text(encoding="utf-8")
    shown = re.findall(r"^(?:# )?([a-z-]+) = (.*)$", conf, re.MULTILINE)
    names = [name for name in options("serve") if name not in ("config", "check")]
    assert not set(names) - {name for name, _ in shown}, "add them to packaging/tarry.conf"
    assert not {name for name, _ in shown} - set(names)
    for name, default in re.findall(r"^  --([a-z-]+)[^\n(]*\(([^)]+)\)$", printed("help", "serve"), re.MULTILINE):
        answer = [value for key, value in shown if key == name]
        assert name in ("data", "listen", "store", "shards") or default in answer, f"{name} = {default}"


def test_pages_are_without_a_fault_for_mandoc_and_groff():
    for name in ["tarry", "tarry.conf", *(f"tarry-{command}" for command in cli_commands())]:
        text = printed("help", "--man", name)
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=text, capture_output=True, text=True, timeout=30, check=False)
        faults = [line for line in done.stdout.splitlines() if "missing date" not in line]  # two builds are to be the same
        assert not faults, (name, faults)


@pytest.fixture
def orders(server):
    """A server with the topics mails and orders."""
    for topic in ("mails", "orders"):
        server.cli("push", topic, "a", "--body", "x")
    return server


def offered(shell, script, url):
    """The completions of another shell, without the user's own files."""
    environment = {"PATH": path_with_tarry(), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "TERM": "dumb", "TARRY_URL": url}
    done = subprocess.run([*shell, script], input=printed("help", "--completion", shell[0]), capture_output=True, text=True, timeout=60, check=False,
                          env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough("needs fish")
def test_fish_offers_commands_options_and_values(orders):
    def completions(line):
        return [word.split("\t")[0] for word in offered(["fish", "--no-config", "-c"], f"source -; complete -C '{line}'", orders.url).splitlines()]
    assert set(cli_commands()) <= set(completions("tarry "))
    assert completions("tarry pu") == ["purge", "push"]
    assert "--on-conflict" in completions("tarry push --on")
    assert {"show", "set"} <= set(completions("tarry topic s"))
    assert {"retrying", "ready"} <= set(completions("tarry list orders --state re"))
    eventually(lambda: {"mails", "orders"} <= set(completions("tarry push ")))  # within 2 s, or nothing is offered
    assert completions("tarry topic set orders max_") == ["max_attempts=", "max_jobs="]
    assert {"replace", "keep"} <= set(completions("tarry push orders --on-conflict "))


@pytest.mark.thorough("needs zsh")
def test_zsh_offers_commands_options_and_values(tmp_path, orders):
    """Completes in a terminal, the only place where zsh does: types a line and two tabs, waits for a word, and returns the screen."""
    (tmp_path / "_tarry").write_text(printed("help", "--completion", "zsh"), encoding="utf-8")
    def screen(line, word):
        script = f"""
zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z "PS1=; fpath=({tmp_path} \\$fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' list-prompt ''; LISTMAX=1000; print REA''DY"
zpty -r z text '*REA*DY*READY*'
zpty -w -n z $'{line}\t\t'
zpty -r z text '*{word}*'; print -r -- $text
zpty -w z $'\x15 print EN''D'
while zpty -r z text; do print -r -- $text; [[ $text != *END* ]] || break; done
"""
        environment = {"PATH": path_with_tarry(), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TERM": "dumb", "TARRY_URL": orders.url}
        return subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, timeout=60, check=True, env=environment).stdout
    seen = screen("tarry ", "topics")
    assert all(command in seen for command in ("push", "take", "serve")), seen
    assert "resume" in screen("tarry schedule ", "backfill")
    for line, word in (("tarry push --on-c", "--on-conflict"), ("tarry list orders --state ", "retrying"), ("tarry push ", "orders"),
                       ("tarry topic set orders max_", "max_attempts="), ("tarry push orders --on-conflict ", "replace")):
        assert word in screen(line, word)


@pytest.mark.parametrize("name", ["tarry", "tarry.conf", "tarry-push", "tarry-fsck", "tarry-topic"])
def test_a_page_has_a_head_and_no_stray_requests(name):
    text = printed("help", "--man", name)
    written = name.replace("-", "\\-")
    assert text.startswith(f".TH {written} ") and f"\n.SH NAME\n{written} \\- " in text
    requests = set(re.findall(r"^[.']([^ \n]*)", text, re.MULTILINE))
    assert requests <= {"TH", "SH", "SS", "TP", "PP", "B", "I", "BI", "BR", "IB", "RI", "nf", "fi", "br"}, requests
    assert text.count("\n.nf\n") == text.count("\n.fi\n")


def path_with_tarry():
    return f"{BINARY.resolve().parent}:{os.environ['PATH']}"


def completed(*words, url="http://127.0.0.1:1", **variables):
    """The completions of bash for the last word."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tarry; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", "/dev/stdin", "tarry", *words], input=printed("help", "--completion", "bash"),
                          capture_output=True, text=True, timeout=30, check=True, env={"PATH": path_with_tarry(), "TARRY_URL": url, **variables})
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_and_their_options():
    assert completed("pu") == ["push", "purge"]
    assert completed("push", "--on") == ["--on-conflict", "--once", "--once-for", "--on-dead"]
    assert completed("topic", "s") == ["show", "set"]
    assert completed("schedule", "re") == ["resume"]
    assert completed("clock", "") == ["show", "advance", "reset"]
    assert completed("help", "fs") == ["fsck"]
    assert completed("push", "a-topic", "pu") == []
    assert sorted(completed("")) == sorted([*cli_commands(), "--help", "--version"])
    for command in cli_commands():
        assert set(completed(command, "-")) == {"--help", *(f"--{name}" for name in options(command))}, command


def test_bash_completes_topics_values_and_settings(orders):
    server = orders
    topics = ["mails", "orders"]
    for words in (["push", ""], ["push", "--delay", "1h", ""], ["topic", "show", ""], ["deliver", "test", ""], ["tail", "orders", ""], ["work", ""], ["topics", ""], ["purge", ""]):
        assert completed(*words, url=server.url) == topics, words
    assert completed("push", "or", url=server.url) == ["orders"]
    assert completed("push", "orders", "", url=server.url) == []
    assert completed("push", "--url", server.url, "") == topics
    assert completed("push", "") == []
    assert completed("list", "orders", "--state", "re") == ["retrying", "ready"]
    assert completed("push", "orders", "--on-conflict", "") == ["replace", "keep", "reject", "after"]
    assert completed("push", "orders", "--on-dead", "") == ["go", "hold", "stop"]
    assert completed("members", "orders", "a", "--outcome", "") == ["unfinished", "acked", "dead", "cancelled", "expired"]
    assert completed("topics", "--sort", "d") == ["delayed", "dead"]
    assert completed("topic", "set", "orders", "max_") == ["max_attempts=", "max_jobs="]


def test_bash_completes_profiles_and_the_topics_of_a_profile(tmp_path, orders):
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    for name, url in (("prod", orders.url), ("test", "http://127.0.0.1:1")):
        subprocess.run([BINARY, "profile", "add", name, "--url", url], env={**os.environ, **home}, capture_output=True, timeout=30, check=True)
    assert completed("topics", "--profile", "", **home) == completed("profile", "remove", "", **home) == ["prod", "test"]
    assert completed("topics", "--profile", "p", **home) == ["prod"]
    for words, variables in ((["push", "--profile", "prod", ""], {}), (["push", ""], {"TARRY_PROFILE": "prod"})):
        eventually(lambda: completed(*words, **home, **variables) == ["mails", "orders"])  # noqa: B023
    assert completed("push", "--profile", "test", "", url=orders.url, **home) == []


def test_completions_have_each_setting_of_the_api():
    properties = yaml.safe_load((REPO / "openapi.yaml").read_text(encoding="utf-8"))["components"]["schemas"]["settings"]["properties"]
    assert set(properties) - {"deliver", "dead_letter", "sqs"} <= {name.rstrip("=") for name in completed("topic", "set", "orders", "")}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completions_of_other_shells_are_complete(shell):
    text = printed("help", "--completion", shell)
    for command in cli_commands():
        for name in options(command):
            mark = rf"--{name}\b" if shell == "zsh" else rf"from {command}' -l {name}\b"
            assert re.search(mark, text), f"{command} --{name}"
        assert re.search(rf"'{command}:" if shell == "zsh" else rf"-a {command}\b", text)


@pytest.mark.parametrize("args, why", [(("--man", "tary"), "no manual page 'tary'"), (("--completion", "csh"), "no completion for 'csh'")])
def test_unknown_topics_of_the_manual_are_rejected_by_name(args, why):
    done = tarry("help", *args)
    assert done.returncode == 2 and why in done.stderr
