"""The meter of plain English finds what it looks for, and nothing in plain sentences."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("prose", str(ROOT / "scripts/prose"))
prose = importlib.util.module_from_spec(importlib.util.spec_from_loader("prose", loader))
loader.exec_module(prose)

BAD = {
    "A full disk is told of by an alert.": ["tell"],
    "What it may call is said by a file of yours, without which it calls nobody.": ["say", "nobody", "what"],
    "Where it was asked for, the file is made anew.": ["nobody", "where"],
    "This is no token that the server knows.": ["is no"],
    "None of them was lost, or none is counted.": ["nobody", "nobody"],
    "'x' has not the scope.": ["is no"],
    "He waits until his lease ends.": ["he", "he"],
    "Other addresses want TLS.": ["know"],
    "A change of the clock is heard of by the shard.": ["know"],
    "The rule stands in the policy file.": ["stand"],
    "Those that are not that far yet.": ["what"],
    "The oldest handshake gives way.": ["idiom"],
    "The lease is over.": ["idiom"],
    "Unix sockets are listed, too.": ["alone"],
    "The server listens on loopback alone.": ["alone"],
}

GOOD = [
    "Pull or push. Workers fetch jobs over HTTP, or tarry delivers each job.",
    "A policy file lists the hosts that tarry may call. Without a policy file it calls no host.",
    "If the option is set, the server recreates the file.",
    "There is no job with this id.",
    "The directory where the log is stored must be on a local disk.",
    "What happens if the disk is full?",
    "The consumer keeps its lease for 30 seconds.",
    "The lease is no longer valid.",
    "Attempts before the job is dead: 1 to 10000, or none (unlimited).",
    "Write 'none' to remove the setting.",
    "The log can tell apart two servers of one store.",
]


def habits(text):
    _, counts, _ = prose.measure([(ROOT, [(1, text)])])
    return sorted(counts.elements())


@pytest.mark.parametrize("text", BAD)
def test_finds_each_habit(text):
    assert habits(text) == sorted(BAD[text])


@pytest.mark.parametrize("text", GOOD)
def test_accepts_plain_sentences(text):
    assert habits(text) == []


def test_every_habit_has_an_example():
    assert {name for names in BAD.values() for name in names} == set(prose.HABITS)


def test_ignores_code_and_addresses():
    assert habits(prose.plain("Run `tarry tell`.\n\n```sh\nwhere it is said\n```\nSee [the page](https://x/told).\n")) == []


def test_counts_comments_that_begin_without_a_noun_or_verb(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("/* Returns the sum. */\nint sum(int a)\n{\n}\n\n/* Those that are due. */\nstruct due {\n};\n\n/* Not above a definition. */\n\n#define A 1\n")
    count, bad = prose.openers([source])
    assert count == 2
    assert [(line, text) for _, line, text in bad] == [(6, "Those that are due.")]


def test_reports_places_by_file_and_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nA good line.\nThe alert tells of it.\n")
    _, _, lines = prose.measure([(page, prose.texts_of(page))])
    assert [(line, names) for _, line, names, _ in lines] == [(4, ["tell"])]


def test_reads_console_words_in_english_only(tmp_path):
    words = tmp_path / "words.js"
    words.write_text("export const WORDS = {\n  pause: ['Pause the topic now', '现在暂停主题 told'],\n  b: \"nobody takes any\",\n};\n")
    assert [body for _, body in prose.english_of(words)] == ["Pause the topic now", "nobody takes any"]


def names_of(path):
    return [(line, name, bool(prose.NAME_HABIT.search(name))) for _, line, name in prose.test_names([path])]


def test_reads_names_of_python_tests(tmp_path):
    source = tmp_path / "test_a.py"
    source.write_text("def test_what_is_no_id_is_refused():\n    pass\n\n\nasync def test_rejects_invalid_ids():\n    pass\n\n\ndef helper_told():\n    pass\n")
    assert names_of(source) == [(1, "what_is_no_id_is_refused", True), (5, "rejects_invalid_ids", False)]


def test_reads_names_of_c_tests(tmp_path):
    source = tmp_path / "test_a.c"
    source.write_text("static void one_that_goes_alone_goes_alone(void **state)\n{\n}\n\nstatic void single_push_is_not_batched(void **state)\n{\n}\n\n"
                      "static void nobody_helper(int told)\n{\n}\n")
    assert names_of(source) == [(1, "one_that_goes_alone_goes_alone", True), (5, "single_push_is_not_batched", False)]


@pytest.mark.parametrize("name", ["a_full_disk_is_told_once", "the_wait_is_over", "a_secret_is_no_token", "it_goes_on_where_it_was", "a_key_for_its_topics_alone",
                                  "a_missing_table_is_written_anew", "who_waits_gets_the_job", "jobs_that_nobody_takes"])
def test_finds_habits_in_names_of_tests(name):
    assert prose.NAME_HABIT.search(name)


@pytest.mark.parametrize("name", ["too_many_names_are_postponed", "jobs_that_are_no_longer_dead_are_skipped", "never_fires_early", "the_clock_stands_still"])
def test_accepts_plain_names_of_tests(name):
    assert not prose.NAME_HABIT.search(name)


def test_reads_comments_and_docstrings_of_python(tmp_path):
    source = tmp_path / "a.py"
    source.write_text('"""Counts jobs."""\n\nx = "nobody"  # told by run\n\n\ndef f():\n    """Where it is said."""\n')
    assert sorted((line, sorted(names)) for _, line, names, _ in prose.measure([(source, prose.texts_of(source))])[2]) == [(3, ["tell"]), (7, ["say", "where"])]


COMMENTS = {
    "a.js": 'const a = "// told"; // A good comment.\n/** What the page knows. */\nconst b = `# told ${a} // told`;\nconst c = a.replace(/\\/*"told/, "");\n// nobody\n',
    "a.ts": "/** What the client said. */\n",
    "a.go": "// Nobody waits.\nfunc a() {}\n",
    "A.java": "class A { /** What is told. */ int a; }\n",
    "a.php": "<?php\n# He waits.\n$a = '# told'; // It is told.\n",
    "a.rs": "//! What is told.\nfn f<'a>(a: &'a str) {} // nobody\nconst A: &str = \"// told\";\n",
    "a.rb": "# What is told.\na = \"x #{told} # told\" # nobody\n",
    "a.lua": "local a = '-- told' -- It is told.\n",
    "a.sql": "-- What nobody takes.\nSELECT 'told';\n",
    "a.sh": "#!/bin/sh\n# What is told.\necho ${a#told} \"$#\"\n",
    "script": "#!/usr/bin/env bash\necho told # nobody\n",
    "tool": "#!/usr/bin/python3\nx = '# told'  # nobody\n",
    "a.cmake": "# Where it stands in the file.\n",
    "a.yml": "a: told # nobody\n",
}
PLACES = {"a.js": [(2, ["what"]), (5, ["nobody"])], "a.ts": [(1, ["say", "what"])], "a.go": [(1, ["nobody"])], "A.java": [(1, ["tell", "what"])],
          "a.php": [(2, ["he"]), (3, ["tell"])], "a.rs": [(1, ["tell", "what"]), (2, ["nobody"])], "a.rb": [(1, ["tell", "what"]), (2, ["nobody"])], "a.lua": [(1, ["tell"])], "a.sql": [(1, ["nobody", "what"])], "a.sh": [(2, ["tell", "what"])],
          "script": [(2, ["nobody"])], "tool": [(2, ["nobody"])], "a.cmake": [(1, ["stand", "where"])], "a.yml": [(1, ["nobody"])]}


@pytest.mark.parametrize("name", COMMENTS)
def test_reads_comments_of_each_language(name, tmp_path):
    source = tmp_path / name
    source.write_text(COMMENTS[name])
    lines = prose.measure([(source, prose.comments_of(source))])[2]
    assert [(line, sorted(names)) for _, line, names, _ in lines] == PLACES[name]


def test_every_language_has_an_example(tmp_path):
    languages = {prose.language_of(tmp_path / name, text) for name, text in COMMENTS.items()}
    assert languages | {"c"} == set(prose.SIGNS) | {"python"}


@pytest.mark.parametrize("area", ["comments:tests", "comments:bench", "comments:clients", "comments:bindings", "comments:console", "comments:scripts", "comments:packaging",
                                  "comments:examples", "comments:build", "output:scripts", "output:clients"])
def test_measures_each_part_of_the_tree(area):
    words, _, _ = prose.measure(prose.areas()[area])
    assert words > 200


def test_joins_comments_on_lines_that_follow_each_other(tmp_path):
    source = tmp_path / "a.sh"
    source.write_text("# The server stops\n# where the file is.\n\n# Where the file is, the server stops.\n")
    assert [line for _, line, _, _ in prose.measure([(source, prose.comments_of(source))])[2]] == [4]


def test_accepts_the_value_none(tmp_path):
    source = tmp_path / "a.py"
    source.write_text('"""None if the job does not exist; (None, the reason)."""\n\n\ndef f():\n    """None of them is counted."""\n    return """told"""\n')
    assert [line for _, line, _, _ in prose.measure([(source, prose.comments_of(source))])[2]] == [5]


DEFINITIONS = {
    "a.py": 'def f():\n    """Whether it holds."""\n\n\nclass A:\n    """A job."""\n',
    "a.js": "/** Whether it holds. */\nexport async function f() {}\n/** A job. */\nconst g = (a) => a;\n/** If not a definition. */\nf();\n",
    "A.java": "/** A job. */\nclass A {\n    /** Whether it holds. */\n    @Override\n    public boolean f() {\n    }\n}\n",
    "a.php": "<?php\n/** Whether it holds. */\nfinal class A\n{\n    /** Returns a job. */\n    public static function f() {}\n}\n",
    "a.rs": "/// Whether it holds.\npub(crate) fn f() {}\n/// A job.\n#[derive(Debug)]\npub struct A {}\n",
    "a.rb": "# Whether it holds.\ndef f\nend\n# A job.\nclass A\nend\n",
    "a.lua": "-- Whether it holds.\nlocal function f()\nend\n-- Returns a job.\nfunction g()\nend\n",
    "a.sh": "# Whether it holds.\nf() {\n}\n# Prints a job.\ng() {\n}\n",
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_reads_comments_of_definitions_in_each_language(name, tmp_path):
    source = tmp_path / name
    source.write_text(DEFINITIONS[name])
    count, bad = prose.openers([source])
    assert (count, [text for _, _, text in bad]) == (2, ["Whether it holds."])
