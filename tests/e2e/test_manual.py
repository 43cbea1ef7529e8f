"""Manual pages and completions are made of the tables of the help: nothing is in one that is not in the other."""

import os
import re
import subprocess

import pytest
from server import BINARY


def tarry(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=30, check=False)


def printed(*args):
    done = tarry(*args)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def commands():
    listed = printed("help").split("commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def options(command):
    """Names of the options that `tarry help COMMAND` lists, without --help."""
    listed = printed("help", command).split("\noptions:\n")[1]
    return [name for name in re.findall(r"^  --([a-z-]+)", listed, re.MULTILINE) if name != "help"]


def page(name):
    """The page as plain words, by the requests that tarry uses alone."""
    text = printed("help", "--man", name).replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\")
    return re.sub(r"\\f[BIR]", "", text)


def test_the_page_of_the_program_has_every_command_and_option():
    sections = dict(re.findall(r"^\.SS (\S+)\n(.*?)(?=^\.S[SH] )", page("tarry"), re.MULTILINE | re.DOTALL))
    assert list(sections) == commands() and len(sections) > 20
    for command, text in sections.items():
        assert re.findall(r"^\.TP\n--([a-z-]+)", text, re.MULTILINE) == options(command), command
        assert text.startswith(f".B tarry {command}")


def test_the_page_of_the_configuration_has_every_key():
    keys = re.findall(r"^\.TP\n([a-z-]+) = ", page("tarry.conf"), re.MULTILINE)
    assert keys == [name for name in options("serve") if name != "config"] and len(keys) > 15


@pytest.mark.parametrize("name", ["tarry", "tarry.conf"])
def test_a_page_has_a_head_and_no_stray_requests(name):
    text = printed("help", "--man", name)
    assert text.startswith(f".TH {name} ") and f"\n.SH NAME\n{name} \\- " in text
    requests = set(re.findall(r"^[.']([^ \n]*)", text, re.MULTILINE))
    assert requests <= {"TH", "SH", "SS", "TP", "PP", "B", "I", "BI", "BR", "IB", "RI", "nf", "fi"}, requests
    assert text.count("\n.nf\n") == text.count("\n.fi\n")


def completed(*words):
    """What bash offers for the last of the words."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tarry; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", "/dev/stdin", "tarry", *words], input=printed("help", "--completion", "bash"),
                          capture_output=True, text=True, timeout=30, check=True, env={"PATH": os.environ["PATH"]})
    assert not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_and_their_options():
    assert completed("pu") == ["push", "purge"]
    assert completed("push", "--on") == ["--on-conflict"]
    assert completed("topic", "s") == ["show", "set"]
    assert completed("help", "fs") == ["fsck"]
    assert completed("push", "a-topic", "pu") == []
    assert sorted(completed("")) == sorted([*commands(), "--help", "--version"])
    for command in commands():
        assert set(completed(command, "-")) == {"--help", *(f"--{name}" for name in options(command))}, command


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_every_command_and_option(shell):
    text = printed("help", "--completion", shell)
    for command in commands():
        for name in options(command):
            mark = rf"--{name}\b" if shell == "zsh" else rf"from {command}' -l {name}\b"
            assert re.search(mark, text), f"{command} --{name}"
        assert re.search(rf"'{command}:" if shell == "zsh" else rf"-a {command}\b", text)


@pytest.mark.parametrize("args, why", [(("--man", "tary"), "no manual page 'tary'"), (("--completion", "csh"), "no completion for 'csh'")])
def test_what_there_is_not_is_refused_by_name(args, why):
    done = tarry("help", *args)
    assert done.returncode == 2 and why in done.stderr
