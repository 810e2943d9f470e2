"""Declare a setting: its name, type, default, rules and documentation on one typed line.

    class TopicConfig(Settings):
        segment_bytes = integer("segment.bytes", GIB, at_least(MIB), doc="...")

`Setting` is a descriptor: `config.segment_bytes` is an `int` to mypy and a plain attribute at run
time; `TopicConfig.segment_bytes` is the declaration. Values arrive as text, as in Kafka's
configuration files and APIs, and are parsed by the rules of Kafka's own types: surrounding blanks
do not matter, `TRUE` is true, lists are separated by commas, integers are checked against the width
of their type.

A `Validator` is a rule that a parsed value must satisfy beyond its type. It returns the problem in
the words of Kafka's tools, or None, and never changes a value. Its `text` is the same rule as a
phrase for the documentation.

A setting in milliseconds may have coarser relatives (`log.roll.ms`, `log.roll.hours`): it is null
until set, and its `fallbacks` name the settings whose value counts then, each with its factor in
milliseconds. `settings.Settings.effective` reads a value through such a family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Generic, Required, TypedDict, TypeVar, Unpack, overload

if TYPE_CHECKING:
    from odradek.config.settings import Settings


T = TypeVar("T")
KIB, MIB, GIB = 1024, 1024**2, 1024**3
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class ConfigError(ValueError):
    """A setting has an unknown name or an invalid value; the message says which, where and why."""


class ConfigType(IntEnum):
    """The types of settings, with their codes in DescribeConfigs."""

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
    """The ways to change a value: a restart, AlterConfigs for one broker, or also for all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


WIDTHS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Validator(Generic[T]):
    """A rule: `problem(value)` returns None for a valid value; `text` is the rule as a phrase.

    Of a list it validates each element, or the `whole` list.
    """

    text: str
    problem: Callable[[T], str | None]
    whole: bool = False
    choices: tuple[str, ...] = ()
    """All valid values, if they can be listed."""


def at_least(low: float) -> Validator[Any]:
    """Numbers greater than or equal to `low`."""
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
    """Numbers from `low` to `high`, and one special value outside this range."""

    def problem(value: int) -> str | None:
        if value == special or low <= value <= high:
            return None
        return f"Value must be between {low} and {high} or equal to {special}"

    return Validator(f"{low} to {high}, or {special}", problem)


def one_of(*choices: str) -> Validator[str]:
    """One of these strings; case matters."""

    def problem(value: str) -> str | None:
        return None if value in choices else f"String must be one of: {', '.join(choices)}"

    text = "one of " + ", ".join(f"`{choice}`" for choice in choices)
    return Validator(text, problem, choices=choices)


def refused(reasons: Mapping[T, str]) -> Validator[T]:
    """All values but these, which Kafka has and Odradek does not support; with a reason each."""
    listed = ", ".join(f"`{str(value).lower()}`" for value in reasons)
    return Validator(f"not {listed} yet", lambda value: reasons.get(value))


def at_most_bytes(most: int) -> Validator[str]:
    """Text of at most so many bytes in UTF-8."""

    def problem(value: str) -> str | None:
        size = len(value.encode())
        return f"{size} bytes are too long" if size > most else None

    return Validator(f"at most {most} bytes", problem)


def matching(pattern: str, problem: str, text: str) -> Validator[str]:
    """Strings that the regular expression matches from end to end."""
    compiled = re.compile(pattern)
    return Validator(text, lambda value: None if compiled.fullmatch(value) else problem)


def exactly_one(problem: str) -> Validator[tuple[str, ...]]:
    """Lists of one element."""
    return Validator("one entry", lambda value: None if len(value) == 1 else problem, whole=True)


class SettingOptions(TypedDict, total=False):
    """The optional parts of a declaration."""

    doc: Required[str]
    update: UpdateMode
    sensitive: bool  # DescribeConfigs never shows the value
    hidden: bool  # valid but not listed: for tests
    hidden_unless_set: bool  # not listed as long as it has its default; so are all of ours
    ours: bool  # Kafka has no such setting
    fallbacks: tuple[tuple[Setting[Any], int], ...]  # settings that count while this one is null
    broker: Setting[Any] | None  # the broker's setting that counts for topics without a value
    keyword: str  # the type of a client's keyword argument, if it differs from that of the values


class Setting(Generic[T]):
    """One declared setting. `name` is Kafka's; `attribute` is its name in Python."""

    def __init__(
        self,
        name: str,
        kind: ConfigType,
        default: T,
        validators: tuple[Validator[Any], ...],
        **options: Unpack[SettingOptions],
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.validators = validators
        self.doc = options["doc"]
        self.update = options.get("update", UpdateMode.READ_ONLY)
        self.sensitive = options.get("sensitive", False)
        self.hidden = options.get("hidden", False)
        self.ours = options.get("ours", False)
        self.hidden_unless_set = options.get("hidden_unless_set", self.ours)
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
        # An instance has the value in its dictionary, which takes precedence over this descriptor.
        if instance is None:
            return self
        raise AttributeError(f"{self.name} has no value")

    def family(self) -> tuple[tuple[Setting[Any], int], ...]:
        """The settings that give this one its value: itself and its fallbacks, in order.

        The first that is not null counts. Each comes with the factor to this setting's unit.
        """
        return ((self, 1), *self.fallbacks)

    def parse(self, text: str) -> T:
        """Parse and validate a value. Raises `ConfigError` in the words of Kafka's tools."""
        value: Any
        if self.kind is ConfigType.LIST:
            value = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        else:
            value = self._scalar(text.strip())
        for validator in self.validators:
            self._validate(validator, value, text)
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

    def _validate(self, validator: Validator[Any], value: object, text: str) -> None:
        for part in value if isinstance(value, tuple) and not validator.whole else (value,):
            problem = validator.problem(part)
            if problem is not None:
                raise self.invalid(part if isinstance(part, str) else text, problem)

    def invalid(self, text: str, problem: str) -> ConfigError:
        """The error for an invalid value."""
        return ConfigError(f"Invalid value {text} for configuration {self.name}: {problem}")

    def text(self, value: T) -> str | None:
        """Format a parsed value as DescribeConfigs shows it; None for null."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return double_text(value) if isinstance(value, float) else str(value)


def double_text(value: float) -> str:
    """Format a double as Java does: 1.0E7 from ten million on, 1.0E-4 below a thousandth."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    from decimal import Decimal  # Only here: such numbers are rare.

    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def integer(
    name: str, default: int, *validators: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """32 bits, signed."""
    return Setting(name, ConfigType.INT, default, validators, **options)


def short(
    name: str, default: int, *validators: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """16 bits, signed."""
    return Setting(name, ConfigType.SHORT, default, validators, **options)


def optional_integer(
    name: str, *validators: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int | None]:
    """32 bits, signed; null until set."""
    return Setting(name, ConfigType.INT, None, validators, **options)


def long(
    name: str, default: int, *validators: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int]:
    """64 bits, signed."""
    return Setting(name, ConfigType.LONG, default, validators, **options)


def optional_long(
    name: str, *validators: Validator[int], **options: Unpack[SettingOptions]
) -> Setting[int | None]:
    """64 bits, signed; null until set."""
    return Setting(name, ConfigType.LONG, None, validators, **options)


def double(
    name: str, default: float, *validators: Validator[float], **options: Unpack[SettingOptions]
) -> Setting[float]:
    """A finite decimal number."""
    return Setting(name, ConfigType.DOUBLE, default, validators, **options)


def boolean(
    name: str, default: bool, *validators: Validator[bool], **options: Unpack[SettingOptions]
) -> Setting[bool]:
    """`true` or `false` in any case of letters."""
    return Setting(name, ConfigType.BOOLEAN, default, validators, **options)


def string(
    name: str, default: str, *validators: Validator[str], **options: Unpack[SettingOptions]
) -> Setting[str]:
    """Any text, without surrounding blanks."""
    return Setting(name, ConfigType.STRING, default, validators, **options)


def optional_string(
    name: str, *validators: Validator[str], **options: Unpack[SettingOptions]
) -> Setting[str | None]:
    """Any text, without surrounding blanks; null until set."""
    return Setting(name, ConfigType.STRING, None, validators, **options)


def choice(
    name: str,
    default: str,
    choices: tuple[str, ...],
    *validators: Validator[str],
    **options: Unpack[SettingOptions],
) -> Setting[str]:
    """One of a few strings."""
    return Setting(name, ConfigType.STRING, default, (one_of(*choices), *validators), **options)


def strings(
    name: str,
    default: tuple[str, ...],
    *validators: Validator[str] | Validator[tuple[str, ...]],
    **options: Unpack[SettingOptions],
) -> Setting[tuple[str, ...]]:
    """Strings separated by commas."""
    return Setting(name, ConfigType.LIST, default, validators, **options)


def setting_text(value: object) -> str:
    """Format a Python value as the text of a setting; booleans are `true` and `false`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
