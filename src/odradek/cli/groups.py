"""Command groups whose verbs have other names too: `ls` is also `list`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class AliasedGroup(click.Group):
    """`aliases` name commands of the group by other words; they are not shown in its help."""

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.aliases = dict(aliases or {})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))
