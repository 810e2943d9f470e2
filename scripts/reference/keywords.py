"""The module `odradek.config.keywords`, rendered from the tables of the clients' settings.

A setting is declared once, with its name, type, default, bounds and documentation; its keyword is
the name of the attribute. Editors and type checkers need the keywords as `TypedDict`s in a source
file, so that file is rendered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from odradek.config.client import AdminConfig, ClientConfig
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.config.setting import ConfigError, ConfigType, Setting

HEAD = '''\
"""The settings of the clients as keyword arguments, for editors and type checkers.

Rendered from the tables of settings: `make reference` writes this module again. Constructors take
the keywords as `**settings: Unpack[ProducerKeywords]`, and accept every other name in
`client_names` as well. A value of None counts as not given; the type allows it where kafka-python
or aiokafka have None as the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

PartitionerLike = Callable[[str, bytes | None, bytes | None, int], int | None]
"""A function from topic, serialized key and value, and the number of partitions to one of these, or
to None for the partition that the producer would choose without the function."""
'''
TYPES = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.INT: "int",
    ConfigType.LONG: "int",
    ConfigType.DOUBLE: "float",
    ConfigType.LIST: "str | Sequence[str]",
}


def page() -> str:
    """The source of the module."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD.rstrip()
    common = ClientConfig.declared.values()
    yield from _typed_dict("ClientKeywords", "TypedDict", "The settings of all clients.", common)
    for kind in (ProducerConfig, ConsumerConfig, AdminConfig):
        own = [each for name, each in kind.declared.items() if name not in ClientConfig.declared]
        name = f"{kind.__name__.removesuffix('Config')}Keywords"
        docstring = f"The settings of {'an' if kind is AdminConfig else 'a'} {kind.kind}."
        yield from _typed_dict(name, "ClientKeywords", docstring, own)


def _typed_dict(
    name: str, base: str, docstring: str, settings: Iterable[Setting[Any]]
) -> Iterator[str]:
    yield f"\n\nclass {name}({base}, total=False):"
    yield f'    """{docstring}"""\n'
    for setting in settings:
        yield f"    {setting.attribute}: {setting.keyword or annotation(setting)}"


def annotation(setting: Setting[Any]) -> str:
    """The type of a setting's values as a keyword argument."""
    if setting.kind in TYPES:
        return TYPES[setting.kind]
    choices = [
        choice for check in setting.validators for choice in check.choices if takes(setting, choice)
    ]
    if choices:
        quoted = ", ".join(f'"{choice}"' for choice in choices)
        return f"Literal[{quoted}]"
    return "str | None" if setting.default is None else "str"


def takes(setting: Setting[Any], text: str) -> bool:
    """True if the setting accepts this value."""
    try:
        setting.parse(text)
    except ConfigError:
        return False
    return True
