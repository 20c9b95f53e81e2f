"""The ways to the points of transcripts that are staged before their commit: imports."""

from point_cases import Case


class Import(Case):
    points = ("staged.written", "staged.written:3", "staged.synced", "staged.synced:2", "staged.renamed", "staged.renamed:2")

    def drive(self):
        for number in range(6):
            key = f"agent:main:session:imported-{number}"
            if not self.me.take_in(key, f"imported-{number}", [f"brought {number} {n} " + "x" * 3000 for n in range(5)]):
                return
            if not self.me.say(key, "more"):
                return


CASES = (Import,)
