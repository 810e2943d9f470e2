"""The tokens of a JSON text as Jackson's `ReaderBasedJsonParser` gives them with Spark's settings:
single quotes and NaN, Infinity, INF are allowed; comments, bare names and leading zeros are not.

A text is read as Java's strings are, in UTF-16 units: `java_text` makes one of bytes, `java_string`
makes a Python string of the units read.

Spark goes on after an error and asks for the next token. Which token comes then depends on how far
Jackson had read, so every error leaves the position where Jackson leaves it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn


class ConversionError(Exception):
    """A value that cannot be converted; `path` is its place, innermost first: `.name` of an
    object, `[0]` of an array, `['key']` of a map."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where}: {self.reason}" if where else self.reason


class MalformedJson(ConversionError):
    """A text that is not JSON."""


class PartialResult(ConversionError):
    """A value with a part that cannot be converted; `value` has the rest."""

    def __init__(self, value: Any, cause: ConversionError) -> None:
        super().__init__(cause.reason)
        self.value = value
        self.path = cause.path


MAX_DEPTH = 1000
MAX_NUMBER_LENGTH = 1000
MAX_NAME_LENGTH = 50_000
MAX_ERROR_TOKEN = 256

REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
SURROGATE = re.compile("[\ud800-\udfff]")

PLAIN = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
SPACE = re.compile(r"[ \t\n\r]*")
ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "f": "\f",
    "r": "\r",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "'": "'",
}
HEX = frozenset("0123456789abcdefABCDEF")
IDENTIFIER_PARTS = frozenset(
    ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Nd", "Sc", "Pc", "Mn", "Mc", "Cf")
)
IDENTIFIER_STARTS = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
IGNORED_CONTROLS = frozenset(map(chr, (*range(9), *range(0x0E, 0x1C), *range(0x7F, 0xA0))))


class Token(Enum):
    """The kinds of Jackson's tokens."""

    START_OBJECT = "an object"
    END_OBJECT = "the end of an object"
    START_ARRAY = "an array"
    END_ARRAY = "the end of an array"
    FIELD_NAME = "a name"
    STRING = "a string"
    INT = "a whole number"
    FLOAT = "a number with a fraction or exponent"
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


FIELD_NAME = Token.FIELD_NAME
LITERALS = {"t": ("true", Token.TRUE), "f": ("false", Token.FALSE), "n": ("null", Token.NULL)}


class JsonContext:
    """An open object or array, or the root."""

    __slots__ = ("depth", "index", "kind", "name", "parent")

    def __init__(self, parent: JsonContext | None, kind: str) -> None:
        self.parent = parent
        self.kind = kind
        """`{`, `[`, or nothing for the root."""
        self.index = -1
        self.name: str | None = None
        self.depth: int = 0 if parent is None else parent.depth + 1


class Tokens:
    """Reads the tokens of a text. Raises `MalformedJson` at an error; the next call goes on as
    Jackson does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = len(text)
        self.position = 0
        self.token: Token | None = None
        self.context = JsonContext(None, "")
        self.following: Token | None = None
        """After a name: the token of its value, which has already been read."""
        self.unread = False
        """True if the token is a string of which only the quote has been read."""
        self.string = ""
        self.number = ""

    @property
    def name(self) -> str | None:
        """The name of the current token; None in an array."""
        context = self.context
        if self.token is Token.START_OBJECT or self.token is Token.START_ARRAY:
            return None if context.parent is None else context.parent.name
        return context.name

    def next(self) -> Token | None:
        """Return the next token; None at the end, or in place of a malformed value."""
        if self.token is FIELD_NAME:
            token, self.following = self.following, None
            self.open(token)
            self.token = token
            return token
        if self.unread:
            self.finish_string()
        first = self.skip_space()
        if first is None:
            self.token = None
            return None
        if first == "}" or first == "]":
            return self.close(first)
        context = self.context
        context.index += 1
        if context.index > 0 and context.kind:
            first = self.skip_comma(first)
        if context.kind == "{":
            context.name = self.field_name(first)
            self.token = FIELD_NAME
            self.following = self.value(self.skip_colon())
            return FIELD_NAME
        token = self.value(first)
        self.open(token)
        self.token = token
        return token

    def skip_children(self) -> None:
        """Skip to the end of the object or array that was just opened, if one was."""
        if self.token is not Token.START_OBJECT and self.token is not Token.START_ARRAY:
            return
        opened = 1
        while opened:
            token = self.next()
            if token is None:
                return
            if token is Token.START_OBJECT or token is Token.START_ARRAY:
                opened += 1
            elif token is Token.END_OBJECT or token is Token.END_ARRAY:
                opened -= 1

    def text_of_string(self) -> str:
        """Return the text of a string token."""
        if self.unread:
            self.finish_string()
        return self.string

    def open(self, token: Token | None) -> None:
        if token is Token.START_OBJECT:
            self.context = JsonContext(self.context, "{")
        elif token is Token.START_ARRAY:
            self.context = JsonContext(self.context, "[")
        else:
            return
        if self.context.depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} objects and arrays within each other")

    def close(self, mark: str) -> Token:
        kind, token = ("{", Token.END_OBJECT) if mark == "}" else ("[", Token.END_ARRAY)
        if self.context.kind != kind or self.context.parent is None:
            self.fail(f"{mark!r} closes nothing")
        self.context = self.context.parent
        self.token = token
        return token

    def skip_space(self) -> str | None:
        """Read the next character that is not white space; None at the end of the root."""
        found = SPACE.match(self.text, self.position)
        assert found is not None
        at = found.end()
        if at == self.end:
            self.position = at
            if self.context.kind:
                self.fail("the text ends too early")
            return None
        self.position = at + 1
        character = self.text[at]
        if character < " ":
            self.fail(f"the control character {character!r} is no white space")
        if character == "/":
            self.fail("comments are not allowed")
        return character

    def skip_inner_space(self) -> str:
        """Read the next character that is not white space, within an object or array."""
        character = self.skip_space()
        if character is None:
            self.fail("the text ends too early")
        return character

    def skip_comma(self, first: str) -> str:
        if first != ",":
            self.fail(f"there is {first!r} where a comma should be")
        return self.skip_inner_space()

    def skip_colon(self) -> str:
        character = self.skip_inner_space()
        if character != ":":
            self.fail(f"there is {character!r} where a colon should be")
        return self.skip_inner_space()

    def field_name(self, first: str) -> str:
        if first != '"' and first != "'":
            self.fail(f"there is {first!r} where a name in quotes should be")
        name = self.quoted(first)
        if len(name) > MAX_NAME_LENGTH:
            self.fail(f"a name is longer than {MAX_NAME_LENGTH} characters")
        return name

    def value(self, first: str) -> Token:
        """Read the token that begins with this character; the text of a string stays unread."""
        if first == '"':
            self.unread = True
            return Token.STRING
        if first == "{":
            return Token.START_OBJECT
        if first == "[":
            return Token.START_ARRAY
        if first in LITERALS:
            word, token = LITERALS[first]
            self.match(word, 1)
            return token
        if "0" <= first <= "9" or first == "-":
            return self.parse_number()
        return self.odd_value(first)

    def odd_value(self, first: str) -> Token:
        if first == "'":
            self.string = self.quoted(first)
            return Token.STRING
        if first == "N" or first == "I":
            word = "NaN" if first == "N" else "Infinity"
            self.match(word, 1)
            return self.not_a_number(word)
        if first == "+":
            return self.signed_word(first)
        if is_identifier(first, IDENTIFIER_STARTS):
            self.unknown_word(first)
        return self.fail(f"there is {first!r} where a value should be")

    def match(self, word: str, read: int) -> None:
        """Read the rest of a word, which must end there."""
        while read < len(word):
            if self.position >= self.end or self.text[self.position] != word[read]:
                self.unknown_word(word[:read])
            self.position += 1
            read += 1
        if self.position < self.end:
            after = self.text[self.position]
            if after >= "0" and after not in "]}" and is_identifier(after):
                self.unknown_word(word)

    def unknown_word(self, begun: str) -> NoReturn:
        """Read to the end of the unknown word, and fail."""
        word = begun
        while self.position < self.end and is_identifier(self.text[self.position]):
            word += self.text[self.position]
            self.position += 1
            if len(word) >= MAX_ERROR_TOKEN:
                break
        self.fail(f"{java_string(word)!r} is no value")

    def not_a_number(self, word: str) -> Token:
        self.number = word
        return Token.FLOAT

    def signed_word(self, sign: str) -> Token:
        """Read `-INF`, `+Infinity` and the like, after the sign."""
        first = self.read("number")
        if first == "I":
            second = self.read("number")
            if second in "Nn":
                word = sign + ("INF" if second == "N" else "Infinity")
                self.match(word, 3)
                return self.not_a_number(word)
            first = second
        return self.fail(f"there is {first!r} after {sign} where a digit should be")

    def parse_number(self) -> Token:
        """Read a number whose first character was read."""
        start = self.position - 1
        found = NUMBER.match(self.text, start)
        if found is None:  # A minus without a digit.
            if self.position < self.end and self.text[self.position] == ".":
                self.position += 1
                self.fail("there is '.' where a digit should be")
            return self.signed_word("-")
        whole, fraction, exponent = found.groups()
        at = found.end()
        after = self.text[at] if at < self.end else ""
        if exponent is None and self.continues(whole, fraction, after):
            self.malformed_number(found, after)
        self.position = at
        self.number = found[0]
        # Jackson counts a missing part as -1 digits if a number begins with 0.
        missing = -1 if whole == "0" and (fraction or exponent) else 0
        length = len(whole)
        length += missing if fraction is None else len(fraction) - 1
        length += missing if exponent is None else len(exponent.lstrip("eE+-"))
        if length > MAX_NUMBER_LENGTH:
            self.fail(f"a number has more than {MAX_NUMBER_LENGTH} digits")
        return Token.INT if fraction is None and exponent is None else Token.FLOAT

    @staticmethod
    def continues(whole: str, fraction: str | None, after: str) -> bool:
        """True if the character after a number would have to be a part of it."""
        if fraction is None and (after == "." or (whole == "0" and "0" <= after <= "9")):
            return True
        return after in ("e", "E")

    def malformed_number(self, found: re.Match[str], after: str) -> NoReturn:
        """Fail at Jackson's position: it reads numbers that begin with 0, or run to the end of the
        text, with another method, which reads one character more."""
        whole, fraction, _ = found.groups()
        at = found.end()
        if "0" <= after <= "9":
            self.position = at
            self.fail("a number begins with 0")
        bad = at + 1
        if after in "eE" and self.text[bad : bad + 1] in ("+", "-"):
            bad += 1
        if whole == "0" or bad >= self.end:
            self.position = min(bad + 1, self.end)
        else:
            self.position = (found.start(2) if fraction is not None else at) + 1
        self.fail(f"there is no digit after {self.text[found.start() : bad]!r}")

    def finish_string(self) -> None:
        self.unread = False
        self.string = self.quoted('"')

    def quoted(self, quote: str) -> str:
        """Read the text between the quote that was read and the next."""
        found = PLAIN[quote].match(self.text, self.position)
        assert found is not None
        at = found.end()
        if at < self.end and self.text[at] == quote:
            self.position = at + 1
            return found[0]
        parts: list[str] = []
        while True:
            found = PLAIN[quote].match(self.text, self.position)
            assert found is not None
            parts.append(found[0])
            self.position = found.end()
            character = self.read("string")
            if character == quote:
                return "".join(parts)
            if character != "\\":
                self.fail(f"the control character {character!r} within a string")
            parts.append(self.escaped())

    def escaped(self) -> str:
        """Read the character of an escape whose backslash was read."""
        character = self.read("escape")
        if character != "u":
            if character not in ESCAPES:
                self.fail(f"the escape \\{character} is unknown")
            return ESCAPES[character]
        digits = ""
        for _ in range(4):
            digit = self.read("escape")
            if digit not in HEX:
                self.fail(f"there is {digit!r} in an escape where a hexadecimal digit should be")
            digits += digit
        return chr(int(digits, 16))

    def read(self, what: str) -> str:
        """Read the next character."""
        if self.position >= self.end:
            self.fail(f"the text ends within a {what}")
        character = self.text[self.position]
        self.position += 1
        return character

    def bytes_of_string(self) -> bytes:
        """Decode a Base64 string. As in Jackson, after an error the rest of the string is read with
        the next token."""
        if not self.unread:
            rest = iter(self.string)
            return self.decode_base64(lambda: next(rest, ""))
        decoded = self.decode_base64(self.base64_character)
        self.unread = False
        return decoded

    def decode_base64(self, read: Callable[[], str]) -> bytes:
        """Decode groups of four characters, with white space between the groups only. `read`
        returns the next character, an empty text at the end."""
        decoded = bytearray()
        while character := read():
            if character <= " ":
                continue
            group = ""
            while True:
                if character not in BASE64 and not (character == "=" and len(group) >= 2):
                    if not character and len(group) >= 2 and self.unread and group[-1] != "=":
                        self.position -= 1
                    self.fail(f"{character!r} is not of Base64, or not there")
                if group.endswith("=") and character != "=":
                    self.fail("padding of Base64 is followed by something else")
                group += character
                if len(group) == 4:
                    break
                character = read()
            bits = 0
            for character in group:
                bits = bits << 6 | BASE64.get(character, 0)
            decoded += bits.to_bytes(3, "big")[: 3 - group.count("=")]
        return bytes(decoded)

    def base64_character(self) -> str:
        """Read the next character of the current string; empty at its end."""
        character = self.read("string")
        if character == "\\":
            return self.escaped()
        return "" if character == '"' else character

    def fail(self, reason: str) -> NoReturn:
        raise MalformedJson(f"{reason} (character {self.position})")


BASE64 = {
    character: value
    for value, character in enumerate(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    )
}


def is_identifier(character: str, categories: frozenset[str] = IDENTIFIER_PARTS) -> bool:
    """True if Java counts it as part of an identifier, or as one of these categories."""
    if character in IGNORED_CONTROLS:
        return categories is IDENTIFIER_PARTS
    return unicodedata.category(character) in categories


def java_text(data: bytes) -> str:
    """Decode UTF-8 as Java does, to UTF-16 units; invalid bytes become U+FFFD."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        # Java counts an encoded surrogate as one invalid character, Python as two or three.
        text = ENCODED_SURROGATE.sub(REPLACEMENT, data).decode(errors="replace")
    if text.isascii():
        return text
    return BEYOND_BMP.sub(lambda found: surrogates(found[0]), text)


def surrogates(character: str) -> str:
    """Return the two UTF-16 units of a character."""
    rest = ord(character) - 0x10000
    return chr(0xD800 | rest >> 10) + chr(0xDC00 | rest & 0x3FF)


def java_string(units: str) -> str:
    """Return the characters of UTF-16 units; a lone surrogate becomes `?`, as in Java."""
    if units.isascii() or SURROGATE.search(units) is None:
        return units
    joined = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return SURROGATE.sub("?", joined)
