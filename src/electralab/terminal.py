"""Text from outside -> text that cannot give orders to a terminal.

str -> str

File names, flags, settings, labels and documents are written by others. An escape sequence in them could colour, erase
or rewrite what a person sees, and a line break could forge a whole line of ours.
"""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Escape and the other control characters (C0, DEL, C1), but for tabs and the ends of lines; halves of characters, as
# which Python holds bytes that are not UTF-8.
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
_HALVES = range(0xD800, 0xE000)
# What turns the direction of writing, and what Unicode counts as the end of a line.
_DIRECTIONS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_LINE_ENDS = [0x2028, 0x2029]

_ORDERS: dict[int, str] = {**dict.fromkeys([*_CONTROLS, *_HALVES], _REPLACEMENT), ord("\r"): " "}
_LINE_ORDERS: dict[int, str] = {
    **_ORDERS,
    **dict.fromkeys([*_DIRECTIONS, *_LINE_ENDS], _REPLACEMENT),
    **dict.fromkeys(map(ord, "\t\n\r"), " "),
}
_ESCAPES: dict[int, str] = {code: f"\\u{code:04x}" for code in (*range(127, 160), *_HALVES, *_DIRECTIONS, *_LINE_ENDS)}


def tame(text: str) -> str:
    """A document, as far as a terminal can show it; every character keeps its place."""
    return text.translate(_ORDERS)


def tame_line(text: str) -> str:
    """A message, which is one line: no name in it can begin another, or turn the direction of writing."""
    return text.translate(_LINE_ORDERS)


def escape_json(line: str) -> str:
    """The same value, with the escapes of JSON for what its writer leaves as it is though a terminal obeys it."""
    return line.translate(_ESCAPES)
