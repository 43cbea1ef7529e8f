"""An endpoint that behaves: badly, each connection in the next of the ways it was given."""

import itertools
import socket
import struct
import threading


def hang(connection, stopping):
    stopping.wait()


def drip(connection, stopping):
    for byte in itertools.cycle(b"HTTP/1.1 200 OK\r\nX-Slow: a byte at a time"):
        connection.sendall(bytes([byte]))
        if stopping.wait(0.05):
            return


def flood(connection, stopping):
    connection.sendall(b"HTTP/1.1 500 Bad\r\nContent-Length: 10000000000\r\n\r\n")
    while not stopping.is_set():
        connection.sendall(b"f" * 65536)


def reset(connection, stopping):
    connection.sendall(b"HTTP/1.1 20")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def redirect(connection, stopping):
    connection.sendall(b"HTTP/1.1 307 Here\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")


def fail(connection, stopping):
    connection.sendall(b"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n")


ALL = (hang, drip, flood, reset, redirect, fail)


class Evil:
    def __init__(self, *ways):
        self.ways, self.stopping, self.connections = itertools.cycle(ways or ALL), threading.Event(), 0
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._behave, args=(connection, next(self.ways)), daemon=True).start()

    def _behave(self, connection, way):
        with connection:
            try:
                connection.recv(65536)
                way(connection, self.stopping)
            except OSError:
                pass  # the other end has had enough

    def stop(self):
        self.stopping.set()
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
