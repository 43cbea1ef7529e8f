"""Examples of the pages: a block of `sh`, made to be copied, and right behind it, as `text`, what it prints."""

import re

from server import REPO

ANY = "…"


def blocks(page):
    """Returns [(line number, language, lines)] of a page's blocks of code, and (line number, None, [line]) for each line between them."""
    out, inside = [], None
    for number, line in enumerate((REPO / page).read_text(encoding="utf-8").splitlines(), 1):
        if inside is None and line.startswith("```"):
            inside = (number, line[3:].strip(), [])
        elif inside and line.strip() == "```":
            out.append(inside)
            inside = None
        elif inside:
            inside[2].append(line)
        else:
            out.append((number, None, [line]))
    return out


def examples(page):
    """[(line number, command, expected lines or None if the page shows no output)]"""
    found, rest = [], [one for one in blocks(page) if one[1] is not None or one[2][0].strip()]
    for (number, language, lines), (_, next_language, next_lines) in zip(rest, [*rest[1:], (0, None, [])]):
        if language == "sh":
            found.append((number, "\n".join(lines), next_lines if next_language == "text" else None))
    return found


def matches(expected, found):
    """`…` stands for anything; line ends and blanks at the end of a line do not count. `(in 30s)` may be a few seconds less on a busy machine."""
    wanted = [line.rstrip() for line in expected]
    while wanted and not wanted[-1]:
        wanted.pop()
    pattern = "\n".join(".*?".join(re.escape(part) for part in line.split(ANY)) for line in wanted)
    pattern = re.sub(r"\\\(in\\ (\d+)s\\\)", lambda span: r"\(in\ (?:%s)s\)" % "|".join(str(int(span[1]) - less) for less in range(4)), pattern)
    text = "\n".join(line.rstrip() for line in found.replace("\r\n", "\n").rstrip().split("\n"))
    return re.fullmatch(pattern, text, re.DOTALL) is not None
