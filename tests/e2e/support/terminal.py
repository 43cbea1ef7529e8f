"""A terminal for the program: a pty, and what an ANSI terminal would show of it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from server import BINARY, time_limit


class Terminal:
    """A program on a terminal of its own; `screen` is what an ANSI terminal would show now."""

    def __init__(self, *command, rows=24, columns=80, **environment):
        self.rows, self.columns = rows, columns
        self.main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self.other, self.raw = other, b""
        self.proc = subprocess.Popen([str(BINARY), *command], stdin=other, stdout=other, stderr=other, start_new_session=True, env={**os.environ, "TERM": "xterm", **environment})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        os.close(self.main)
        os.close(self.other)

    def read(self, seconds):
        if select.select([self.main], [], [], seconds)[0]:
            self.raw += os.read(self.main, 65536)

    def until(self, holds, seconds=15):
        limit = time.monotonic() + time_limit(seconds)
        while not holds(self.screen()):
            assert time.monotonic() < limit, "\n".join(self.screen())
            self.read(0.2)
        return self.screen()

    def press(self, keys):
        os.write(self.main, keys)

    def end(self):
        code = self.proc.wait(time_limit(15))
        self.read(0.2)
        return code

    def screen(self):
        """Lines, as far as what the program uses of ANSI is known; anything else is an error."""
        lines, row, column = [""] * self.rows, 0, 0
        text = self.raw.decode()
        at = text.rfind("\033[H")
        for piece in re.finditer(r"\033\[([?\d;]*)([A-Za-z])|(\r\n)|([^\033\r\n])", text[max(at, 0):]):
            argument, command, newline, character = piece.groups()
            if newline:
                row, column = row + 1, 0
                assert row < self.rows, "it scrolled"
            elif character:
                assert column < self.columns, "a line is too long: " + lines[row]
                lines[row] = lines[row][:column] + character
                column += 1
            else:
                assert command in "HJKmhl", piece[0]
        return lines
