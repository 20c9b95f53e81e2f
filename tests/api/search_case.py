"""What tests of the search share: a word that nobody else says, a session, and looks at what is found."""

import urllib.parse

from harness.case import Case, S, uid
from harness.sessiond import eventually


def query(words, **more):
    return "/v1/search?" + urllib.parse.urlencode({"q": words, **more}, quote_via=urllib.parse.quote)


class SearchCase(Case):
    def setUp(self):
        super().setUp()
        self.word = "w" + uid().lower()
        self.key = f"agent:main:slack:direct:{uid().lower()}"

    def say(self, text, key=None, role="user", agent="main", topic=None, api=None):
        path = S(key or self.key, agent, "messages") + (f"?topic={topic}" if topic else "")
        return self.ok((api or self.api).post(path, {"role": role, "text": text}), 201)

    def make(self, key=None, agent="main", **fields):
        return self.ok(self.api.post(f"/v1/agents/{agent}/sessions", {"key": key or self.key, **fields}), 201)

    def page(self, words, api=None, **more):
        return self.ok((api or self.api).get(query(words, **more)), 200)

    def hits(self, words, api=None, **more):
        return [(hit["key"], hit["seq"]) for hit in self.page(words, api, **more)["data"]]

    def finds(self, words, wanted, api=None, **more):
        eventually(lambda: self.hits(words, api, **more) == wanted or None, timeout=20, what=f"{words} {wanted}")
