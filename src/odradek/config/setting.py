"""Declare a setting: its name, type, default, rules and documentation on one typed line.

    class TopicConfig(Settings):
        segment_bytes = integer("segment.bytes", GIB, at_least(MIB), doc="...")

`Setting` is a descriptor: `config.segment_bytes` is an `int` to mypy and a plain attribute at run
time; `TopicConfig.segment_bytes` is the declaration. Values arrive as text, as in Kafka's
configuration files and APIs, and are parsed by the rules of Kafka's own types: surrounding blanks
do not matter, `TRUE` is true, lists are separated by commas, integers are checked against the width
of their type.

A `Check` is a rule that a parsed value must satisfy beyond its type. It returns the problem in the
words of Kafka's tools, or None, and never changes a value. Its `text` is the same rule as a phrase
for the reference page.

A setting in milliseconds may have coarser relatives (`log.roll.ms`, `log.roll.hours`): it is null
until set, and its `fallbacks` name the settings whose value counts then, each with its factor in
milliseconds. `settings.Settings.effective` reads a value through such a family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Generic, Required, TypedDict, TypeVar, Unpack, overload

if TYPE_CHECKING:
    from odradek.config.settings import Settings


T = TypeVar("T")
KIB, MIB, GIB = 1024, 1024**2, 1024**3
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class ConfigError(ValueError):
    """A value or name that cannot stand; the message says what, where and what to do."""


class ConfigType(IntEnum):
    """Types with the codes that DescribeConfigs shows."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """When a value may change: by a restart, or also by AlterConfigs, for one broker or for all."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


WIDTHS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Validator(Generic[T]):
    """A rule: `problem(value)` is None where it holds; `text` is the rule as a phrase.

    For a list it looks at each element, unless it is about the `whole`.
    """

    text: str
    problem: Callable[[T], str | None]
    whole: bool = False
    choices: tuple[str, ...] = ()
    """All values that satisfy it, if they are few."""


def at_least(low: float) -> Validator[Any]:
    """Numbers of `low` and above."""
    return Validator(f"at least {low}", lambda value: _below(value, low))


def between(low: float, high: float) -> Validator[Any]:
    """Numbers from `low` to `high`, both included."""

    def problem(value: float) -> str | None:
        return _below(value, low) or (
            f"Value must be no more than {high}" if value > high else None
        )

    return Validator(f"{low} to {high}", problem)


def _below(value: float, low: float) -> str | None:
    return f"Value must be at least {low}" if value < low else None


def between_or(low: int, high: int, special: int) -> Validator[int]:
    """As `between`, and one value outside that means something else."""

    def problem(value: int) -> str | None:
        if value == special or low <= value <= high:
            return None
        return f"Value must be between {low} and {high} or equal to {special}"

    return Validator(f"{low} to {high}, or {special}", problem)


def one_of(*choices: str) -> Validator[str]:
    """Exactly one of the strings, in this case of letters."""

    def problem(value: str) -> str | None:
        return None if value in choices else f"String must be one of: {', '.join(choices)}"

    text = "one of " + ", ".join(f"`{choice}`" for choice in choices)
    return Validator(text, problem, choices=choices)


def refused(reasons: Mapping[T, str]) -> Validator[T]:
    """Values that Kafka knows and this broker cannot honour: refused with the reason, never
    ignored.
    """
    listed = ", ".join(f"`{str(value).lower()}`" for value in reasons)
    return Validator(f"not {listed} yet", lambda value: reasons.get(value))


def at_most_bytes(most: int) -> Validator[str]:
    """Texts that take no more in UTF-8."""

    def problem(value: str) -> str | None:
        size = len(value.encode())
        return f"{size} bytes are too long" if size > most else None

    return Validator(f"at most {most} bytes", problem)


def matching(pattern: str, problem: str, text: str) -> Validator[str]:
    """Strings that the regular expression matches as a whole."""
    compiled = re.compile(pattern)
    return Validator(text, lambda value: None if compiled.fullmatch(value) else problem)


def exactly_one(problem: str) -> Validator[tuple[str, ...]]:
    """Lists of one element."""
    return Validator("one entry", lambda value: None if len(value) == 1 else problem, whole=True)


class SettingOptions(TypedDict, total=False):
    """What a declaration may say beside name, type, default and checks."""

    doc: Required[str]
    update: UpdateMode
    sensitive: bool  # the value is never shown
    hidden: bool  # known and honoured, not listed: for tests
    ours: bool  # Kafka has no such setting
    fallbacks: tuple[tuple[Setting[Any], int], ...]
    broker: Setting[Any] | None  # whose value stands where a topic has none of its own
    keyword: str  # the type of a client's keyword argument, where it is not that of the values


class Setting(Generic[T]):
    """One declared setting. `name` is Kafka's; the attribute's name is Python's."""

    def __init__(
        self,
        name: str,
        kind: ConfigType,
        default: T,
        checks: tuple[Validator[Any], ...],
        **options: Unpack[SettingOptions],
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.validators = checks
        self.doc = options["doc"]
        self.update = options.get("update", UpdateMode.READ_ONLY)
        self.sensitive = options.get("sensitive", False)
        self.hidden = options.get("hidden", False)
        self.ours = options.get("ours", False)
        self.fallbacks = options.get("fallbacks", ())
        self.broker = options.get("broker")
        self.keyword = options.get("keyword", "")
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Setting[T]: ...
    @overload
    def __get__(self, instance: Settings, owner: type[object]) -> T: ...
    def __get__(self, instance: Settings | None, owner: type[object]) -> Setting[T] | T:
        # Values live in the instance's dictionary and shadow this: only the class gets here.
        if instance is None:
            return self
        raise AttributeError(f"{self.name} has no value")

    def family(self) -> tuple[tuple[Setting[Any], int], ...]:
        """Settings that say this one's value, first come first served, with the factor to this
        one's unit.
        """
        return ((self, 1), *self.fallbacks)

    def parse(self, text: str) -> T:
        """The value that `text` means. Raises `ConfigError` in the words of Kafka's tools."""
        value: Any
        if self.kind is ConfigType.LIST:
            value = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        else:
            value = self._scalar(text.strip())
        for check in self.validators:
            self._check(check, value, text)
        return value  # type: ignore[no-any-return]

    def _scalar(self, text: str) -> object:
        if self.kind is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self.invalid(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.kind is ConfigType.DOUBLE and REAL.fullmatch(text):
            return float(text)
        if self.kind in WIDTHS and INTEGER.fullmatch(text):
            number, limit = int(text), 1 << (WIDTHS[self.kind] - 1)
            if -limit <= number < limit:
                return number
        if self.kind is ConfigType.DOUBLE or self.kind in WIDTHS:
            raise self.invalid(text, f"Not a number of type {self.kind.name}")
        return text

    def _check(self, check: Validator[Any], value: object, text: str) -> None:
        for part in value if isinstance(value, tuple) and not check.whole else (value,):
            problem = check.problem(part)
            if problem is not None:
                raise self.invalid(part if isinstance(part, str) else text, problem)

    def invalid(self, text: str, problem: str) -> ConfigError:
        """The error for a value that breaks a rule."""
        return ConfigError(f"Invalid value {text} for configuration {self.name}: {problem}")

    def text(self, value: T) -> str | None:
        """A parsed value as DescribeConfigs shows it; None for null."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return double_text(value) if isinstance(value, float) else str(value)


def double_text(value: float) -> str:
    """A double as Java writes it: 1.0E7 from ten million on, 1.0E-4 below a thousandth."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def integer(
    name: str, default: int, *checks: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """32 bits, signed."""
    return Setting(name, ConfigType.INT, default, checks, **options)


def short(
    name: str, default: int, *checks: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """16 bits, signed."""
    return Setting(name, ConfigType.SHORT, default, checks, **options)


def optional_integer(
    name: str, *checks: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int | None]:
    """32 bits, signed; null until set."""
    return Setting(name, ConfigType.INT, None, checks, **options)


def long(
    name: str, default: int, *checks: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """64 bits, signed."""
    return Setting(name, ConfigType.LONG, default, checks, **options)


def optional_long(
    name: str, *checks: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int | None]:
    """64 bits, signed; null until set."""
    return Setting(name, ConfigType.LONG, None, checks, **options)


def double(
    name: str, default: float, *checks: Validator[float], **options: Unpack[SettingOptions]
) -> Setting[float]:
    """A finite decimal number."""
    return Setting(name, ConfigType.DOUBLE, default, checks, **options)


def boolean(
    name: str, default: bool, *checks: Validator[bool], **options: Unpack[SettingOptions]
) -> Setting[bool]:
    """`true` or `false` in any case of letters."""
    return Setting(name, ConfigType.BOOLEAN, default, checks, **options)


def string(
    name: str, default: str, *checks: Validator[str], **options: Unpack[SettingOptions]
) -> Setting[str]:
    """Any text, without surrounding blanks."""
    return Setting(name, ConfigType.STRING, default, checks, **options)


def optional_string(
    name: str, *checks: Validator[str], **options: Unpack[SettingOptions]
) -> Setting[str | None]:
    """Any text, without surrounding blanks; null until set."""
    return Setting(name, ConfigType.STRING, None, checks, **options)


def choice(
    name: str,
    default: str,
    choices: tuple[str, ...],
    *checks: Validator[str],
    **options: Unpack[SettingOptions],
) -> Setting[str]:
    """One of a few strings."""
    return Setting(name, ConfigType.STRING, default, (one_of(*choices), *checks), **options)


def strings(
    name: str,
    default: tuple[str, ...],
    *checks: Validator[str] | Validator[tuple[str, ...]],
    **options: Unpack[SettingOptions],
) -> Setting[tuple[str, ...]]:
    """Strings separated by commas; a check looks at each unless it is about the whole."""
    return Setting(name, ConfigType.LIST, default, checks, **options)


def setting_text(value: object) -> str:
    """Settings are text on the wire and in files; Python's booleans become Kafka's."""
    return str(value).lower() if isinstance(value, bool) else str(value)
