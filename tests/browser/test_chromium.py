"""EventSource of a real browser, which sends no token and follows only its own rules: what it reconnects after, what it
gives up at, what it takes for the last id."""

import os

from harness.case import json
from chromium import Chromium, program
from harness.sessiond import eventually
from talk import TYPES, Talk

# The page as a dashboard would be: every event is a line, the state stands above.
FOLLOW = """
(url, types) => {
  const place = (tag, id) => Object.assign(document.createElement(tag), { id });  // the page's policy forbids innerHTML
  document.body.replaceChildren(place('p', 'state'), place('p', 'pings'), place('ol', 'seen'));
  window.pings = 0; window.opened = 0; window.from = null;
  window.source = new EventSource(url);
  const state = () => document.getElementById('state').textContent = ['CONNECTING', 'OPEN', 'CLOSED'][source.readyState];
  source.onopen = () => { ++opened; state(); };
  source.onerror = state;
  source.addEventListener('stream.hello', (event) => window.from = event.lastEventId);
  source.addEventListener('ping', () => document.getElementById('pings').textContent = ++pings);
  for (const type of types) source.addEventListener(type, (event) => {
    const line = document.createElement('li');
    line.textContent = event.lastEventId + ' ' + event.type;
    document.getElementById('seen').append(line);
  });
  state();
}
"""


class InChromium(Talk):
    @classmethod
    def setUpClass(cls):
        if not program():
            raise AssertionError("there is no chromium: make test installs it")
        super().setUpClass()
        cls.browser = Chromium()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.browser.forget()

    def follow(self, query="", token=None, daemon=None, filters=None):
        daemon = daemon or self.daemon
        self.browser.open(f"http://127.0.0.1:{daemon.port}/")
        made = daemon.client(token).post("/v1/stream-tickets", {"filters": filters} if filters else None)
        url = "/v1/events?ticket=" + self.ok(made, 201)["ticket"] + query
        self.browser.run(f"({FOLLOW})({json.dumps(url)}, {json.dumps(TYPES)})")
        eventually(lambda: self.state() == "OPEN", 10, what="the stream")

    def state(self):
        """Of the stream; the page's own text may be the dashboard's, which asks the daemon, too."""
        return ["CONNECTING", "OPEN", "CLOSED"][self.browser.run("source.readyState")]

    def seen(self):
        """From the DOM."""
        lines = self.browser.run("[...document.querySelectorAll('#seen li')].map((line) => line.textContent)")
        return [tuple(line.split(" ")) for line in lines]

    def pings(self):
        return self.browser.run("pings")

    def test_survives_kills_without_a_hole_or_a_double(self):
        first = int(self.head().split("-")[1]) + 1
        self.follow("&ping=event&heartbeatMs=200")
        for kill in range(3):
            before = self.pings()
            last = self.say_through_a_kill()
            eventually(lambda: self.seen()[-1][0].endswith(f"-{last}"), 20, what=f"event {last} in the page")
            eventually(lambda: self.state() == "OPEN", 10, what="OPEN again")
            self.assertEqual(self.browser.run("opened"), kill + 2, "once more after each kill")
            eventually(lambda: self.pings() > before + 1, 10, what="pings")
        self.check(self.seen(), first, last)
        picture = os.path.join(self.browser.home, "page.png")
        self.assertEqual(self.browser.screenshot(picture)[:8], b"\x89PNG\r\n\x1a\n")
        print(f"     chromium: {len(self.seen())} events over 3 kills, {first} to {last}, contiguous; {self.pings()} pings; "
              f"screenshot of {os.path.getsize(picture)} bytes")

    def test_survives_an_orderly_restart(self):
        first = int(self.head().split("-")[1]) + 1
        self.follow()
        for _ in range(2):
            for _ in range(30):
                self.say(self.key)
            self.daemon.restart()
            last = int(self.say(self.key)["asOf"].split("-")[1])
            eventually(lambda: self.seen() and self.seen()[-1][0].endswith(f"-{last}"), 20, what="the last event")
        eventually(lambda: self.state() == "OPEN", 10, what="OPEN again")
        self.check(self.seen(), first, last)

    def test_filters_of_the_ticket_and_positions_that_pings_tell(self):
        """What is filtered away moves the last id all the same; a page that comes back is not sent what it passed."""
        other = self.new()["key"]
        self.follow("&heartbeatMs=200", filters={"types": "message.*", "keyPrefix": self.key})
        own = self.say(self.key)["asOf"]
        for _ in range(20):
            passed = self.say(other)["asOf"]
        eventually(lambda: self.seen() == [(own, "message.appended")], 10, what="our event, and no other")
        with self.api.stream(f"/v1/events?keyPrefix={self.key}&heartbeatMs=200") as beside:
            beside.wait_type("stream.hello")
            self.say(other)
            beside.wait_until(lambda s: s.bare_ids, 5, "a ping with the position")  # by then the page has had one too
        self.daemon.restart(kill=True)
        again = self.say(self.key)["asOf"]
        eventually(lambda: len(self.seen()) > 1, 20, what="the event after the kill")
        self.assertEqual([id_ for id_, _ in self.seen()], [own, again])
        self.assertGreaterEqual(int(self.browser.run("window.from").split("-")[1]), int(passed.split("-")[1]),
                                "it asked from behind what was filtered away")

    def test_a_revoked_token_closes_it_for_good(self):
        made = self.ok(self.api.post("/v1/admin/tokens", {"role": "viewer"}), 201)
        self.follow(token=made["token"])
        self.ok(self.api.delete("/v1/admin/tokens/" + made["id"]), 204)
        eventually(lambda: self.state() == "CLOSED", 10, what="CLOSED")
