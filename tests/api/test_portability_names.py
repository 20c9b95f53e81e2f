"""Names of sessions: what is stored of them, their slugs, and the ids that are made from them."""

import re

from harness.case import Case, S, uid

ALL = "/v1/agents/main/sessions"


class Names(Case):
    def create(self, name, status=201, **more):
        return self.api.post(ALL, {"name": name, **more}) if status is None else self.ok(
            self.api.post(ALL, {"name": name, **more}), status)

    def test_names_are_sanitised(self):
        for given, slug in (("My Custom Session", "my-custom-session"), ("  --A//B??C--  ", "a-b-c"), ("Café", "caf"),
                            ("a..b", "a-b"), ("x" * 300, "x" * 100)):
            session = self.create(given)
            self.assertEqual((session["name"], session["slug"]), (given, slug))
            again = self.create(given, idFrom="name")
            self.assertEqual((again["name"], again["sessionId"]), (slug, slug))
            self.assertEqual(again["key"], "agent:main:session:" + slug)
            self.assertEqual(again["slug"], (slug + "-2")[-100:] if len(slug) < 99 else slug[:98] + "-2")

    def test_reserved_names_are_refused(self):
        reserved = ["index", "metadata", "last_session", "con", "prn", "aux", "nul",
                    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
        for name in [*reserved, *map(str.upper, reserved), "Index", "con.txt", "lpt9.txt", "metadata.json"]:
            for body in ({"name": name}, {"name": name, "idFrom": "name"}, {"sessionId": name}):
                self.problem(self.api.post(ALL, body), 422, "reserved_name")
        session = self.create("index2")
        before = self.ok(self.api.get(S(session["key"])))
        self.problem(self.api.patch(S(session["key"]), {"name": "nul"}), 422, "reserved_name")
        self.problem(self.api.put(S(session["key"]), {"name": "nul"}), 422, "reserved_name")
        self.assertEqual(self.ok(self.api.get(S(session["key"])))["rev"], before["rev"])

    def test_slugs_of_one_agent_differ(self):
        name = "Plan " + uid()
        base = name.lower().replace(" ", "-")
        made = [self.create(name) for _ in range(3)]
        self.assertEqual([s["slug"] for s in made], [base, base + "-2", base + "-3"])
        self.ok(self.api.delete(S(made[1]["key"])), 204)
        self.assertEqual(self.create(name)["slug"], base + "-2")
        self.assertRegex(self.create("日本")["slug"], "^session-[0-9a-f]{8}$")
        other = self.ok(self.api.post("/v1/agents/other/sessions", {"name": name}), 201)
        self.assertEqual(other["slug"], base)

    def test_a_patch_of_the_name_moves_the_slug(self):
        name = "Old " + uid()
        session = self.create(name)
        moved = self.ok(self.api.patch(S(session["key"]), {"name": "New " + uid()}))
        self.assertEqual(moved["slug"], moved["name"].lower().replace(" ", "-"))
        self.assertEqual(self.create(name)["slug"], session["slug"], "it is free again")
        same = self.ok(self.api.patch(S(session["key"]), {"name": moved["name"]}))
        self.assertEqual((same["slug"], same["rev"]), (moved["slug"], moved["rev"]))
        put = self.ok(self.api.put(S(session["key"]), same))
        self.assertEqual(put["slug"], moved["slug"], "a session that is put back keeps its slug")
        gone = self.ok(self.api.patch(S(session["key"]), {"name": None}))
        self.assertNotIn("slug", gone)
        self.invalid(self.api.patch(S(session["key"]), {"slug": "mine"}), "/slug")

    def test_an_id_from_a_name(self):
        name = "-._Ab " + uid()
        session = self.create(name, idFrom="name")
        self.assertEqual(session["sessionId"], re.sub("^[._-]+", "", session["name"]))
        self.problem(self.create(name, None, idFrom="name"), 409, "session_exists")
        self.assertEqual(self.create(name, 200, idFrom="name", ifExists="reuse")["key"], session["key"])
        self.invalid(self.create("日本", None, idFrom="name"), "/name")
        self.invalid(self.create("._", None, idFrom="name"), "/name")
        self.problem(self.create("main", None, idFrom="name"), 422, "reserved_name")
        self.invalid(self.api.post(ALL, {"idFrom": "name"}), "/name")
        self.invalid(self.create("x", None, idFrom="name", sessionId="y"), "/idFrom")

    def test_a_limited_token_learns_no_name_from_its_slug(self):
        name = "Secret " + uid()
        base = name.lower().replace(" ", "-")
        prefix = f"agent:main:p{uid()}:"
        token = self.daemon.client(self.daemon.token("operator", agents=["main"], keyPrefix=prefix))
        def slug_of(wanted):
            return self.ok(token.post(ALL, {"key": prefix + uid(), "name": wanted}), 201)["slug"]
        self.assertRegex(slug_of(name), f"^{base}-[0-9a-f]{{8}}$")
        self.create(name)
        mine = slug_of(name)
        self.assertRegex(mine, f"^{base}-[0-9a-f]{{8}}$")

    def test_slugs_survive_a_kill(self):
        name = "Kept " + uid()
        first = self.create(name)
        self.daemon.kill9()
        self.daemon.start()
        self.assertEqual(self.create(name)["slug"], first["slug"] + "-2")

    def test_a_restored_session_gives_way(self):
        name = "Back " + uid()
        first = self.create(name)
        self.ok(self.api.delete(S(first["key"])), 204)
        second = self.create(name)
        self.assertEqual(second["slug"], first["slug"])
        restored = self.ok(self.api.post(S(first["key"], "main", "restore")), 200)
        self.assertEqual(restored["slug"], first["slug"] + "-2")


class Sanitised(Case):
    config = {"names": {"sanitize": True}}

    def test_names_are_stored_sanitised(self):
        session = self.ok(self.api.post(ALL, {"name": "My Session"}), 201)
        self.assertEqual((session["name"], session["slug"]), ("my-session", "my-session"))
        patched = self.ok(self.api.patch(S(session["key"]), {"name": "Über Alles"}))
        self.assertEqual(patched["name"], "ber-alles")
        self.invalid(self.api.patch(S(session["key"]), {"name": "日本"}), "/name")
        self.invalid(self.api.post(ALL, {"entry": {"name": "日本"}}), "/entry/name")
