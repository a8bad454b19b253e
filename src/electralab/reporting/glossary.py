"""Words that a page uses, for readers who meet them first.

-> HTML
"""

from html import escape

WORDS = {
    "token": "a word or a piece of one: what a model reads and writes.",
    "generator, discriminator": "two networks that are trained together: one fills in hidden tokens, the other says "
    "which tokens were filled in wrongly.",
    "loss": "how far answers are from the truth, in nats (natural units of information); smaller is better.",
    "AUC": "how often a replaced token looks more suspicious than an original one; 0.5 is chance, 1 is always.",
    "FLOPs": "arithmetic operations that training took: its cost, whatever the machine.",
    "seed": "what all luck of a run comes from; the same seed gives the same run, several show what is luck.",
    "held-out rows, dev set": "text or examples that training does not see, kept to judge by.",
    "trivial baseline": "what an answer reaches that needs no model, such as always the most frequent one.",
    "95 % interval": "where the true value is likely to lie; made so, 95 of 100 such intervals hold it.",
    "significant (Holm)": "unlikely to be luck, at 5 %, counted together with all other comparisons of the table.",
    "control": "the same measure of something that cannot hold the answer: only what exceeds it counts.",
    "untrained twin": "the same network before training: what it shows too was not learned.",
}


def show_words() -> str:
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(said)}</dd>" for word, said in WORDS.items())
    return f'<dl class="words">{items}</dl>'
