#!/usr/bin/env python3
"""A runner: takes what people said, asks a model, and brings its answer back. Python's standard library only.

    SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=… MODEL=gpt-5-mini ./runner.py main

The token has the role runner. Start as many runners as you like: each run goes to one of them. One that dies loses its lease, and another
one begins anew.
"""

import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

SESSIOND = os.environ.get("SESSIOND_URL", "http://127.0.0.1:7433")
TOKEN = os.environ["SESSIOND_TOKEN"]
MODEL_SERVER = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = os.environ.get("MODEL", "gpt-5-mini")
LEASE_MS = int(os.environ.get("LEASE_MS", "30000"))


class Refused(Exception):
    """An answer of the daemon that is no success."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.code = problem.get("code")


def ask(method, path, body=None, timeout=60):
    request = urllib.request.Request(SESSIOND + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", "Bearer " + TOKEN)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            text = reply.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        raise Refused(error.code, json.loads(error.read() or b"{}")) from None


class Run:
    """A run that we hold. Every call renews its lease."""

    def __init__(self, agent, run):
        self.run, self.calls, self.aborted = run, 0, False
        self.session = f"/v1/agents/{agent}/sessions/{urllib.parse.quote(run['key'], safe='')}"
        self.lock = threading.Lock()
        self.ended = threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self):
        while not self.ended.wait(LEASE_MS / 3000):
            self.tell()

    def tell(self, *events):
        """Tells what happens. n lets the daemon know a call that comes again after a lost reply."""
        with self.lock:
            body = {"fence": self.run["lease"]["fence"], "n": self.calls + 1, "events": list(events)}
            try:
                heard = ask("POST", f"{self.session}/runs/{self.run['runId']}/events", body)
            except (Refused, OSError) as error:
                self.aborted = True  # the lease may be lost: say no more
                print(f"run {self.run['runId']}: {error}", file=sys.stderr)
                return
            self.calls += 1
            self.aborted = self.aborted or heard["abort"]

    def finish(self, status, text="", error=None):
        self.ended.set()
        body = {"fence": self.run["lease"]["fence"], "status": status}
        if text:
            body["entries"] = [{"role": "assistant", "text": text}]
        if error:
            body["error"] = error
        with self.lock:
            return ask("POST", f"{self.session}/runs/{self.run['runId']}/finish", body)

    def messages(self):
        """The conversation as the model is to see it: the summary of what came before, then what fits into its window."""
        topic = "" if self.run["topic"] is None else "&topic=" + urllib.parse.quote(self.run["topic"])
        view = ask("GET", f"{self.session}/messages?view=llm{topic}")
        return [{"role": row["role"], "content": row["text"] if "text" in row else text_of(row)}
                for row in view["data"] if row["role"] in ("system", "user", "assistant")]


def text_of(row):
    content = row.get("content", "")
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def answer(run):
    """Asks the model, and passes on what it says while it says it."""
    body = {"model": run.run.get("model") or MODEL, "messages": run.messages(), "stream": True}
    request = urllib.request.Request(MODEL_SERVER + "/chat/completions", data=json.dumps(body).encode())
    request.add_header("Authorization", "Bearer " + os.environ.get("OPENAI_API_KEY", ""))
    request.add_header("Content-Type", "application/json")
    text = ""
    with urllib.request.urlopen(request, timeout=300) as stream:
        for line in stream:
            if run.aborted or line.strip() == b"data: [DONE]":
                break
            if not line.startswith(b"data: "):
                continue
            said = "".join(choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"])
            if said:
                text += said
                run.tell({"type": "text.delta", "text": said})
    return text


def work(agent):
    claimed = ask("POST", f"/v1/agents/{agent}/runs/claim", {"waitMs": 25_000, "leaseMs": LEASE_MS})
    if claimed is None:
        return
    run = Run(agent, claimed)
    try:
        run.tell({"type": "step.started", "step": 1})
        text = answer(run)
        run.tell({"type": "step.finished", "step": 1})
        run.finish("interrupted" if run.aborted else "done", text)
    except Refused as error:
        run.ended.set()
        print(f"run {claimed['runId']}: {error}", file=sys.stderr)
    except (OSError, ValueError, KeyError) as error:  # of the model's server
        run.finish("failed", error={"code": "provider_error", "message": str(error)})


if __name__ == "__main__":
    while True:
        try:
            work(sys.argv[1] if len(sys.argv) > 1 else "main")
        except (Refused, OSError) as error:
            print(f"the daemon: {error}; trying again", file=sys.stderr)
            threading.Event().wait(1)
