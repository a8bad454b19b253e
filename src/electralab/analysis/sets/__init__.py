"""Small labelled sets of English that come along: made from templates by pure code, the same on every machine.

lexicon -> clauses -> Pair, TaggedSentence
pairs of words -> Analogy
sentences with their senses -> SenseSentence
a user's own file -> the same
"""
