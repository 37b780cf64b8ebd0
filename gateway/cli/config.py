"""``rocketmq-gateway config``: every setting, its effective value and where the value came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gateway.cli.options import Sources, load_options, settings_options
from gateway.cli.output import say, say_lines

if TYPE_CHECKING:
    from gateway.settings.files.load import Loaded

ROLES = ("serve", "broker", "nameserver")
FORMATS = ("table", "properties", "json")
Row = tuple[str, str, str, str]
"""Key, value, source and description of a setting."""


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway config
      all settings
  rocketmq-gateway config -c broker.conf --changed
      what a file changes, and what of it has no effect here
  rocketmq-gateway config --format properties > broker.conf
      a file to start from
"""
)
@settings_options("--port", "--nameserver-port", "--nameserver", "--advertise")
@click.option("--for", "role_name", type=click.Choice(ROLES), default="serve", help="The command meant.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="How to print.")
@click.option("--changed", is_flag=True, help="Leave out what nobody set.")
def config(sources: Sources, role_name: str, form: str, changed: bool, **options: str | None) -> None:
    """Print the settings: value, source and meaning of each."""
    from gateway.cli.serving.kept_name import with_kept_name
    from gateway.settings.files.load import Role

    loaded = load_options(Role(role_name), sources, **options)
    if role_name != Role.NAMESERVER:
        loaded = with_kept_name(loaded)
    forms = {"table": as_table, "properties": as_properties, "json": as_json}
    say_lines(forms[form](loaded, changed))
    for notice in loaded.notices:
        say(f"Warning: {notice}", err=True)
    if form == "table" and role_name != Role.NAMESERVER:
        say(f"Disk space: {space_in_words(loaded)}", err=True)


def as_table(loaded: Loaded, changed: bool = False) -> str:
    """Format aligned columns for people: key, value, source, description; a title above each section."""
    sections = _sections(loaded, changed)
    head = ("KEY", "VALUE", "SOURCE", "DESCRIPTION")
    every = [head, *(row for _, rows in sections for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(3)]

    def line(row: Row) -> str:
        columns = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        return "  ".join([*columns, row[3]]).rstrip()

    lines = [line(head)]
    for title, rows in sections:
        lines += ["", f"{title}:", *map(line, rows)]
    return "\n".join(lines)


def as_properties(loaded: Loaded, changed: bool = False) -> str:
    """Return the text of a file that ``-c`` reads back; sources and meanings are comments, kept entries come last."""
    from gateway.settings.files.properties import escape_property

    lines = []
    for title, rows in _sections(loaded, changed):
        lines += ["", f"# ---- {title} ----"]
        for key, value, source, sentence in rows:
            lines += [f"# {sentence} [{source}]", escape_property(key, value)]
    for entry in loaded.kept:
        lines += [f"# Without effect here. [{entry.source}]", escape_property(entry.key, entry.text)]
    return "\n".join(lines)


def as_json(loaded: Loaded, changed: bool = False) -> str:
    """Return JSON for programs.

    Each setting has key, section, value, source, default, expected, description, environment. Entries without effect
    and the disk space follow.
    """
    from gateway.settings.declare import text_of
    from gateway.settings.files.load import DEFAULT
    from gateway.settings.tree import Settings

    defaults = Settings()
    found: list[dict[str, object]] = [
        {
            "key": declaration.key,
            "section": title,
            "value": value if isinstance(value, bool | int | float) else declaration.shown(value),
            "source": source,
            "default": text_of(getattr(defaults, declaration.attribute)),
            "expected": declaration.expected,
            "environment": declaration.environment,
            "description": declaration.sentence,
        }
        for title, rows in loaded.sections()
        for declaration, value, source in rows
        if not changed or source != DEFAULT
    ]
    kept = [{"key": entry.key, "value": entry.text, "source": entry.source} for entry in loaded.kept]
    return json.dumps({"settings": found, "without_effect": kept, "disk_space": space_in_words(loaded)}, indent=2)


def space_in_words(loaded: Loaded) -> str:
    """Return the effect of the disk space settings on the commit log's disk, in bytes."""
    from gateway.store.disk.files import FileLayer
    from gateway.store.space.retention import rule_text

    settings = loaded.settings
    place = settings.commit_log_directory
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return rule_text(FileLayer().disk_space(place), settings)
    except OSError as error:
        return f"of {place} cannot be asked ({error.strerror})"


def _sections(loaded: Loaded, changed: bool) -> list[tuple[str, list[Row]]]:
    """Return titles and rows of the sections that have a row to show."""
    from gateway.settings.files.load import DEFAULT

    found = []
    for title, rows in loaded.sections():
        shown = [
            (
                declaration.key,
                declaration.shown(value),
                source,
                declaration.sentence + (f" ({declaration.unit})" if declaration.unit else ""),
            )
            for declaration, value, source in rows
            if not changed or source != DEFAULT
        ]
        if shown:
            found.append((title, shown))
    return found
