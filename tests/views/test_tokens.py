"""The view's estimate of tokens, a quarter of the code points, beside a tokenizer's count (gpt-tokenizer, o200k_base)."""

import texts
import transcripts
from harness.case import S
from planted import append
from spelling import said
from views import Views, tell


class Tokens(Views):
    def measured(self, story):
        """(tokens that the view estimates, without images; the texts of its rows)"""
        shown = self.view(story, "&prune=off")
        self.assertEqual(shown["context"]["source"], "estimate")
        rows = [said(row) for row in shown["system"] + shown["data"]]
        images = sum(count for _, count in rows)
        all_texts = [text for row, _ in rows for text in row]
        return shown["context"]["used"] - 2000 * images, all_texts

    def ratio(self, stories):
        measured = [self.measured(story) for story in stories]
        counted = sum(self.node("tokens.mjs", given=[{"texts": one} for _, one in measured]))
        estimated = sum(tokens for tokens, _ in measured)
        points = sum(len(text) for _, one in measured for text in one)
        return estimated / counted, {"estimated": estimated, "counted": counted, "characters": points}

    def test_the_whole_set_is_within_a_quarter(self):
        ratio, counts = self.ratio(self.stories)
        tell(transcripts=len(self.stories), **counts, ratio=f"{ratio:.3f}",
             mixture=",".join(f"{share}% {kind}" for kind, share in texts.MIXTURE.items()))
        self.assertTrue(0.75 <= ratio <= 1.25, ratio)

    def test_by_kind(self):
        for kind in texts.MIXTURE:
            stories = [transcripts.story(10_000 + n, self.seed, kind, turns=6) for n in range(10)]
            for story in stories:
                story.key += kind
                in_file = [{"type": "message", "message": line["message"]} for line in story.file
                           if isinstance(line, dict) and line["type"] == "message"]
                story.batches[:0] = [in_file] if in_file else []
                story.file = []
                append(self, self.api, story)
            ratio, counts = self.ratio(stories)
            tell(kind=kind, **counts, ratio=f"{ratio:.3f}")
            self.assertTrue(0.2 <= ratio <= 2, (kind, ratio))
