"""Text to train on, made on the spot: common words in random order."""
# SPDX-License-Identifier: Apache-2.0
import random

WORDS = "the of and to in a is that for it as was with be by on not he his but at are this have from".split()


def write_random_text(file, seed=1, sentences=400):
    """The same file for the same seed and number of sentences, one sentence a line."""
    chance = random.Random(seed)
    with open(file, "w", encoding="utf-8") as out:
        for _ in range(sentences):
            out.write(" ".join(chance.choice(WORDS) for _ in range(chance.randrange(5, 40))) + ".\n")
