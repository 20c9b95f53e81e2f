#!/usr/bin/env python3
"""A runner: takes what people said, asks a model, and brings its answer back. Python's standard library only.

    SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=… MODEL=gpt-5-mini ./runner.py main

The token has the role runner. Start as many runners as you like: each run goes to one of them. One that dies loses its lease, and another
one begins anew. Any server that speaks OpenAI's chat completions will do.
"""

import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request

SESSIOND = os.environ.get("SESSIOND_URL", "http://127.0.0.1:7433")
MODEL_SERVER = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = os.environ.get("MODEL", "gpt-5-mini")
LEASE_MS = int(os.environ.get("LEASE_MS", "30000"))
AWAY = (OSError, http.client.HTTPException, ValueError)  # a connection that failed or broke, an answer that is no JSON


class Refused(Exception):
    """The daemon says no."""


def post(url, token, body=None, timeout=60):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=timeout)


def ask(path, body=None):
    """One call of the daemon; a GET without a body. Repeated while the daemon is away or busy: every call here may come twice."""
    while True:
        try:
            with post(SESSIOND + path, os.environ["SESSIOND_TOKEN"], body) as reply:
                text = reply.read()
                return json.loads(text) if text else None
        except AWAY as error:
            if getattr(error, "code", 500) in range(400, 429):
                raise Refused(error.read().decode()) from None
            print(f"the daemon: {error}; trying again", file=sys.stderr)
            time.sleep(1)


class Run:
    """A run that we hold. Every call renews its lease."""

    def __init__(self, agent, run):
        self.run, self.calls = run, 0
        self.aborted, self.lost = False, None  # a person said so; somebody else has the run by now, or it has ended
        self.session = f"/v1/agents/{agent}/sessions/{urllib.parse.quote(run['key'], safe='')}"
        self.lock, self.ended = threading.Lock(), threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self):
        while not self.ended.wait(LEASE_MS / 3000):
            self.tell()

    def tell(self, *events):
        """Tells what happens. n lets the daemon know a call that comes again after a lost reply."""
        with self.lock:
            if self.lost or self.ended.is_set():
                return
            body = {"fence": self.run["lease"]["fence"], "n": self.calls + 1, "events": list(events)}
            try:
                heard = ask(f"{self.session}/runs/{self.run['runId']}/events", body)
            except Refused as error:
                self.lost = error
                return
            self.calls += 1
            self.aborted = self.aborted or heard["abort"]

    def finish(self, status, **more):
        """A finish that comes again after a lost reply gets the first one's reply."""
        self.ended.set()
        with self.lock:
            if self.lost:
                raise self.lost
            ask(f"{self.session}/runs/{self.run['runId']}/finish", {"fence": self.run["lease"]["fence"], "status": status, **more})

    def messages(self):
        """The conversation as this run's model is to see it: what came before, and what it is asked, but nothing that came later."""
        topic = "" if self.run["topic"] is None else "&topic=" + urllib.parse.quote(self.run["topic"])
        rows = ask(f"{self.session}/messages?view=llm&run={self.run['runId']}{topic}")["data"]
        return [{"role": row["role"], "content": text_of(row["content"])} for row in rows if row["role"] in ("system", "user", "assistant")]


def text_of(content):
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def complete(body):
    """Asks the model; twice more when its server is away or busy."""
    for pause in (0.5, 1, None):
        try:
            return post(MODEL_SERVER + "/chat/completions", os.environ.get("OPENAI_API_KEY", ""), body, timeout=300)
        except OSError as error:
            if pause is None or getattr(error, "code", 503) in range(400, 429):
                raise
            time.sleep(pause)


def answer(run):
    """Passes on what the model says while it says it. Stopped, it keeps what was said so far."""
    text = ""
    with complete({"model": run.run.get("model") or MODEL, "messages": run.messages(), "stream": True}) as stream:
        for line in stream:
            if run.aborted or run.lost or line.strip() == b"data: [DONE]":
                break
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise OSError(chunk["error"])
            said = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
            if said:
                text += said
                run.tell({"type": "text.delta", "text": said})
    return text


def work(run):
    try:
        run.tell({"type": "step.started", "step": 1})
        text = answer(run)
        run.tell({"type": "step.finished", "step": 1})
        run.finish("interrupted" if run.aborted else "done", entries=[{"role": "assistant", "text": text}] if text else [])
    except (Refused, KeyError, *AWAY) as error:
        code = "refused" if isinstance(error, Refused) else "provider_error"
        if '"view_too_large"' in str(error):
            code = "context_length"  # the next view is shorter
        run.finish("failed", error={"code": code, "message": str(error)})


if __name__ == "__main__":
    agent = sys.argv[1] if len(sys.argv) > 1 else "main"
    while True:
        try:
            if claimed := ask(f"/v1/agents/{agent}/runs/claim", {"waitMs": 25_000, "leaseMs": LEASE_MS}):
                work(Run(agent, claimed))
        except Refused as error:  # another runner has the run, say
            print(f"the daemon: {error}", file=sys.stderr)
            time.sleep(1)
