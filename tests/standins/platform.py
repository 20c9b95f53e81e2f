"""What the stand-ins of chat platforms share: one server for a platform's HTTP API and its WebSocket, on a port of its own.

A stand-in answers as much of the platform as its client library asks for. It keeps what it was told in `calls` and `messages`.
"""

import base64
import hashlib
import http.server
import json
import socket
import struct
import threading
import urllib.parse


class WebSocket:
    """The server's side of one connection (RFC 6455): text frames, pings, close."""

    def __init__(self, handler):
        key = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        self._in, self._socket, self._writing = handler.rfile, handler.connection, threading.Lock()

    def _write(self, opcode, data):
        n = len(data)
        size = bytes([n]) if n < 126 else struct.pack(">BH", 126, n) if n < 65536 else struct.pack(">BQ", 127, n)
        with self._writing:
            self._socket.sendall(bytes([0x80 | opcode]) + size + data)

    def send(self, value):
        self._write(1, json.dumps(value).encode())

    def read(self):
        """The next text frame as JSON; None when the client has gone."""
        while True:
            head = self._in.read(2)
            if len(head) < 2:
                return None
            size = head[1] & 0x7F
            if size > 125:
                size = int.from_bytes(self._in.read(2 if size == 126 else 8), "big")
            mask, data = self._in.read(4), self._in.read(size)
            data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
            opcode = head[0] & 0x0F
            if opcode == 8:
                self._write(8, data[:2])
                return None
            if opcode == 9:
                self._write(10, data)
            if opcode == 1:
                return json.loads(data)

    def drop(self):
        """Ends the connection without a word, as a network does."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _any(self):
        platform = self.server.platform
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.close_connection = True
            return platform.talk(WebSocket(self))
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        form = "form-urlencoded" in self.headers.get("Content-Type", "")
        body = dict(urllib.parse.parse_qsl(data.decode())) if form else json.loads(data or b"{}")
        status, answer, headers = (*platform.answer(self.command, self.path.split("?")[0], body), {})[:3]
        text = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the client was killed


class Platform:
    def __init__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.platform = self
        self.port = self.server.server_address[1]
        self.calls = []                 # (method, path, body)
        self.sends = []                 # bodies of messages, as often as they came
        self.messages = {}              # what people see: by the id that the client gave
        self.refusals = []              # answers for the next messages instead of taking them
        self.held = threading.Event()   # a message has come, and its answer is held back
        self.go = threading.Event()
        self.go.set()
        self.sockets = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.go.set()
        self.drop()
        self.server.shutdown()
        self.server.server_close()

    def drop(self):
        for one in list(self.sockets):
            one.drop()

    def take(self, id_, body):
        """A message of the bot; the same id again is the same message. Held back when `go` is not set."""
        self.sends.append(body)
        message = self.messages.setdefault(id_, {"n": len(self.messages) + 1, **body})
        if not self.go.is_set():
            self.held.set()
            self.go.wait(60)
        return message
