"""Under systemd: what it is told (sd_notify), the sockets it hands over (sd_listen_fds), and the units in config/systemd."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness.case import Case, uid
from harness.sessiond import REPO, SLOW, binary

runs = {"asan", "release"}

UNITS = REPO / "config" / "systemd"
# What systemd does between fork and exec: descriptors from 3 on, and variables that hold the new process's own pid.
EXEC = r"""
import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",") if fd]
for place, fd in enumerate(fds):
    os.dup2(fd, 3 + place)
    os.close(fd)
for name in ("LISTEN_PID", "WATCHDOG_PID"):
    if os.environ.get(name) == "own":
        os.environ[name] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""


class UnderSystemd(Case):
    @classmethod
    def setUpClass(cls):
        pass  # each test has a daemon of its own

    def under(self, environment, sockets=(), config=None):
        daemon = self.spawn(config, start=False, env=environment)
        daemon.inherited = [s.fileno() for s in sockets]
        daemon.wrapper = [sys.executable, "-c", EXEC, ",".join(map(str, daemon.inherited))]
        return daemon

    def listener(self, family, address):
        listening = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(listening.close)
        listening.bind(address)
        listening.listen(16)
        return listening

    def tcp(self, host="127.0.0.1"):
        return self.listener(socket.AF_INET, (host, 0))

    def unix(self):
        folder = tempfile.mkdtemp(prefix="sd-")
        self.addCleanup(shutil.rmtree, folder)
        return self.listener(socket.AF_UNIX, folder + "/unix")

    def manager(self, abstract=False):
        """The socket that is notified, and its name."""
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(told.close)
        folder = tempfile.mkdtemp(prefix="sd-")
        self.addCleanup(shutil.rmtree, folder)
        name = "@sessiond-test-" + uid() if abstract else folder + "/notify"
        told.bind("\0" + name[1:] if abstract else name)
        told.settimeout(20 * SLOW)
        return told, name

    def until(self, told, line):
        """Reads what comes until a datagram has this line; that datagram's lines."""
        while True:
            lines = told.recv(4096).decode().split("\n")
            if line in lines:
                return lines

    def test_it_is_told_what_happens(self):
        for abstract in (False, True):
            with self.subTest(abstract=abstract):
                told, name = self.manager(abstract)
                daemon = self.under({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "50000", "WATCHDOG_PID": "own"}).start()
                ready = self.until(told, "READY=1")
                self.assertIn(f"STATUS=listening on 127.0.0.1:{daemon.port} and {daemon.unix}", ready)
                for _ in range(3):
                    self.until(told, "WATCHDOG=1")
                daemon.process.send_signal(signal.SIGHUP)
                self.assertRegex("\n".join(self.until(told, "RELOADING=1")), r"MONOTONIC_USEC=\d+")
                self.until(told, "READY=1")
                daemon.config_file.write_text("{")  # a reload that fails is over, too
                daemon.process.send_signal(signal.SIGHUP)
                self.until(told, "RELOADING=1")
                self.until(told, "READY=1")
                daemon.process.send_signal(signal.SIGTERM)
                self.until(told, "STOPPING=1")
                self.assertEqual(daemon.stop(), 0)

    def test_a_watchdog_of_another_process_is_not_ours(self):
        told, name = self.manager()
        daemon = self.under({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}).start()
        self.until(told, "READY=1")
        self.ok(daemon.client().get("/v1/whoami"), 200)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(told.recv(4096).decode().split("\n")[0], "STOPPING=1")

    def test_nobody_is_there_to_be_told(self):
        daemon = self.under({"NOTIFY_SOCKET": "/nonexistent/notify", "WATCHDOG_USEC": "nonsense"}).start()
        self.ok(daemon.client().get("/v1/whoami"), 200)

    def test_it_serves_on_sockets_that_are_handed_over(self):
        for names in ("tcp:unix", "sessiond:sessiond", ""):
            with self.subTest(names):
                tcp, unix = self.tcp(), self.unix()
                waiting = socket.create_connection(tcp.getsockname())  # before anybody accepts
                daemon = self.under({"LISTEN_PID": "own", "LISTEN_FDS": "2", "LISTEN_FDNAMES": names}, (tcp, unix)).start()
                self.assertEqual(daemon.port, tcp.getsockname()[1])
                self.assertFalse(os.path.exists(daemon.unix), "that of the configuration is not made")
                waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertIn(b"200", waiting.recv(64))
                waiting.close()
                self.ok(daemon.client().get("/v1/whoami"), 200)
                daemon.unix = unix.getsockname()
                self.assertEqual(self.ok(daemon.local().get("/v1/whoami"), 200)["id"], "local")
                daemon.restart()
                self.ok(daemon.client().get("/v1/whoami"), 200)
                self.assertEqual(daemon.stop(), 0)
                self.assertTrue(os.path.exists(unix.getsockname()), "whoever made it removes it")
                socket.create_connection(tcp.getsockname()).close()  # still listened on, for the next start

    def test_what_is_not_handed_over_is_bound_as_configured(self):
        tcp = self.tcp()
        daemon = self.under({"LISTEN_PID": "own", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "tcp"}, (tcp,)).start()
        self.assertEqual(daemon.port, tcp.getsockname()[1])
        self.ok(daemon.local().get("/v1/whoami"), 200)

    def test_sockets_of_another_process_are_not_ours(self):
        tcp = self.tcp()
        daemon = self.under({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, (tcp,)).start()
        self.assertNotEqual(daemon.port, tcp.getsockname()[1])

    def refused(self, sockets, names="", config=None):
        daemon = self.under({"LISTEN_PID": "own", "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}, sockets, config)
        with self.assertRaises(AssertionError):
            daemon.start()
        daemon.process = None
        return "\n".join(daemon.stderr)

    def test_what_is_no_listening_socket_is_refused(self):
        closed = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.addCleanup(closed.close)
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(datagram.close)
        for sockets, names in (((self.unix(),), "tcp"), ((self.tcp(),), "unix"), ((closed,), ""), ((datagram,), "x")):
            self.assertIn("handed over", self.refused(sockets, names))

    def test_other_machines_are_let_in_only_as_by_configuration(self):
        open_to_all = self.tcp("0.0.0.0")
        self.assertIn("can be reached from other machines", self.refused((open_to_all,)))
        daemon = self.under({"LISTEN_PID": "own", "LISTEN_FDS": "1"}, (open_to_all,), {"listen": {"insecure": True}}).start()
        self.ok(daemon.client().get("/v1/whoami"), 200)

    def test_the_first_token_is_printed_on_a_terminal_only(self):
        daemon = self.under({}).start()
        token = daemon.admin_token
        self.ok(daemon.client().get("/v1/whoami"), 200)
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn(token, "\n".join(daemon.stdout + daemon.stderr))
        self.assertTrue(any("admin_token_made" in line for line in daemon.stderr))


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed (package systemd)")
class Units(Case):
    @classmethod
    def setUpClass(cls):
        pass

    def analyze(self, *arguments, **environment):
        return subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment})

    def test_exposure(self):
        done = self.analyze("security", "--offline=true", UNITS / "sessiond.service")
        found = re.search(r"Overall exposure level for sessiond.service: ([\d.]+)", done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        self.assertLessEqual(float(found.group(1)), 1.5, done.stdout)
        with open(UNITS / "README.md", encoding="utf-8") as readme:
            self.assertIn(f"Overall exposure level for sessiond.service: {found.group(1)}", readme.read(), "as measured")

    def test_systemd_understands_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for unit in (UNITS / "sessiond.service", UNITS / "sessiond.socket", UNITS / "user" / "sessiond.service"):
                to = Path(folder) / unit.parent.name
                to.mkdir(exist_ok=True)
                text = re.sub(r"^ExecStart=\S+", "ExecStart=" + os.path.abspath(binary()), unit.read_text(), flags=re.M)
                (to / unit.name).write_text(text)
            for unit, scope in (("systemd/sessiond.service", "--system"), ("systemd/sessiond.socket", "--system"),
                                ("user/sessiond.service", "--user")):
                done = self.analyze(scope, "--man=no", "verify", f"{folder}/{unit}", XDG_RUNTIME_DIR=folder)
                said = [line for line in (done.stdout + done.stderr).splitlines() if "sessiond" in line]
                self.assertFalse(said, f"{unit}: {said}")
