"""The ways to the points of transcripts that are staged before their commit: imports, forks, transcripts that are replaced."""

from point_cases import Case

STAGED = ("staged.written", "staged.written:3", "staged.synced", "staged.synced:2", "staged.renamed", "staged.renamed:2")


def texts(what, number):
    return [f"{what} {number} {n} " + "x" * 3000 for n in range(5)]


class Import(Case):
    points = STAGED

    def drive(self):
        for number in range(6):
            key = f"agent:main:session:imported-{number}"
            if not self.me.take_in(key, f"imported-{number}", texts("brought", number)):
                return
            if not self.me.say(key, "more"):
                return


class Staging(Case):
    """A session at rest, from which each request makes another one, or a new transcript."""
    points = (*STAGED, "archive.renamed", "journal.written:2", "transcript.written:2")
    key = "agent:main:session:00000000-0000-4000-8000-000000000000"

    def prepare(self):
        super().prepare()
        self.start()
        assert self.me.take_in(self.key, self.key[-36:], texts("first", 0))
        self.stop()

    def drive(self):
        for number in range(6):
            if not self.change(number) or not self.me.say(self.key, f"more {number}"):
                return


class Fork(Staging):
    points = (*STAGED, "journal.written:2", "transcript.written:2")

    def change(self, number):
        key = f"agent:main:forks:{number}"
        return self.me.fork(self.key, key) and self.me.say(key, "in the fork")


class ReplaceByImport(Staging):
    def change(self, number):
        return self.me.take_in_again(self.key, texts("replaced", number))


class ReplaceByPut(Staging):
    def change(self, number):
        return self.me.replace(self.key, texts("put", number))


CASES = (Import, Fork, ReplaceByImport, ReplaceByPut)
