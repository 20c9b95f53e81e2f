"""A cell is a test: test_crossings.<Mode>_<operation>.test_<state>. A class has a daemon of its own."""

import os

from harness.case import Case
from judge import Judge
from operations import OPERATIONS
from scene import STATES

PART, PARTS = map(int, os.environ.get("SESSIOND_CROSSINGS_PART", "1/1").split("/"))


class Crossing(Case):
    operation = None
    mode = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.person = cls.daemon.client(cls.daemon.token("operator"))
        other = {"agents": ["main"], "keyPrefix": "agent:main:discord:"}
        cls.strangers = [cls.daemon.client(cls.daemon.token("operator", **limits))
                         for limits in (other, {"agents": ["other"]}, {"channel": "discord"})]

    def cross(self, state):
        scene = STATES[state](self)
        reply = self.operation.run(scene)
        scene.end_state()
        if reply is not None:
            told = reply.json or {}
            code = told.get("code", "") if reply.status >= 400 else "skipped" if told.get("skipped") else ""
            self.assertEqual(code, self.operation.refused.get(state, ""), reply)
        Judge(self, state, scene, self.operation).all()


def crossing(mode, name, operation):
    config = {"store": {"mode": mode}, "context": {"compaction": {"keepTurns": 2, "minMessages": 6}}}
    tests = {f"test_{state}": lambda self, state=state: self.cross(state) for state in STATES}
    return type(f"{mode.title()}_{name}", (Crossing,), {"operation": operation, "mode": mode, "config": config, **tests})


cell = 0
for mode in ("own", "shared"):
    for name, operation in OPERATIONS.items():
        made = crossing(mode, name, operation)
        for state in STATES:
            cell += 1
            if cell % PARTS != PART - 1:
                delattr(made, f"test_{state}")
        made.__module__ = __name__
        globals()[made.__name__] = made
del made
