"""Random JSON texts for a schema, valid and invalid, to compare two parsers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pyspark.sql import types as sql

NUMBERS = (
    *("0", "-0", "1", "-1", "127", "128", "200", "255", "256", "-128", "-129", "32767"),
    *("32768", "-32769", "2147483647", "2147483648", "-2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e2", "1E2"),
    *("1.0", "-0.0", "0.1", "1.005", "-1.005", "0.001", "1e400", "-1e400", "1e-400"),
    *("1.5e300", "12345678901234567890", "16777217", "9007199254740993", "9007199791611905"),
    *("123456789012345678901234567.12345678905", "99999.995", "1e39", "01", "-01", "00"),
    *("1.", "1.e5", "0.x", "1.x", "0ex", "1.5ex", ".5", "+1", "-", "-x", "-.", "1e", "1e+"),
    *("1e+x", "0x1", "1x", "NaN", "-NaN", "NaNx", "Infinity", "-Infinity", "+Infinity"),
    *("INF", "-INF", "+INF", "Inf", "-Inf", "-Infinit", "1_0", "1e5x", "1e99999999999"),
)
STRINGS = (
    *('""', '"a"', "'a'", "''", '"é"', '"\U0001f600"', '"\\u0041"', '"\\ud800"', '"\\udc00x"'),
    *('"\\ud83d\\ude00"', '"\\ud83d"', '"\\q"', '"\\"', '"\t"', '"\x00"', '"\\u0000"', '"\\u00g0"'),
    *('"a\\n\\t\\"\\\\\\/\\b\\f\\rb"', "'it\\'s'", '"it\\\'s"', '"\x7f"', '"\u2028"', '"x', "'x"),
    *('"NaN"', '"Infinity"', '"-INF"', '"+INF"', '"INF"', '"1"', '"1.5"', '"1,000.5"', '"+1.5"'),
    *('".5"', '"5."', '"."', '"-"', '"1e2"', '" 1"', '"e1"', '"true"', '"null"', '"1e-3"', '"+"'),
    *('"aGVsbG8="', '"aGVsbG8"', '"aGVs bG8="', '"aG=="', '"aG="', '"aGVs\\nbG8="', '"####"'),
    *('"aGVsbG8=aGVs"', '"a"', '"ab"', '"abc"', '"===="', '"\\u0061GVsbG8="', '"aGV\x01"'),
)
TIMES = (
    *("2020-01-02", "2020-1-2", "2020", "2020-02", "2020-02-30", "2019-02-29", "20200102", "0000"),
    *("0001-01-01", "-0001-01-01", "+2020-01-01", "12345-01-01", "999999-12-31", "1234567", "180"),
    *("-180", "12345678", "-12345678", "-719162000", "99999999999", "2020-01-02T", "2020-01-02 x"),
    *("2020-01-02 03:04:05", "2020-01-02T03:04:05Z", "2020-01-02T03:04:05.123456Z", "0000-01-01T0"),
    *("2020-01-02T03:04:05.1234567+01:00", "2020-01-02T03:04:05-18:00", "2020-01-02 3:4:5"),
    *("2020-01-02T03:04:05+18:01", "2020-01-02T24:00:00", "2020-01-02T03:60:00", "2020-01-02T03"),
    *("2020-01-02T03:04", "2020-01-02 03:04:05 UTC+1", "2020-01-02 03:04:05 Europe/Prague"),
    *("2020-01-02 03:04:05 PST", "2020-01-02 03:04:05 XYZ", "2020-01-02 03:04:05+1:30", "T", ":"),
    *("2020-01-02 03:04:05GMT+01:00", "2020-01-02 03:04:05.GMT", "2020-01-02Z", " 2020-01-02 "),
    *("2020-03-08 02:30:00", "2020-11-01 01:30:00", "2020-03-29T02:30:00", "1883-11-18T12:03:00"),
    *("1500-02-29", "1900-01-01 00:00:00", "9999-12-31T23:59:59.999999Z", "2020-01-02T03:04:05.Z"),
    *("2020-01-02 03:04:05.000001", "2020-07-04T12:00:00", "2020-01-02t03:04:05Z", "2020-13-01"),
    *("2020-01-02T03:04:05+0130", "2020-01-02T03:04:05+01", "2020-01-02T03:04:05 +01:00"),
    *("294247-01-10T04:00:54Z", "294248-01-01T00:00:00Z", "-290308-01-01", "10000-07-01T00:00:00"),
)
WORDS = ("true", "false", "null", "tru", "nul", "falsey", "nullx", "True", "x", "None", "/**/1")
NOISE = "{}[],:\"'\\ \t\n\x00\x01x1-.eNItfnu0/#\ufeff"
SPACES = ("", "", "", "", "", " ", "\n", "\t ", "\r\n", "\x0b")


ROOTS = (
    "",
    " ",
    "\n",
    "null",
    " null ",
    "[]",
    "[{}]",
    "{}",
    "{",
    "[",
    "5",
    '"a"',
    "tru",
    "}",
    "nul",
)
AFTER = ("", " ", "\n", "}", "]", "x", ",", '{"a":1}', '{"a":', "\0", ' "', '},{"v":null', ',"z":1')
BEFORE = ("", "", "", " ", "\n", "\ufeff", "\0", ",", "x")
NO_UTF8 = (b"\xff", b"\xed\xa0\x80", b"\xed\xa0", b"\xe2\x82", b"\xc0\xaf", b"\xf4\x90\x80\x80")


def texts(schema: sql.StructType, count: int, seed: int) -> list[bytes]:
    """Return `count` values for the schema, the same for a seed."""
    maker = TextGenerator(Random(seed))
    return [maker.record(schema) for _ in range(count)]


class TextGenerator:
    """Generates random texts."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.any = random.choice

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def record(self, schema: sql.StructType) -> bytes:
        way = self.random.randrange(12)
        text = self.value(schema, wrong=0 if way < 3 else 15)
        if way >= 7:
            text = self.damaged(text)
        if way == 10:
            text = self.any(BEFORE) + text + self.any(AFTER)
        if way == 11 and self.chance(50):
            text = self.any(ROOTS)
        data = text.encode("utf-8", "surrogatepass")
        if self.chance(8):
            at = self.random.randint(0, len(data))
            data = data[:at] + self.any(NO_UTF8) + data[at:]
        return data

    def damaged(self, text: str) -> str:
        """Return the text truncated, or with a few characters added, removed or replaced."""
        first, last = sorted(self.random.randint(0, len(text)) for _ in range(2))
        changes: tuple[Callable[[], str], ...] = (
            lambda: text[:first],
            lambda: text[:first] + text[first + 1 :],
            lambda: text[:first] + self.any(NOISE) + text[first:],
            lambda: text[:first] + self.any(NOISE) + text[first + 1 :],
            lambda: text[:first] + text[last:],
            lambda: text[:first] + self.anything() + text[first:],
        )
        return self.any(changes)()

    def value(self, kind: sql.DataType, wrong: int) -> str:
        """Return a text for the type, or in `wrong` percent of the cases any text."""
        if self.chance(wrong):
            return self.anything()
        if wrong and self.chance(5):
            return "null"
        if isinstance(kind, sql.StructType):
            fields = self.random.sample(kind.fields, self.random.randint(0, len(kind.fields)))
            members = [(f.name, self.value(f.dataType, wrong)) for f in fields]
            return self.object(members, wrong)
        if isinstance(kind, sql.MapType):
            keys = self.random.sample(["k", "l", "", "\\u006b", "\U0001f600"], 3)
            return self.object([(key, self.value(kind.valueType, wrong)) for key in keys], wrong)
        if isinstance(kind, sql.ArrayType):
            return self.array(lambda: self.value(kind.elementType, wrong))
        return self.scalar(kind)

    def scalar(self, kind: sql.DataType) -> str:
        if isinstance(kind, (sql.DateType, sql.TimestampType, sql.TimestampNTZType)):
            return f'"{self.any(TIMES)}"'
        if isinstance(kind, sql.BooleanType):
            return self.any(("true", "false"))
        if isinstance(kind, sql.NumericType) and self.chance(90):
            if self.chance(50):
                return self.any(NUMBERS)
            fraction = self.any(("", "", f".{self.random.randrange(1000)}"))
            return f"{self.random.randint(-300, 300)}{fraction}"
        return self.any(STRINGS)

    def anything(self, depth: int = 0) -> str:
        way = self.random.randrange(9 if depth < 3 else 7)
        if way == 7:
            return self.array(lambda: self.anything(depth + 1))
        if way == 8:
            names = self.random.sample("abckz", 2)
            return self.object([(name, self.anything(depth + 1)) for name in names], 10)
        if way == 6:
            return f'"{self.any(TIMES)}"'
        return self.any((NUMBERS, NUMBERS, STRINGS, STRINGS, WORDS, WORDS)[way])

    def array(self, item: Callable[[], str]) -> str:
        items = [item() for _ in range(self.random.randrange(4))]
        return f"[{self.any(SPACES)}{','.join(items)}{self.any(SPACES)}]"

    def object(self, members: list[tuple[str, str]], wrong: int) -> str:
        if members and self.chance(wrong):  # One of them again.
            members = [*members, (self.any(members)[0], self.anything(2))]
        if self.chance(wrong):
            members = [*members, (self.any(("z", "A", "")), self.anything(2))]
        s, t = self.any(SPACES[: 11 if wrong else 9]), self.any(SPACES[:9])
        inner = f"{t},{s}".join(f'"{name}"{t}:{s}{text}' for name, text in members)
        return f"{{{s}{inner}{t}}}"
