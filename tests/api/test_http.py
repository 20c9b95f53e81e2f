"""HTTP that is unusual and right. tests/edge has the tables of what is wrong."""

import gzip
import json

from harness.case import Case, S


class Unusual(Case):
    def raw(self, *lines, body=b"", method="GET"):
        token = f"Authorization: Bearer {self.daemon.admin_token}"
        return self.daemon.raw("\r\n".join([*lines, "Host: localhost", token, "", ""]).encode() + body, method=method)

    def test_a_higher_minor_version_is_served_as_1_1(self):
        for version in ("1.2", "1.9"):
            reply = self.raw(f"GET /v1/whoami HTTP/{version}")
            self.assertEqual((reply.status, reply.closed), (200, False))

    def test_connect_is_405(self):
        reply = self.raw("CONNECT localhost:443 HTTP/1.1", method="CONNECT")
        self.assertEqual((reply.status, reply.json["code"], reply.closed), (405, "method_not_allowed", True))
        self.assertIn("GET", reply.headers["Allow"])

    def test_two_cookie_fields_are_joined(self):
        login = self.daemon.anonymous().post("/v1/login", {"token": self.daemon.admin_token})
        cookie = login.headers["Set-Cookie"].split(";")[0]
        for first, second in (("theme=dark", cookie), (cookie, "theme=dark")):
            reply = self.daemon.raw(f"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nCookie: {first}\r\nCookie: {second}\r\n\r\n".encode())
            self.assertEqual(reply.status, 200, reply)

    def test_a_compressed_body_is_415_with_accept_encoding(self):
        key = self.new()["key"]
        body = gzip.compress(json.dumps({"role": "user", "text": "x"}).encode())
        for coding, size in (("gzip", body), ("br", body), ("gzip, identity", body * 1000)):
            reply = self.api.request("POST", S(key, "main", "messages"), size, {"Content-Encoding": coding})
            self.problem(reply, 415, "unsupported_media_type")
            self.assertEqual(reply.headers["Accept-Encoding"], "identity")
        self.assertEqual(self.messages(key), [])
        self.ok(self.api.request("POST", S(key, "main", "messages"), b'{"role":"user","text":"x"}', {"Content-Encoding": "identity"}), 201)

    def test_more_than_100_fields_is_431_and_documented(self):
        for count, status in ((97, 200), (101, 431)):
            reply = self.daemon.raw(("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + "X-A: b\r\n" * count + "\r\n").encode())
            self.assertEqual(reply.status, status, reply)
        self.assertIn("More than 100 header fields", self.daemon.anonymous().get("/openapi.json").json["info"]["description"])
