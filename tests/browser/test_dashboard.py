"""The dashboard in headless Chromium, driven by playwright-core. What is done in the page stands in see_*.mjs, each a test."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from chromium import program
from crowd import write_crowd
from harness.npm import install
from harness.sessiond import REPO, SLOW, Daemon, binary
from scenario import play
from talk import Talk

HERE = Path(__file__).resolve().parent


SHOTS = REPO / "build" / "dashboard"  # pictures of every view, to look at
LONG = bool(os.environ.get("SESSIOND_TEST_LONG"))  # all themes and widths, ten minutes of events


class Seen:
    """Runs scenarios against a daemon."""

    @classmethod
    def setUpClass(cls):
        if not program():
            raise AssertionError("there is no chromium: make test installs it")
        cls.folder = install(HERE)
        super().setUpClass()

    def see(self, scenario, url=None, token=None, **env):
        """Runs the file `see_<scenario>.mjs`; kills and restarts the class's daemon when it asks."""
        play(self.folder, scenario, url or f"http://127.0.0.1:{self.daemon.port}", token or self.daemon.admin_token,
             restart=lambda: self.daemon.restart(kill=True), SHOTS=str(SHOTS), **env)


class Dashboard(Seen, Talk):
    def test_signs_in_follows_and_signs_out(self):
        self.see("signing_in")

    def test_shows_who_spoke_and_hides_nothing(self):
        self.see("conversation")

    def test_the_way_of_a_message_is_six_stages(self):
        self.see("work")

    def test_seven_tabs_hold_one_stream_and_outlive_a_kill(self):
        self.see("tabs")

    def test_without_shared_workers_a_tab_leads(self):
        self.see("leader")

    def test_everything_can_be_reached_by_keys(self):
        self.see("keyboard")

    def test_roles_see_and_are_offered_only_what_is_theirs(self):
        self.see("roles")

    def test_hostile_text_in_every_field_does_nothing(self):
        self.see("hostile")

    def test_the_audit_log_says_in_words_who_did_what(self):
        self.see("audit")

    def test_a_person_takes_over_and_hands_back(self):
        self.see("takeover")

    def test_what_needs_somebody_stands_first_and_still(self):
        self.see("needs")

    def test_health_says_what_is_wrong_and_why(self):
        self.see("health")

    def test_a_flood_of_events_leaves_the_page_alive(self):
        self.see("flood", SECONDS="600" if LONG else "4")


class Jump(Seen, Talk):
    """A daemon with few sessions, so that each row is in sight."""

    def test_the_palette_and_the_search_lead_everywhere(self):
        self.see("palette")


class Crowd(Seen, unittest.TestCase):
    """A hundred thousand sessions, which are there before the daemon starts."""

    COUNT = 100_000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)
        write_crowd(cls.daemon.state, cls.COUNT)
        cls.daemon.start()

    def test_a_hundred_thousand_sessions_open_scroll_and_filter(self):
        self.see("crowd", SESSIONS=str(self.COUNT))


class Demo(Seen, unittest.TestCase):
    """`sessiond serve --demo`, as somebody sees it who tries it."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="sd-demo-")
        self.addCleanup(shutil.rmtree, self.home, True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        self.process = subprocess.Popen([binary(), "serve", "--demo", "--listen", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "TMPDIR": self.home})
        self.addCleanup(self.end)
        began = time.monotonic()
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+)/#token=(sd_\S+)", line):
                self.url, self.token = found.groups()
                break
        else:
            self.fail(self.process.stderr.read())
        print(f"     demo: ready after {time.monotonic() - began:.1f} s")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=30 * SLOW)
        self.assertEqual(self.process.returncode, 0, said)
        self.assertNotIn("demo: ", said)  # a request of the day that was refused
        self.assertEqual(os.listdir(self.home), [], "nothing is left of it")

    def test_every_view_is_accessible_in_both_themes_and_widths(self):
        self.see("views", self.url, self.token)

    def test_nothing_is_cut_off_at_320_and_2560_pixels(self):
        self.see("widths", self.url, self.token)

    def test_everything_can_be_done_from_the_page(self):
        self.see("actions", self.url, self.token)
