"""What the parts of this suite share: a daemon with random transcripts, and their views."""

import json
import os
import subprocess
import sys
from pathlib import Path

import transcripts
from harness.case import Case, S
from harness.npm import install
from harness.sessiond import Daemon
from planted import append, plant

HERE = Path(__file__).resolve().parent


def number(name, default):
    return int(os.environ.get(f"SESSIOND_VIEWS_{name}") or default)


def tell(**counts):
    print("     " + " ".join(f"{name} {count}" for name, count in counts.items()), flush=True)


class Views(Case):
    count = 200
    seed = 1
    odd = 0  # the share of messages that no provider takes as they are

    @classmethod
    def setUpClass(cls):
        cls.seed = number("SEED", cls.seed)
        cls.stories = [transcripts.story(n, cls.seed, odd=cls.odd) for n in range(number("COUNT", cls.count))]
        daemon = Daemon(cls.config)
        plant(daemon, cls.stories)
        cls.begin(daemon)
        for story in cls.stories:
            append(cls("run"), cls.api, story)

    def view(self, story, query=""):
        return self.ok(self.api.get(S(story.key, "main", "messages") + "?view=llm" + query), 200)

    def file_of(self, story):
        """The transcript file, with all its lines."""
        self.assertEqual(self.api.get(S(story.key, "main", "transcript")).status, 200)
        entry = self.ok(self.api.get(S(story.key)), 200)
        return self.daemon.agent_dir() / f"{entry['sessionId']}.jsonl"

    def node(self, script, *arguments, given=None):
        """What a script of this folder prints, as JSON."""
        installed = install(HERE)
        if given is not None:
            file = self.daemon.home / f"{script}.jsonl"
            file.write_text("".join(json.dumps(one) + "\n" for one in given))
            arguments = (str(file), *arguments)
        done = subprocess.run(["node", str(installed / script), *arguments], capture_output=True, text=True, timeout=600)
        sys.stderr.write(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def assertNothing(self, wrong):
        self.assertFalse(wrong, f"{len(wrong)} wrong:\n" + "\n".join(str(one) for one in wrong[:20]))
