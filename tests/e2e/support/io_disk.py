"""A disk that a trace is played on: what is safe on it, what only the page cache holds, and what a power cut may leave of both."""

import os
import pathlib

from io_trace import MADE_DIR, O_CREAT, O_TRUNC, OPENED, PUNCHED, RENAMED, SIZED, SYNCED, UNLINKED, WRITING, WRITTEN

PAGE, SECTOR = 4096, 512
HOLE = 1 << 16
ZEROS = bytes(HOLE)
DAMAGES = ("none", "all", "prefix", "pages", "sectors")


class Pending:
    """A change of a file that may be lost. `data` None: zeros. `size`: the file's size is set to it."""

    __slots__ = ("began", "ended", "offset", "bytes", "data", "size")

    def __init__(self, began, ended, offset, count, data, size=None):
        self.began, self.ended, self.offset, self.bytes, self.data, self.size = began, ended, offset, count, data, size

    def put(self, content, start=None, end=None):
        """Writes into a file's content; only the part of it from start to end."""
        if self.size is not None:
            _resize(content, self.size)
            return
        low = self.offset if start is None else max(self.offset, start)
        high = self.offset + self.bytes if end is None else min(self.offset + self.bytes, end)
        if low >= high:
            return
        if len(content) < high:
            _resize(content, high)
        content[low:high] = bytes(high - low) if self.data is None else self.data[low - self.offset:high - self.offset]


def _resize(content, size):
    if size < len(content):
        del content[size:]
    else:
        content += bytes(size - len(content))


class File:
    def __init__(self):
        self.safe, self.pending = bytearray(), []

    def synced(self, began):
        """A sync that began then has ended: what had ended before is safe."""
        left = []
        for change in self.pending:
            if change.ended is not None and change.ended < began:
                change.put(self.safe)
            else:
                left.append(change)
        self.pending = left

    def left_by_crash(self, damage, chance):
        if damage == "none" or not self.pending:
            return self.safe
        content = bytearray(self.safe)
        changes = self.pending
        if damage == "prefix":
            changes = changes[:chance.randrange(len(changes) + 1)]
        if damage in ("all", "prefix"):
            for change in changes:
                change.put(content)
            if damage == "prefix" and len(changes) < len(self.pending) and (torn := self.pending[len(changes)]).size is None:
                torn.put(content, end=torn.offset + chance.randrange(torn.bytes + 1) // SECTOR * SECTOR)
            return content
        return self._pieces(content, PAGE if damage == "pages" else SECTOR, chance)

    def _pieces(self, content, piece, chance):
        """Chooses for each piece the content after one of its writes, or the old content. The size may have grown although the content has not
        arrived."""
        keep = chance.choice((0.1, 0.5, 0.9))
        for change in self.pending:
            if change.size is not None:
                if chance.random() < keep:
                    change.put(content)
                continue
            end = change.offset + change.bytes
            if end > len(content) and chance.random() < 0.5:
                _resize(content, end)
            for at in range(change.offset // piece * piece, end, piece):
                if chance.random() < keep:
                    change.put(content, at, at + piece)
        return content


class Directory:
    """Names as they are safe, and the changes of names that no sync of the directory has made safe."""

    def __init__(self):
        self.safe, self.now, self.pending = {}, {}, []

    def change(self, moment, name, node):
        """node None: the name is gone."""
        self.changes(moment, [(name, node)])

    def changes(self, moment, pairs):
        """Applies all of them together, or nothing."""
        self.pending.append((moment, pairs))
        _put_names(self.now, pairs)

    def synced(self, began):
        while self.pending and self.pending[0][0] < began:
            _put_names(self.safe, self.pending.pop(0)[1])

    def left_by_crash(self, damage, chance):
        names = dict(self.safe)
        count = {"none": 0, "all": len(self.pending)}.get(damage, chance.randrange(len(self.pending) + 1))
        for _, pairs in self.pending[:count]:
            _put_names(names, pairs)
        return names


def _put_names(names, pairs):
    for name, node in pairs:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """Plays the records of a trace. The root directory itself is safe from the start. `forgets`: syncs of what was opened by a path that it finds are
    taken for not done, for tests of the tests."""

    def __init__(self, forgets=None):
        self.root, self.handles, self.writing = Directory(), {}, {}
        self.forgets, self.forgotten = forgets, set()

    @classmethod
    def of(cls, path):
        """Returns a disk on which the whole content of a directory is safe."""
        disk = cls()
        disk.root = _load(pathlib.Path(path))
        return disk

    def _find(self, path):
        """(the directory that holds the last name, that name)."""
        directory = self.root
        *folders, name = path.split("/")
        for folder in folders:
            directory = directory.now[folder]
        return directory, name

    def play(self, record):
        step = self._STEPS.get(record.kind)
        if step:
            step(self, record)

    def _opened(self, record):
        if self.forgets and self.forgets.search(record.text):
            self.forgotten.add(record.id)
        if record.text == "":
            self.handles[record.id] = self.root
            return
        directory, name = self._find(record.text)
        node = directory.now.get(name)
        if node is None:
            assert record.a & O_CREAT, f"'{record.text}' was opened, and nobody made it"
            node = File()
            directory.change(record.at, name, node)
        elif record.a & O_TRUNC:
            node.pending.append(Pending(record.at, record.at, 0, 0, None, 0))
        self.handles[record.id] = node

    def _writing(self, record):
        change = Pending(record.at, None, record.a, record.b, record.data)
        self.writing[record.at] = change
        self.handles[record.id].pending.append(change)

    def _written(self, record):
        change = self.writing.pop(record.a, None)
        if change:
            assert record.b == change.bytes, "a short or failed write"
            change.ended = record.at

    def _synced(self, record):
        assert record.b == 0, "a failed sync"
        if record.id not in self.forgotten:
            self.handles[record.id].synced(record.a)

    def _sized(self, record):
        self.handles[record.id].pending.append(Pending(record.at, record.at, 0, 0, None, record.a))

    def _punched(self, record):
        self.handles[record.id].pending.append(Pending(record.at, record.at, record.a, record.b, None))

    def _renamed(self, record):
        old, new = (part.decode() for part in bytes(record.data).split(b"\0"))
        (directory, name), (other, new_name) = self._find(old), self._find(new)
        assert directory is other, "renamed into another directory"
        directory.changes(record.at, [(new_name, directory.now[name]), (name, None)])

    def _unlinked(self, record):
        directory, name = self._find(record.text)
        directory.change(record.at, name, None)

    def _made(self, record):
        if record.text:
            directory, name = self._find(record.text)
            directory.change(record.at, name, Directory())

    _STEPS = {OPENED: _opened, WRITING: _writing, WRITTEN: _written, SYNCED: _synced, SIZED: _sized, PUNCHED: _punched, RENAMED: _renamed,
              UNLINKED: _unlinked, MADE_DIR: _made}

    def crash(self, into, damage, chance):
        """Writes the remains to the directory `into`."""
        self._leave(self.root, pathlib.Path(into), damage, chance)

    def _leave(self, directory, into, damage, chance):
        into.mkdir()
        for name, node in directory.left_by_crash(damage, chance).items():
            if isinstance(node, Directory):
                self._leave(node, into / name, damage, chance)
            else:
                _write(into / name, node.left_by_crash(damage, chance))


def _load(path):
    if not path.is_dir():
        file = File()
        file.safe += path.read_bytes()
        return file
    directory = Directory()
    directory.safe = {one.name: _load(one) for one in path.iterdir()}
    directory.now = dict(directory.safe)
    return directory


def _write(path, content):
    """Holes where it ends in zeros."""
    end = len(content)
    while end >= HOLE and content[end - HOLE:end] == ZEROS:
        end -= HOLE
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, memoryview(content)[:end])
    os.ftruncate(fd, len(content))
    os.close(fd)
