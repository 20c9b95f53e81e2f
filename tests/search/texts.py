"""Texts in four languages, questions about them, and what a question finds by the contract: said again in Python, to hold the index against."""

import re

ENGLISH = "the quick brown fox said nothing about 100% of it, o'clock NEAR OR not -x a_b".split()
GERMAN = "die Straße GROẞ Füße Grüße am Ölmeer übergroß weiß ß Ä".split()
JAPANESE = ["日本語", "東京都", "です。", "吾輩は猫である", "本", "日本"]
CODE = ["std::move(x)", "a->b", "foo_bar", "if(x<3)", "#include", "{}", "\\n", "Σίσυφος", "İstanbul", "é", "é", "👩‍🚀"]
ALL = [ENGLISH, GERMAN, JAPANESE, CODE]


def folded(text):
    """Simple case folding, one code point to one, and runs of white space as one space."""
    def fold(char):
        for one in (char.casefold(), char.lower()):
            if len(one) == 1:
                return one
        return char
    return re.sub(r"\s+", " ", "".join(map(fold, text)))


def parts_of(question):
    """The words and phrases of a question."""
    parts = []
    for n, piece in enumerate(question.split('"')):
        parts += [folded(piece)] if n % 2 else [folded(word) for word in piece.split()]
    return [part for part in parts if part.strip()]


def matches(question, text):
    said = folded(text)
    return all(part in said for part in parts_of(question))


def a_text(chance):
    language = chance.choice(ALL)
    between = "" if language is JAPANESE else chance.choice([" ", " ", "  ", "\n", " \t "])
    return between.join(chance.choice(language) for _ in range(chance.randint(1, 9)))


def a_question(chance, texts):
    """Of what is in one of the texts, mostly."""
    text = chance.choice(texts) if texts else "nothing"
    at = chance.randrange(len(text))
    length = chance.choice([1, 1, 2, 2, 3, 3, 4, 5, 8, 12])
    kind = chance.randrange(6)
    if kind == 0:
        question = text[at:at + length].replace('"', " ")
    elif kind == 1:
        question = '"' + text[at:at + 2 * length].replace('"', " ") + '"'
    elif kind == 2:
        words = text.replace('"', " ").split() or ["x"]
        question = " ".join(chance.sample(words, min(len(words), 2)))
    elif kind == 3:
        question = chance.choice(chance.choice(ALL)).upper()
    elif kind == 4:
        question = chance.choice(["日", "ß", "e", "st", "no such words", "ss", "本語", "x <", "%", "_"])
    else:
        question = text[at:at + length].replace('"', " ").swapcase()
    return question if parts_of(question) else "e"
