"""A stand-in for a chat platform: people write, bridges fetch what they wrote and send what the agent answers.

GET /updates/{shard} lists what was written in the shard's conversations and is not yet seen, oldest first; POST /seen/{shard} takes ids off that
list. POST /send {to,text,nonce} → {id}: the same nonce again is the same message. POST /ack: a bridge says that the daemon took its ack.
"""

import http.server
import json
import threading


class Chat:
    def __init__(self, shards=1):
        self.lock = threading.Lock()
        self.unseen = [{} for _ in range(shards)]  # of each shard: id -> update
        self.sent = {}  # to -> texts, as they were first sent
        self.nonces = {}  # nonce -> id
        self.repeated, self.acked = 0, set()
        self.changed = threading.Condition(self.lock)

        chat = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer(chat.updates(int(self.path.rsplit("/", 1)[1])))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb, *rest = self.path.strip("/").split("/")
                self.answer(getattr(chat, verb)(body, *map(int, rest)))

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass  # a bridge was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def write(self, shard, person, id, text):
        with self.lock:
            self.unseen[shard][id] = {"from": person, "id": id, "text": text}

    def updates(self, shard):
        with self.lock:
            return list(self.unseen[shard].values())[:20]

    def seen(self, ids, shard):
        with self.lock:
            for id in ids:
                self.unseen[shard].pop(id, None)

    def send(self, message):
        with self.changed:
            if message["nonce"] in self.nonces:
                self.repeated += 1
            else:
                self.nonces[message["nonce"]] = "p%d" % len(self.nonces)
                self.sent.setdefault(message["to"], []).append(message["text"])
                self.changed.notify_all()
            return {"id": self.nonces[message["nonce"]]}

    def ack(self, delivery):
        with self.lock:
            self.acked.add(delivery)
