"""An endpoint that offers HTTP/2 and requires HTTP/1.1 for each request by it (RFC 9113 section 7, HTTP_1_1_REQUIRED): like servers that ask for a
client's certificate."""

import socket
import ssl
import struct
import threading

PREFACE, HTTP_1_1_REQUIRED = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0xd
HEADERS, RST_STREAM, SETTINGS = 1, 3, 4
ACK = 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class OldHttp:
    def __init__(self, certificates):
        self.came = []  # ("h2" or "http/1.1", body's bytes or None)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with self.context.wrap_socket(connection, server_side=True) as peer:
                stream = peer.makefile("rb")
                if peer.selected_alpn_protocol() == "h2":
                    self.serve_h2(peer, stream)
                else:
                    self.serve_h1(peer, stream)
        except (OSError, ValueError):
            pass

    def serve_h2(self, peer, stream):
        assert stream.read(len(PREFACE)) == PREFACE
        peer.sendall(frame(SETTINGS, 0, 0))
        while len(head := stream.read(9)) == 9:
            length, kind, flags, number = int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")
            stream.read(length)
            if kind == SETTINGS and not flags & ACK:
                peer.sendall(frame(SETTINGS, ACK, 0))
            if kind == HEADERS:
                self.came.append(("h2", None))
                peer.sendall(frame(RST_STREAM, 0, number, struct.pack(">I", HTTP_1_1_REQUIRED)))

    def serve_h1(self, peer, stream):
        while stream.readline():
            length = 0
            while (line := stream.readline()).strip():
                name, value = line.split(b":", 1)
                length = int(value) if name.lower() == b"content-length" else length
            self.came.append(("http/1.1", len(stream.read(length))))
            peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.listener.close()
