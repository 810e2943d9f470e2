"""`-f help`: what templates and the JSON of records look like."""

from __future__ import annotations

import click

HELP = r"""
Templates, for `consume -f` to write and for `produce -f` to read (what is marked with *):

  %t topic             %p partition *      %o offset            %e leader epoch
  %k key *             %K its length       %v value *, also %s  %V its length, also %S
  %T time in ms *, %d  %h headers k=v,... *  %H how many        %% a percent sign
  \n \r \t \0 \\ \xFF

  %k{hex}  %v{base64}  %v{text} (for terminals)  %T{rfc3339}    only to write

Formats with names, to write: json and jsonl, table, raw.

A record as JSON, one a line (`consume --json`, `produce --json`):

  {"topic":"t","partition":0,"offset":7,"timestamp":1700000000000,"key":"k","value":"v",
   "headers":[{"key":"h","value":"x"}]}

  Bytes that are not UTF-8 stand under key_base64, value_base64. To write, a value is enough, and
  one that is not text is taken as its JSON. With `consume --meta-only` there are key_size and
  value_size instead, which `produce` does not read.
"""


def explained(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Tells what may be given, if that is what was asked."""
    if value == "help":
        click.echo(HELP.strip())
        ctx.exit(0)
    return value
