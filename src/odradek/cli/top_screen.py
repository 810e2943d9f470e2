"""The screen of `odradek top`: what a key changes, and the lines for a size. No input, no output.

1 2 3 4, Tab    topics, groups, waiting, timers
a letter        sorts by the column that shows it; again: the other way round
/               filter: text that a row contains, Enter keeps it, Esc drops it
space           pause and go on
arrows, j k     scroll by a row; PgUp PgDn by a page
q, Ctrl-C       quit
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len, set_cell_size

from odradek.cli.top_figures import (
    COLUMNS,
    FIRST_SORT,
    Cell,
    Column,
    Figures,
    Row,
    View,
    matching_rows,
    sorted_rows,
)

VIEWS = tuple(View)
ENTER, ESCAPE, BACKSPACE = "enter", "escape", "backspace"
UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"
SCROLL = {UP: -1, "k": -1, DOWN: 1, "j": 1}
HEAD_LINES, FOOT_LINES = 4, 2
NARROWEST_NAME = 12
LONGEST_FILTER = 60


@dataclass(frozen=True, slots=True)
class Order:
    """How a view is sorted."""

    column: str
    turned: bool = False


@dataclass(frozen=True, slots=True)
class ScreenState:
    """What the keys have chosen."""

    view: View = View.TOPICS
    orders: Mapping[View, Order] = field(
        default_factory=lambda: {view: Order(column) for view, column in FIRST_SORT.items()}
    )
    filter: str = ""
    typing: bool = False
    paused: bool = False
    scroll: int = 0
    quit: bool = False


def press(state: ScreenState, key: str, page: int) -> ScreenState:
    """Return the state after a key; `page` is how many rows the screen shows."""
    if state.typing:
        return typed(state, key)
    if key == "q":
        return replace(state, quit=True)
    if key == "/":
        return replace(state, typing=True)
    if key == ESCAPE:
        return replace(state, filter="", scroll=0)
    if key == " ":
        return replace(state, paused=not state.paused)
    if key == "\t":
        return replace(state, view=VIEWS[(VIEWS.index(state.view) + 1) % len(VIEWS)], scroll=0)
    if key in ("1", "2", "3", "4"):
        return replace(state, view=VIEWS[int(key) - 1], scroll=0)
    step = SCROLL.get(key, {PAGE_UP: -page, PAGE_DOWN: page}.get(key, 0))
    if step:
        return replace(state, scroll=max(0, state.scroll + step))
    return ordered_by(state, key)


def typed(state: ScreenState, key: str) -> ScreenState:
    """Return the state after a key while a filter is typed."""
    if key == ENTER:
        return replace(state, typing=False)
    if key == ESCAPE:
        return replace(state, typing=False, filter="", scroll=0)
    if key == BACKSPACE:
        return replace(state, filter=state.filter[:-1], scroll=0)
    if len(key) == 1 and key.isprintable() and len(state.filter) < LONGEST_FILTER:
        return replace(state, filter=state.filter + key, scroll=0)
    return state


def ordered_by(state: ScreenState, key: str) -> ScreenState:
    """Return the state sorted by the column of a key; the other way round if it was already."""
    for column in COLUMNS[state.view]:
        if column.key and column.key == key:
            present = state.orders[state.view]
            turned = present.column == column.name and not present.turned
            return replace(
                state, orders={**state.orders, state.view: Order(column.name, turned)}, scroll=0
            )
    return state


# -- lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the screen; `style` is one of `plain`, `head`, `bold`, `warning`, `dim`."""

    text: str
    style: str = "plain"


def screen_lines(
    state: ScreenState,
    found: Figures | None,
    width: int,
    height: int,
    *,
    title: str,
    problem: str = "",
) -> list[Line]:
    """Return the `height` lines of a screen, each at most `width` cells wide."""
    lines = [Line(title_text(state, title, width), "bold"), tabs_line(state, found)]
    lines.append(Line(problem, "warning") if problem else Line(totals_text(found), "dim"))
    lines += table_lines(state, found, width, max(0, height - HEAD_LINES - FOOT_LINES))
    del lines[max(0, height - FOOT_LINES) :]
    lines += [Line("")] * (height - FOOT_LINES - len(lines))
    lines += foot_lines(state, found)
    return [replace(line, text=fitted(line.text, width).rstrip()) for line in lines[-height:]]


def page_rows(height: int) -> int:
    """Return the number of rows on a screen."""
    return max(1, height - HEAD_LINES - FOOT_LINES)


def title_text(state: ScreenState, title: str, width: int) -> str:
    mark = "PAUSED" if state.paused else ""
    return fitted(f"odradek top  {title}", max(0, width - len(mark))) + mark


def tabs_line(state: ScreenState, found: Figures | None) -> Line:
    tabs = []
    for number, view in enumerate(VIEWS, 1):
        count = "" if found is None else f" {found.counts[view]:,}"
        name = view.value.upper() if view is state.view else view.value
        tabs.append(f"{number} {name}{count}")
    return Line("   ".join(tabs), "plain")


def totals_text(found: Figures | None) -> str:
    if found is None:
        return "waiting for the first answer"
    parts = [f"{found.sample.brokers} broker{'' if found.sample.brokers == 1 else 's'}"]
    rate = "rates follow with the next sample"
    if found.messages_s is not None:
        rate = f"{shown_cell(found.messages_s, 'rate')} messages/s"
    parts.append(rate)
    if found.loop_lag_s is not None:
        parts.append(f"loop lag below {found.loop_lag_s * 1000:,.2f} ms")
    if found.sample.waiting is None:
        parts.append("waiting, timers: Odradek's brokers only")
    return "  ".join(parts)


def table_lines(state: ScreenState, found: Figures | None, width: int, room: int) -> list[Line]:
    """Return the heading of the present view and the rows that there is room for."""
    columns = shown_columns(present_columns(state.view, found), width)
    order = state.orders[state.view]
    lines = [Line(heading_text(columns, order, width), "head")]
    if found is None:
        return lines
    rows = matching_rows(found.rows[state.view], state.filter)
    ordered = sorted_rows(rows, state.view, order.column, turned=order.turned)
    first = min(state.scroll, max(0, len(ordered) - room))
    lines += [
        Line(row_text(row, columns, state.view, width)) for row in ordered[first : first + room]
    ]
    if not ordered:
        lines.append(Line(empty_text(state, found), "dim"))
    return lines


def empty_text(state: ScreenState, found: Figures) -> str:
    if state.filter and found.rows[state.view]:
        return f"none of {len(found.rows[state.view])} rows contains {clean(state.filter)!r}"
    if state.view in (View.WAITING, View.TIMERS) and found.sample.waiting is None:
        return "only Odradek's brokers show what waits in them"
    return "none"


def present_columns(view: View, found: Figures | None) -> list[Column]:
    """Return the columns of a view, without rare ones that have nothing to show."""
    columns = COLUMNS[view]
    rows = () if found is None else found.rows[view]
    return [
        column
        for number, column in enumerate(columns)
        if not column.rare or any(row[number] for row in rows)
    ]


def shown_columns(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit beside a name that can be read; the last ones give way."""
    shown = list(columns)
    while len(shown) > 1 and name_width(shown, width) < NARROWEST_NAME:
        shown.pop()
    return shown


def name_width(columns: Sequence[Column], width: int) -> int:
    return width - sum(1 + each.width for each in columns[1:])


def heading_text(columns: Sequence[Column], order: Order, width: int) -> str:
    texts = []
    for column in columns:
        mark = ""
        if column.name == order.column:
            mark = "▼" if column.descending is not order.turned else "▲"
        texts.append(mark + shown_name(column))
    return aligned(texts, columns, width)


def shown_name(column: Column) -> str:
    """Return the name of a column as the screen has it."""
    if column.name.endswith("_ms"):
        return column.name.replace("_ms", " ms")
    if column.name.endswith("_s"):
        return column.name.replace("_s", "/s")
    return column.name.replace("_", " ")


def row_text(row: Row, columns: Sequence[Column], view: View, width: int) -> str:
    index = {each.name: number for number, each in enumerate(COLUMNS[view])}
    texts = [shown_cell(row[index[each.name]], each.unit) for each in columns]
    return aligned(texts, columns, width)


def aligned(texts: Sequence[str], columns: Sequence[Column], width: int) -> str:
    """Return one line: text to the left, numbers to the right."""
    parts = [fitted(texts[0], max(0, name_width(columns, width)))]
    for text, column in zip(texts[1:], columns[1:], strict=True):
        if column.unit:
            room = max(0, column.width - cell_len(text))
            parts.append(" " * room + fitted(text, column.width - room))
        else:
            parts.append(fitted(text, column.width))
    return " ".join(parts)


def fitted(text: str, width: int) -> str:
    """Return the text in exactly `width` cells, with an ellipsis if it is longer."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def foot_lines(state: ScreenState, found: Figures | None) -> list[Line]:
    """Return the keys that sort, and the others."""
    columns = present_columns(state.view, found)
    sorts = " ".join(f"{each.key}:{shown_name(each)}" for each in columns if each.key)
    if state.typing:
        keys = Line(f"filter: {clean(state.filter)}_   Enter keeps it, Esc drops it", "bold")
    else:
        kept = f"/{clean(state.filter)} (Esc drops it)" if state.filter else "/ filter"
        keys = Line(f"q quit  1-4 view  space pause  arrows scroll  {kept}", "dim")
    return [Line(f"sort {sorts}", "dim"), keys]


def shown_cell(cell: Cell, unit: str) -> str:
    """Return a cell as text: a dash for what is not known, no control characters."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return clean(cell)
    if unit in ("bytes", "byte rate"):
        return short_number(cell, 1024, "B")
    if unit == "rate":
        return f"{cell:,.1f}" if cell < 100 else short_number(cell, 1000, "")
    if unit == "id":
        return str(cell)
    return f"{cell:,}" if len(f"{cell:,}") <= 13 else short_number(cell, 1000, "")


PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def short_number(number: float, step: int, unit: str) -> str:
    """Return `1.4 MB`, or `12,345` below a hundred thousand without a unit."""
    if not unit and number < 100_000:
        return f"{number:,.0f}"
    prefix = 0
    while number >= step and prefix < len(PREFIXES) - 1:
        number /= step
        prefix += 1
    digits = 0 if prefix == 0 else 1
    return f"{number:,.{digits}f} {PREFIXES[prefix]}{unit}".rstrip()


def clean(text: str) -> str:
    """Return the text with a dot for each character that could move the cursor: names of clients
    and groups may have any."""
    return "".join(each if each.isprintable() else "·" for each in text)
