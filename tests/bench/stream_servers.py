"""The servers of `make bench-stream`: ours, nginx with nchan, and the bare epoll writer that is the floor."""

import glob
import json
import os
import random
import resource
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

from daemon import Daemon, end

CONNECTIONS = min(20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 100)

NGINX_CONF = """
load_module {module};
daemon off;
worker_processes 1;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log warn;
{user}
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  tcp_nodelay on;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_body_temp_path {prefix}/body;
  proxy_temp_path {prefix}/proxy;
  fastcgi_temp_path {prefix}/fastcgi;
  uwsgi_temp_path {prefix}/uwsgi;
  scgi_temp_path {prefix}/scgi;
  nchan_shared_memory_size 512M;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /pub {{
      nchan_publisher;
      nchan_channel_id $arg_id;
      nchan_message_buffer_length 5000;
      nchan_message_timeout 60s;
    }}
    location = /sub {{
      nchan_subscriber eventsource;
      nchan_channel_id $arg_id;
      nchan_subscriber_first_message newest;
    }}
  }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sessiond:
    name = "sessiond"

    def __init__(self, binary, directory, more=None):
        os.makedirs(directory, exist_ok=True)
        self.binary, self.directory = binary, directory
        self.more = {"limits": {"connections": CONNECTIONS}, **(more or {})}
        self.daemon = Daemon(binary, directory, self.more)
        self.payload = 100

    def pids(self):
        return [self.daemon.pid]

    def arguments(self):
        return ["--server", "sessiond", "--port", str(self.daemon.port), "--token-file", self.daemon.token_file]

    def call(self, method, path, body=None):
        """The parsed reply to a request that must succeed."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.daemon.port}{path}", data, method=method, headers={
            "Authorization": f"Bearer {self.daemon.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def make_sessions(self, count):
        for i in range(count):
            self.call("POST", "/v1/agents/main/sessions", {"key": session_key(i), "ifExists": "reuse"})

    def fill(self, events, session, text_bytes=100):
        """Appends so many messages, a thousand a request; the epoch of the log."""
        entry = {"type": "message", "message": {"role": "user", "content": ("the quick brown fox " * 100)[:text_bytes]}}
        path = f"/v1/agents/main/sessions/{urllib.parse.quote(session_key(session))}/messages"
        for first in range(0, events, 1000):
            reply = self.call("POST", path, json.dumps({"entries": [entry] * min(1000, events - first)}).encode())
        return reply["asOf"].split("-")[0]

    def kill_and_restart(self):
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.more["listen"] = {"tcp": f"127.0.0.1:{self.daemon.port}", "unix": None}
        self.daemon = Daemon(self.binary, self.directory, self.more)

    def check_alive(self):
        self.daemon.check_alive()

    def stop(self):
        self.daemon.stop()


def session_key(number):
    return f"agent:main:bench:direct:u{number:08}"


class Process:
    """A server that is one process of ours, perhaps with children."""

    process = None

    def check_alive(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.name} ended with {self.process.returncode}")

    def stop(self):
        if self.process:
            end(self.process)


class Nchan(Process):
    name = "nchan"

    @staticmethod
    def missing():
        """Why it cannot be compared with; nothing when it can."""
        if Nchan.binary() and Nchan.module():
            return None
        return "nginx with nchan is not installed: not compared (apt-get install nginx libnginx-mod-nchan)"

    @staticmethod
    def binary():
        return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    @staticmethod
    def module():
        return next(iter(glob.glob("/usr/lib/nginx/modules/ngx_nchan_module.so")), None)

    def __init__(self, directory):
        self.payload = 100
        self.channel = random.randrange(1 << 30)
        prefix = os.path.join(directory, "nginx")
        shutil.rmtree(prefix, ignore_errors=True)
        os.makedirs(prefix)
        self.port = free_port()
        config = os.path.join(prefix, "nginx.conf")
        with open(config, "w", encoding="ascii") as out:
            out.write(NGINX_CONF.format(module=self.module(), prefix=prefix, port=self.port, connections=CONNECTIONS,
                                        user="user root;" if os.geteuid() == 0 else ""))
        with open(os.path.join(prefix, "log"), "wb") as log:
            self.process = subprocess.Popen([self.binary(), "-p", prefix, "-e", os.path.join(prefix, "error.log"), "-c", config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self.check_alive()
            if self.pids():
                try:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    return
                except OSError:
                    pass
            time.sleep(0.02)
        self.stop()
        raise SystemExit("nginx does not start")

    def pids(self):
        """Its worker; the master only waits."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            return [int(pid) for pid in children.read().split()]

    def arguments(self):
        self.channel += 1  # a new one for each run: no events of another
        return ["--server", "nchan", "--port", str(self.port), "--path", f"/sub?id={self.channel}",
                "--publish-path", f"/pub?id={self.channel}"]


class Bare(Process):
    name = "bare epoll writer"

    def __init__(self, client):
        self.payload = 100
        self.process = subprocess.Popen([client, "--bare-server", "0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def pids(self):
        return [self.process.pid]

    def arguments(self):
        return ["--server", "bare", "--port", str(self.port)]

    def stop(self):
        super().stop()
        self.process.stdout.close()
