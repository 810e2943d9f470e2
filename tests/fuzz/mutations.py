"""Changes to the tokens of a message that leave the rest of it well-formed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from fuzz.tokens import Token, joined, sized, varint

SIZES = (-1, 0, 1, 2, 7, 127, 128, 255, 1000, 32767, 65535, 199_999, 2**24, 2**31 - 2, 2**31, 2**40)
VARINTS = (
    b"\x80" * 4 + b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff" * 10,
    b"\x80",
)
Mutation = Callable[[Random, list[Token]], list[Token]]


def wrong_size(random: Random, tokens: list[Token]) -> list[Token]:
    """Change a count, a length or a number of tags."""
    at = _any_of(random, tokens, ("count", "length", "tags", "tag"))
    if at < 0:
        return tokens
    token = tokens[at]
    if token.wide == "v" and random.random() < 0.4:
        data = random.choice(VARINTS)
    else:
        data = sized(random.choice(SIZES), token.wide)
    return [*tokens[:at], replace(token, data=data), *tokens[at + 1 :]]


def other_bytes(random: Random, tokens: list[Token]) -> list[Token]:
    """Replace the bytes of one token: numbers at their limits, text that is not UTF-8."""
    if not tokens:
        return tokens
    at = random.randrange(len(tokens))
    data = bytearray(tokens[at].data)
    if data:
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xC3, 0xFF))
    return [*tokens[:at], replace(tokens[at], data=bytes(data)), *tokens[at + 1 :]]


def repeated(random: Random, tokens: list[Token]) -> list[Token]:
    """Repeat a run of tokens, as an array that grew; its count may or may not match."""
    if not tokens:
        return tokens
    at = _any_of(random, tokens, ("count",))
    start = at + 1 if at >= 0 else random.randrange(len(tokens))
    stop = min(len(tokens), start + random.choice((1, 2, 5, 20)))
    times = random.choice((1, 2, 10, 300))
    before = tokens[:start]
    if at >= 0 and random.random() < 0.7:
        count = random.choice((times, times + 1, 2 * times))
        before[at] = replace(tokens[at], data=sized(count, tokens[at].wide))
    return [*before, *tokens[start:stop] * times, *tokens[stop:]]


def dropped(random: Random, tokens: list[Token]) -> list[Token]:
    """Remove a run of tokens."""
    start = random.randrange(len(tokens) + 1)
    return tokens[:start] + tokens[start + random.choice((1, 2, 5)) :]


def swapped(random: Random, tokens: list[Token]) -> list[Token]:
    """Swap two tokens."""
    if len(tokens) < 2:
        return tokens
    one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    mixed = list(tokens)
    mixed[one], mixed[other] = mixed[other], mixed[one]
    return mixed


def unknown_tags(random: Random, tokens: list[Token]) -> list[Token]:
    """Add a tag section of unknown fields, some with a wrong size."""
    at = _any_of(random, tokens, ("tags",))
    if at < 0:
        return tokens
    count = random.choice((1, 2, 100, 1000))
    body = b""
    for _ in range(count):
        content = random.randbytes(random.choice((0, 1, 9)))
        size = len(content) if random.random() < 0.995 else random.choice((2**31, 127, 2**32 - 1))
        body += varint(random.choice((0, 1, 2, 77, 2**32 - 1))) + varint(size) + content
    section = replace(tokens[at], data=varint(count) + body)
    return [*tokens[:at], section, *tokens[at + 1 :]]


def noise(random: Random, tokens: list[Token]) -> list[Token]:
    """Insert random bytes."""
    at = random.randrange(len(tokens) + 1)
    return [*tokens[:at], Token("bytes", random.randbytes(random.randrange(1, 30))), *tokens[at:]]


MUTATIONS: tuple[Mutation, ...] = (
    wrong_size,
    wrong_size,
    other_bytes,
    repeated,
    dropped,
    swapped,
    unknown_tags,
    noise,
)


def mutated(random: Random, tokens: list[Token]) -> bytes:
    """Return the message's bytes after one to four mutations, sometimes truncated."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        tokens = random.choice(MUTATIONS)(random, tokens)
    data = joined(tokens)
    if random.random() < 0.15:
        data = data[: random.randrange(len(data) + 1)]
    return data


def _any_of(random: Random, tokens: list[Token], kinds: tuple[str, ...]) -> int:
    found = [at for at, token in enumerate(tokens) if token.kind in kinds]
    return random.choice(found) if found else -1
