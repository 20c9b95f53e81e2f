"""What is compared with: the ways in which people keep sessions today, each as simple and as fast as it can honestly be.

rewrite  sessions.json read, parsed, changed, written whole to a temporary file and renamed, for every update: what programs of the
         OpenClaw family do. No fsync (they make none), no HTTP, no lock, one process: all of that would slow it.
sqlite   WAL, synchronous=FULL (a commit is on disk when it returns), one transaction a request, one connection, in process, no HTTP.
         More connections would wait for the same write lock.
redis    appendonly yes, appendfsync always, over TCP with the same load client and as many connections; it too syncs once for all that
         wait. An append is XADD, a patch HSET. Only if redis-server is installed.
nginx    `return 200` with a body of the same size, one worker, no access log, same load client: it reads nothing and knows nothing, so this
         is what HTTP itself costs. Only if nginx is installed.
"""

import http.client
import json
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import time

TEXT = "the quick brown fox jumps over the lazy dog and the quick brown fox jumps over the lazy dog and the "


def closed_loop(step, seconds):
    """Calls step(i) for so long; the result has the shape of the load client's."""
    took = []
    cpu = time.process_time()
    start = last = time.perf_counter_ns()
    end = start + int(seconds * 1e9)
    i = 0
    while last < end:
        step(i)
        now = time.perf_counter_ns()
        took.append(now - last)
        last = now
        i += 1
    cpu = time.process_time() - cpu
    took.sort()
    return {"perSecond": i / ((last - start) / 1e9), "p50Us": took[i // 2] / 1e3, "p99Us": took[i * 99 // 100] / 1e3,
            "daemonCpuUs": cpu * 1e6 / i, "clientCpuUs": None, "requests": i}


class Rewrite:
    """Over a copy of the daemon's own sessions.json, so the store is the same one."""

    name = "sessions.json rewritten whole"

    def __init__(self, directory, sessions_file):
        self.path = os.path.join(directory, "rewrite.json")
        shutil.copyfile(sessions_file, self.path)
        with open(self.path, encoding="utf-8") as store:
            self.keys = list(json.load(store))

    def patch(self, seconds):
        def step(i):
            with open(self.path, encoding="utf-8") as store:
                entries = json.load(store)
            entries[self.keys[0]]["label"] = f"bench-{i:08}"
            with open(self.path + ".tmp", "w", encoding="utf-8") as out:
                out.write(json.dumps(entries, indent=2))
            os.rename(self.path + ".tmp", self.path)
        return closed_loop(step, seconds)

    def stop(self):
        pass


class Sqlite:
    name = f"SQLite {sqlite3.sqlite_version} WAL, synchronous=FULL"

    def __init__(self, directory, entries):
        self.db = sqlite3.connect(os.path.join(directory, "peer.sqlite"), isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=full")
        self.db.execute("create table messages(id integer primary key, session text, body text)")
        self.db.execute("create table sessions(key text primary key, entry text)")
        self.db.execute("begin")
        for i in range(entries):
            entry = json.dumps({"sessionId": f"{i:036}", "channel": "bench", "chatType": "direct", "label": "new"})
            self.db.execute("insert into sessions values(?,?)", (f"agent:main:bench:direct:u{i:08}", entry))
        self.db.execute("commit")

    def append(self, seconds):
        def step(i):
            body = f'{{"role":"user","text":"{i:08} {TEXT[:91]}"}}'
            self.db.execute("insert into messages(session,body) values(?,?)", ("agent:main:bench:direct:u00000000", body))
        return closed_loop(step, seconds)

    def patch(self, seconds):
        def step(i):
            self.db.execute("update sessions set entry=json_set(entry,'$.label',?) where key=?",
                            (f"bench-{i:08}", "agent:main:bench:direct:u00000000"))
        return closed_loop(step, seconds)

    def stop(self):
        self.db.close()


class Redis:
    name = "redis appendfsync=always"

    @staticmethod
    def binary():
        return shutil.which("redis-server")

    def __init__(self, directory, load):
        self.load = load
        folder = os.path.join(directory, "redis")
        os.mkdir(folder)
        for _ in range(20):  # redis cannot be asked to choose a port
            self.port = random.randrange(20000, 60000)
            with open(os.path.join(folder, "log"), "wb") as log:
                self.process = subprocess.Popen(
                    [self.binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                     "--appendonly", "yes", "--appendfsync", "always"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if self._answers():
                return
            self.stop()
        raise SystemExit("redis-server does not start")

    def _answers(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    return connection.recv(64) == b"+PONG\r\n" and self.process.poll() is None
            except OSError:
                time.sleep(0.02)
        return False

    def append(self, seconds, connections=None):
        return self.load("redis-append", port=self.port, pid=self.process.pid, seconds=seconds, connections=connections)

    def patch(self, seconds, connections=None):
        return self.load("redis-patch", port=self.port, pid=self.process.pid, seconds=seconds, connections=connections)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)


NGINX_CONF = """
daemon off;
worker_processes 1;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log warn;
{user}
events {{ worker_connections 1024; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  client_body_temp_path {prefix}/body;
  proxy_temp_path {prefix}/proxy;
  fastcgi_temp_path {prefix}/fastcgi;
  uwsgi_temp_path {prefix}/uwsgi;
  scgi_temp_path {prefix}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      default_type application/json;
      return 200 "{body}";
    }}
  }}
}}
"""


class Nginx:
    name = "nginx return 200"

    @staticmethod
    def binary():
        return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    def __init__(self, directory, load, body_bytes):
        self.load = load
        prefix = os.path.join(directory, "nginx")
        os.mkdir(prefix)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = os.path.join(prefix, "nginx.conf")
        with open(config, "w", encoding="ascii") as out:
            out.write(NGINX_CONF.format(prefix=prefix, port=self.port, body="x" * body_bytes, user="user root;" if os.geteuid() == 0 else ""))
        with open(os.path.join(prefix, "log"), "wb") as log:
            self.process = subprocess.Popen([self.binary(), "-p", prefix, "-e", os.path.join(prefix, "error.log"), "-c", config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
                connection.request("GET", "/")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise SystemExit("nginx does not start")

    def worker(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            return int(children.read().split()[0])

    def get(self, seconds, connections=None):
        return self.load("get-any", port=self.port, pid=self.worker(), seconds=seconds, connections=connections)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)
