"""What tells words apart in the scripts of the world, as ranges for regular expressions."""

import re

SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Thai, Lao, Burmese, Khmer, kana, ideographs: scripts that leave no space between words."""

WIDE_PUNCTUATION = "\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
"""The stops, brackets and spaces that go with ideographs."""

HANGUL = "\uac00-\ud7a3"
"""Korean, whose characters are syllables."""

MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0971-\u09e3\u0a01-\u0a4d\u0a81-\u0acd\u0b01-\u0dff"
"""Signs that stand on letters, and the scripts of India, whose words they hold together."""

UNIT = re.compile(f"[{SPACELESS}]|[^\\s{SPACELESS}]+")
"""A word; where there are no spaces between words, a character."""
