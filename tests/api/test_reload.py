"""SIGHUP says what it took and what waits for a restart; files that the configuration names are looked at before they are needed."""

import json
import signal
import subprocess
import tempfile
from pathlib import Path

from harness.case import Case
from harness.sessiond import SLOW, binary, eventually
from test_tls import Certificates

runs = {"asan", "tsan"}


def reload(daemon, **sections):
    """Writes these sections over the daemon's configuration and sends SIGHUP; the lines that it logs then."""
    for name, value in sections.items():
        section = daemon.config.get(name)
        daemon.config[name] = {**section, **value} if isinstance(section, dict) and isinstance(value, dict) else value
    daemon.config_file.write_text(json.dumps(daemon.config))
    mark = len(daemon.stderr)
    daemon.process.send_signal(signal.SIGHUP)
    return lambda word: eventually(lambda: next((line for line in daemon.stderr[mark:] if word in line), None), 20, what=word)


class Reload(Case):
    def test_the_log_and_the_event_say_what_was_taken_and_what_waits(self):
        daemon = self.spawn()
        api = daemon.client()
        with api.stream("/v1/events?types=config.*") as stream:
            stream.wait_type("stream.hello")
            said = reload(daemon, limits={"jsonDepth": 30}, network={"threads": 2}, journal={"retentionMs": 3_600_000},
                          listen={"tcp": "127.0.0.1:0", "hosts": ["localhost", "127.0.0.1", "example.org"], "insecure": True},
                          store={"checkpointDuty": 0.5})("config_reloaded")
            data = stream.wait_type("config.reloaded").data["data"]
        self.assertEqual(sorted(data["taken"]), ["/limits/jsonDepth", "/listen/hosts"])
        waiting = {"/network/threads", "/journal/retentionMs", "/listen/insecure", "/store/checkpointDuty"}
        self.assertTrue(waiting <= set(data["needsRestart"]), data)
        for pointer in ["/limits/jsonDepth", *waiting]:
            self.assertIn(pointer, said)
        self.assertEqual(json.loads(api.get("/v1/admin/config").raw)["limits"]["jsonDepth"], 30)
        self.assertEqual(json.loads(api.get("/v1/admin/config").raw)["journal"].get("retentionMs"), 168 * 3_600_000)
        self.ok(api.get("/v1/sessions", host="example.org"), 200)

    def test_a_reload_without_a_change_takes_nothing(self):
        daemon = self.spawn()
        with daemon.client().stream("/v1/events?types=config.*") as stream:
            stream.wait_type("stream.hello")
            reload(daemon)("config_reloaded")
            self.assertEqual(stream.wait_type("config.reloaded").data["data"], {"taken": [], "needsRestart": []})

    def test_the_mode_of_the_store_is_not_half_taken(self):
        daemon = self.spawn()
        self.assertIn("/store/mode", reload(daemon, store={"mode": "shared"})("config_reloaded"))
        self.assertEqual(json.loads(daemon.client().get("/v1/admin/config").raw)["store"]["mode"], "own")

    def test_a_certificate_that_is_none_changes_nothing(self):
        certificates = Certificates()
        self.addCleanup(certificates.close)
        cert, key = certificates.signed("server", "sessiond")
        daemon = self.spawn({"listen": {"tls": {"cert": str(cert), "key": str(key)}}})
        api = daemon.local()
        cert.write_text("no certificate")
        mark = len(daemon.stderr)
        said = reload(daemon, limits={"jsonDepth": 30})("tls_not_reloaded")
        self.assertIn("level=error", said)
        self.assertIn(str(cert), said)
        self.assertEqual(api.get("/v1/admin/config").json["limits"]["jsonDepth"], 64, "a faulty file changes nothing")
        self.assertFalse(any("config_reloaded" in line for line in daemon.stderr[mark:]))
        events = api.get("/v1/events?poll=1&types=config.*&waitMs=0&replay=1000").json
        self.assertNotIn("config.reloaded", json.dumps(events))


class Files(Case):
    def folder(self):
        made = tempfile.TemporaryDirectory(prefix="sd-")
        self.addCleanup(made.cleanup)
        return Path(made.name)

    def refused(self, config):
        daemon = self.spawn(config, start=False)
        return daemon, daemon.cli("config", "--check"), subprocess.run([binary(), "serve", "--config", str(daemon.config_file)], env=daemon.env,
                                                                       capture_output=True, text=True, timeout=60 * SLOW)

    def test_a_tls_file_that_is_not_there_is_named_with_the_reason(self):
        certificates = Certificates()
        self.addCleanup(certificates.close)
        cert, key = certificates.signed("server", "sessiond")
        for name, tls in (("cert", {"cert": "/nowhere.pem", "key": str(key)}), ("key", {"cert": str(cert), "key": "/nowhere.pem"}),
                          ("clientCa", {"cert": str(cert), "key": str(key), "clientCa": "/nowhere.pem"})):
            with self.subTest(name):
                daemon, checked, served = self.refused({"listen": {"tls": tls}})
                self.assertEqual((checked.returncode, served.returncode), (1, 1))
                self.assertIn(f"/listen/tls/{name}: ", checked.stderr)
                for told in (checked.stderr, served.stderr):
                    self.assertIn("/nowhere.pem: No such file or directory", told)
                    self.assertNotIn("system lib", told)
                self.assertIn("/nowhere.pem", daemon.cli("doctor").stdout)

    def test_a_folder_and_a_text_are_no_certificate(self):
        folder = self.folder()
        (folder / "text.pem").write_text("hello")
        for file, word in ((folder, "Is a directory"), (folder / "text.pem", "no start line")):
            _, checked, served = self.refused({"listen": {"tls": {"cert": str(file), "key": str(file)}}})
            for told in (checked, served):
                self.assertEqual(told.returncode, 1)
                self.assertIn(f"{file}: {word}", told.stderr)

    def test_an_audit_log_that_is_a_folder_is_refused(self):
        folder = self.folder()
        daemon = self.spawn({"audit": {"path": str(folder)}}, start=False)
        checked = daemon.cli("config", "--check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn(f"/audit/path: {folder} is a folder", checked.stderr)

    def test_an_audit_log_that_cannot_be_written_is_told_at_start_and_by_readyz(self):
        folder = self.folder()
        path = folder / "audit"
        path.mkdir()
        daemon = self.spawn({"audit": {"path": str(path)}})
        api = daemon.client()
        eventually(lambda: any("audit_not_written" in line and str(path) in line for line in daemon.stderr), what="a line at the start")
        reply = api.get("/readyz")
        self.assertEqual(reply.status, 503)
        self.assertIn(str(path), json.dumps(reply.json["reasons"]))
        self.assertEqual(daemon.anonymous().get("/readyz").json["reasons"], ["audit log cannot be written"])
        path.rmdir()
        eventually(lambda: api.get("/readyz").status == 200, 20, what="ready again")
        self.new(api=api)
        eventually(lambda: path.is_file() and path.read_text().count("\n"), 20)

    def test_a_heartbeat_that_comes_after_the_stall_is_refused(self):
        daemon = self.spawn({"stream": {"heartbeatMs": 30_000, "stallTimeoutMs": 20_000}}, start=False)
        checked = daemon.cli("config", "--check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("/stream/heartbeatMs: 30000 is longer than stallTimeoutMs, 20000", checked.stderr)
