"""Java's regular expressions, for names of topics, by Python's `re`.

`subscribePattern` is a Java expression in Spark's Kafka source, and jobs bring theirs along. Most
of the two languages is the same. What differs is rewritten where names of topics (ASCII letters,
digits, `.`, `_`, `-`) leave no doubt:

    (?<name>…)  \\k<name>       named groups, and references to them
    \\Q…\\E                     what is between them as it stands
    \\p{Alpha}  \\P{Lu}  \\pL     classes of characters, as far as a name may hold them
    \\z                        the end

and what would silently mean something else in Python is refused: `&&` and a class within a class.
Everything else that only Java has, Python refuses by itself (flags in the middle, `\\R`, …).
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
    """What finds, in the name of a topic, what Java would find with `pattern`. Raises `ValueError`
    saying what is wrong with it."""
    try:
        return re.compile(Translation(pattern).text)
    except re.error as error:
        raise ValueError(f"{error.msg}") from None


class Translation:
    """An expression of Java's, rewritten from left to right; `text` is Python's."""

    def __init__(self, pattern: str) -> None:
        self.class_opened_at = -1
        """Where the character class began that is open; -1 outside of one."""
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
        """The members of a class. A negated one has the other characters of names: the complement
        cannot be written within a class, and names have no others."""
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
        """`[`, `]` and `&&`: literal characters, or the edges of a class."""
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
