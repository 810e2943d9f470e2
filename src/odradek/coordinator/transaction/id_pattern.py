"""IdPattern: a regular expression of RE2 that selects transactional ids, in linear time.

A client chooses pattern and ids, and Python's own matcher may take exponential time for a few
characters while nothing else runs. So only the parser is Python's; the pattern is matched by its
automaton, character by character, with all states at once (Thompson). A pattern may have
`MAX_LENGTH` characters and an automaton of `MAX_STATES`, which bounds the time for each character.

Of RE2's syntax these differ: of Unicode classes the general categories are known (`\\pL`,
`\\p{Lu}`), and other names are taken as the first word of a character's name (`\\p{Greek}`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

parser: Any = import_module("re._parser")
opcodes: Any = import_module("re._constants")

MAX_LENGTH: Final = 1_000
"""Parsing a pattern takes about a microsecond for each character."""
MAX_STATES: Final = 5_000
QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
UNICODE_CLASS = re.compile(r"\\([pP])(?:([A-Z])|\{(\^?)([A-Z][A-Za-z_]*)\})")
ONE_CHARACTER = re.compile(r"\\(?:[zC]|[^A-Za-z0-9])|\[\^?\]?[^\]]*\]")
NOT_IN_RE2 = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P=)|\\[1-9Z]|[*+?}]\+")
FIRST_PLACE: Final = 0xF_0000
"""Private characters stand for the Unicode classes of a pattern while it is parsed."""

Accepts = Callable[[str], bool]


class InvalidPattern(ValueError):
    """The text is not a regular expression of RE2, or too long."""


class IdPattern:
    """Raises `InvalidPattern`."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InvalidPattern(f"a pattern of {len(text)} characters; {MAX_LENGTH} are allowed")
        plain = QUOTED.sub(lambda quoted: re.escape(quoted[1]), text)
        self._classes: dict[str, Accepts] = {}
        plain = UNICODE_CLASS.sub(self._unicode_class, plain)
        if NOT_IN_RE2.search(ONE_CHARACTER.sub("x", plain)):
            raise InvalidPattern("it has what RE2 does not have")
        plain = re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", plain)
        plain = re.sub(r"(?<!\\)((?:\\\\)*)\\C", r"\1[\\s\\S]", plain)
        try:
            parsed = parser.parse(plain)
            self._flags = parsed.state.flags
            self._states: list[PatternState] = []
            self._start = self._sequence(parsed, self._add(PatternState()))
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidPattern(str(error)) from error

    def matches(self, text: str) -> bool:
        """True if the pattern matches the whole text."""
        states = self._states
        present = self._closure((self._start,), 0, text)
        for position, character in enumerate(text, 1):
            following = [
                states[number].then[0]
                for number in present
                if states[number].accepts is not None and states[number].takes(character)
            ]
            present = self._closure(following, position, text)
        return 0 in present

    def _closure(self, numbers: Iterable[int], position: int, text: str) -> dict[int, None]:
        """The states that are reached without another character."""
        reached: dict[int, None] = {}
        left = list(numbers)
        while left:
            number = left.pop()
            if number in reached:
                continue
            reached[number] = None
            state = self._states[number]
            if state.accepts is None and (state.at is None or state.at(position, text)):
                left.extend(state.then)
        return reached

    # -- the automaton, made from its end ----------------------------------------------------------

    def _add(self, state: PatternState) -> int:
        if len(self._states) >= MAX_STATES:
            raise InvalidPattern("its repetitions make it too large")
        self._states.append(state)
        return len(self._states) - 1

    def _sequence(self, parsed: Any, then: int) -> int:
        for operation, argument in reversed(list(parsed)):
            then = self._operation(operation, argument, then)
        return then

    def _operation(self, operation: Any, argument: Any, then: int) -> int:
        if operation in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT):
            least, most, repeated = argument
            return self._repeat(least, most, repeated, then)
        if operation is opcodes.SUBPATTERN:
            return self._sequence(argument[3], then)
        if operation is opcodes.BRANCH:
            starts = [self._sequence(each, then) for each in argument[1]]
            return self._add(PatternState(then=starts))
        if operation is opcodes.AT:
            return self._add(PatternState(at=PLACES[argument], then=[then]))
        return self._add(PatternState(accepts=self._accepts(operation, argument), then=[then]))

    def _repeat(self, least: int, most: int, parsed: Any, then: int) -> int:
        if most is opcodes.MAXREPEAT:
            loop = self._add(PatternState(then=[then]))
            self._states[loop].then.append(self._sequence(parsed, loop))
            then = loop
        else:
            for _ in range(most - least):
                then = self._add(PatternState(then=[self._sequence(parsed, then), then]))
        for _ in range(least):
            then = self._sequence(parsed, then)
        return then

    # -- characters --------------------------------------------------------------------------------

    def _unicode_class(self, found: re.Match[str]) -> str:
        negated = (found[1] == "P") != (found[3] == "^")
        accepts = unicode_class(found[2] or found[4])
        place = chr(FIRST_PLACE + len(self._classes))
        self._classes[place] = (lambda c: not accepts(c)) if negated else accepts
        return place

    def _accepts(self, operation: Any, argument: Any) -> Accepts:
        if operation is opcodes.ANY:
            return (lambda c: True) if self._flags & re.DOTALL else (lambda c: c != "\n")
        if operation is opcodes.LITERAL:
            return self._literal(chr(argument))
        if operation is opcodes.NOT_LITERAL:
            literal = self._literal(chr(argument))
            return lambda c: not literal(c)
        if operation is opcodes.IN:
            return self._one_of(argument)
        if operation is opcodes.RANGE:
            return self._range(*argument)
        if operation is opcodes.CATEGORY:
            return CATEGORIES[argument]
        raise InvalidPattern("it has what RE2 does not have")

    def _literal(self, literal: str) -> Accepts:
        if literal in self._classes:
            return self._classes[literal]
        if self._flags & re.IGNORECASE:
            folded = literal.casefold()
            return lambda c: c.casefold() == folded
        return lambda c: c == literal

    def _range(self, first: int, last: int) -> Accepts:
        low, high = chr(first), chr(last)
        if self._flags & re.IGNORECASE:
            return lambda c: low <= c <= high or low <= c.swapcase() <= high
        return lambda c: low <= c <= high

    def _one_of(self, members: list[tuple[Any, Any]]) -> Accepts:
        negated = bool(members) and members[0][0] is opcodes.NEGATE
        parts = [self._accepts(*member) for member in members[negated:]]
        return lambda c: any(part(c) for part in parts) is not negated


class PatternState:
    """One state: it takes a character, or (`accepts` is None) none at a place in the text."""

    __slots__ = ("accepts", "at", "known", "then")

    def __init__(
        self,
        accepts: Accepts | None = None,
        at: Callable[[int, str], bool] | None = None,
        then: list[int] | None = None,
    ) -> None:
        self.accepts = accepts
        self.at = at
        self.then = then or []
        self.known: dict[str, bool] = {}

    def takes(self, character: str) -> bool:
        """True if it takes this character, which it remembers."""
        found = self.known.get(character)
        if found is None:
            assert self.accepts is not None
            found = self.accepts(character)
            if len(self.known) < KNOWN_MAX:
                self.known[character] = found
        return found


KNOWN_MAX: Final = 256


def unicode_class(name: str) -> Accepts:
    """The characters of a general category, or whose names begin with a word."""
    if len(name) <= 2:
        return lambda c: unicodedata.category(c).startswith(name)
    word = name.upper() + " "
    return lambda c: unicodedata.name(c, "").startswith(word)


def is_word(character: str) -> bool:
    """True for `\\w`, which is ASCII in RE2."""
    return character.isascii() and (character.isalnum() or character == "_")


def at_boundary(position: int, text: str) -> bool:
    """True between a word and what is none."""
    before = position > 0 and is_word(text[position - 1])
    after = position < len(text) and is_word(text[position])
    return before != after


SPACES = "\t\n\f\r "
CATEGORIES: Final[dict[Any, Accepts]] = {
    opcodes.CATEGORY_DIGIT: lambda c: "0" <= c <= "9",
    opcodes.CATEGORY_NOT_DIGIT: lambda c: not "0" <= c <= "9",
    opcodes.CATEGORY_SPACE: lambda c: c in SPACES,
    opcodes.CATEGORY_NOT_SPACE: lambda c: c not in SPACES,
    opcodes.CATEGORY_WORD: is_word,
    opcodes.CATEGORY_NOT_WORD: lambda c: not is_word(c),
}
PLACES: Final[dict[Any, Callable[[int, str], bool]]] = {
    opcodes.AT_BEGINNING: lambda position, text: position == 0,
    opcodes.AT_BEGINNING_STRING: lambda position, text: position == 0,
    opcodes.AT_END: lambda position, text: position == len(text),
    opcodes.AT_END_STRING: lambda position, text: position == len(text),
    opcodes.AT_BOUNDARY: at_boundary,
    opcodes.AT_NON_BOUNDARY: lambda position, text: not at_boundary(position, text),
}
