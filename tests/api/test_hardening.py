"""What the release binary is built with, read from the binary itself; what leaves no trace there, from how it was compiled."""

import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from harness.sessiond import binary

runs = {"release"}

READELF = shutil.which("readelf") or shutil.which("llvm-readelf-19")


class Hardening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binary = Path(binary()).resolve()
        raw = cls.binary.read_bytes()
        if b"__asan_init" in raw or b"__tsan_init" in raw:
            raise unittest.SkipTest("a sanitizer build")
        if not READELF:
            raise unittest.SkipTest("neither readelf nor llvm-readelf-19 is installed")
        done = subprocess.run([READELF, "-W", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", cls.binary],
                              capture_output=True, text=True, check=True)
        cls.elf = done.stdout
        cls.imports = {re.sub(r"@.*", "", line.split()[7]) for line in cls.elf.splitlines() if " UND " in line and len(line.split()) > 7}
        cls.raw = raw

    def segment(self, kind):
        found = re.search(rf"^\s*{kind}\s.*$", self.elf, re.M)
        self.assertTrue(found, f"no {kind}")
        return found.group(0)

    def test_position_independent(self):
        self.assertRegex(self.elf, r"Type:\s+DYN")
        self.assertRegex(self.elf, r"\(FLAGS_1\).*PIE|FLAGS_1.*PIE")
        self.segment("INTERP")

    def test_full_relro(self):
        self.segment("GNU_RELRO")
        self.assertRegex(self.elf, r"BIND_NOW|\bNOW\b")

    def test_no_executable_stack_and_nothing_that_is_writable_and_executable(self):
        self.assertNotRegex(self.segment("GNU_STACK"), r"RWE|\sE\s")
        for line in re.findall(r"^\s*LOAD\s.*$", self.elf, re.M):
            self.assertNotRegex(line, r"RWE|W E")

    def test_no_search_path_of_its_own(self):
        self.assertNotRegex(self.elf, r"\((RPATH|RUNPATH)\)")

    def test_stack_protector(self):
        self.assertIn("__stack_chk_fail", self.imports)

    def test_fortified(self):
        checked = {name for name in self.imports if name.startswith("__") and name.endswith("_chk")}
        self.assertTrue(checked, "calls of libc that know the size of what they write to")

    def test_assertions_of_the_library(self):
        self.assertTrue(any("__glibcxx_assert_fail" in name for name in self.imports))

    def test_indirect_calls_land_on_marks(self):
        self.assertGreater(self.raw.count(b"\xf3\x0f\x1e\xfa"), 1000, "endbr64 at the start of functions")

    def test_what_leaves_no_trace(self):
        commands = self.binary.parent / "compile_commands.json"
        if not commands.exists():
            self.skipTest("the binary is not where it was built")
        ours = [c for c in json.loads(commands.read_text()) if "/tests/" not in c["file"]]
        self.assertGreater(len(ours), 10)
        for command in ours:
            for flag in ("-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection=full",
                         "-ftrivial-auto-var-init=zero", "-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fPI", "-fsanitize=cfi-"):
                self.assertIn(flag, command["command"], command["file"])
