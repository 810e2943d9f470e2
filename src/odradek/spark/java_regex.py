"""Java's regular expressions for topic names, translated to Python's `re`.

`subscribePattern` is a Java expression in Spark's Kafka source, and existing jobs use such
patterns. The two languages are mostly the same. Differences are rewritten where topic names (ASCII
letters, digits, `.`, `_`, `-`) make the meaning unambiguous:

    (?<name>…)  \\k<name>       named groups, and references to them
    \\Q…\\E                     literal text
    \\p{Alpha}  \\P{Lu}  \\pL     character classes, limited to the characters of topic names
    \\z                        the end

Constructs that silently mean something else in Python are refused: `&&` and a class within a class.
Python refuses other constructs of Java by itself (flags in the middle, `\\R`, …).
"""

from __future__ import annotations

import re
import string

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
PUNCTUATION = "-._"
NAME_CHARACTERS = PUNCTUATION + DIGITS + UPPER + LOWER

CLASSES = {
    **dict.fromkeys(("Lower", "Ll", "IsLowercase", "javaLowerCase"), LOWER),
    **dict.fromkeys(("Upper", "Lu", "IsUppercase", "javaUpperCase"), UPPER),
    **dict.fromkeys(("Alpha", "L", "IsL", "IsAlphabetic", "IsLetter"), UPPER + LOWER),
    **dict.fromkeys(("Digit", "N", "Nd", "IsN", "IsNd", "IsDigit"), DIGITS),
    **dict.fromkeys(("Punct", "P", "IsP", "IsPunctuation"), PUNCTUATION),
    "Alnum": DIGITS + UPPER + LOWER,
    "XDigit": string.hexdigits,
    **dict.fromkeys(("Graph", "Print", "ASCII"), NAME_CHARACTERS),
}

TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)"
    r"|\\(?P<sign>[pP])(?:\{(?P<long>\w+)\}|(?P<short>\w))"
    r"|\\k<(?P<referred>\w+)>"
    r"|\(\?<(?P<named>[A-Za-z]\w*)>"
    r"|(?P<end>\\z)"
    r"|(?P<escaped>\\.)"
    r"|(?P<within>&&|[\[\]])",
    re.DOTALL,
)


def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a Java pattern to one that matches topic names as Java does. Raises `ValueError`."""
    try:
        return re.compile(Translation(pattern).text)
    except re.error as error:
        raise ValueError(f"{error.msg}") from None


class Translation:
    """A Java expression, rewritten from left to right; `text` is Python's."""

    def __init__(self, pattern: str) -> None:
        self.class_opened_at = -1
        """The position of the open character class; -1 outside of one."""
        self.pattern = pattern
        self.text = TOKEN.sub(self.token, pattern)

    def token(self, found: re.Match[str]) -> str:
        kind = found.lastgroup
        if kind == "quoted":
            return re.escape(found["quoted"])
        if kind in ("long", "short"):
            return self.named_class(found[kind], negated=found["sign"] == "P")
        if kind == "within":
            return self.bracket(found)
        if self.class_opened_at >= 0:
            return found[0]
        if kind == "referred":
            return f"(?P={found['referred']})"
        if kind == "named":
            return f"(?P<{found['named']}>"
        return r"\Z" if kind == "end" else found[0]

    def named_class(self, name: str, *, negated: bool) -> str:
        """Return the members of a class. A negated class has the other characters of topic names:
        a complement cannot be written within a class."""
        if name not in CLASSES:
            raise ValueError(f"no character class {name!r}; there are {', '.join(CLASSES)}")
        members = CLASSES[name]
        if negated:
            members = "".join(c for c in NAME_CHARACTERS if c not in members)
        if not members:
            members = "\0"
        inner = re.escape(members)
        return inner if self.class_opened_at >= 0 else f"[{inner}]"

    def bracket(self, found: re.Match[str]) -> str:
        """Handle `[`, `]` and `&&`: literal characters, or the edges of a class."""
        at, what = found.start(), found[0]
        if self.class_opened_at < 0:
            if what == "[":
                self.class_opened_at = at
            return what
        if what == "]":
            if self.pattern[self.class_opened_at : at].lstrip("[^"):
                self.class_opened_at = -1
            return what
        raise ValueError(
            f"{what} at {at} within a character class: intersections and classes within classes "
            "are Java's only; write the characters out"
        )
