"""What the reference makes of docstrings, as an extension of Griffe, which reads the sources."""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import griffe

PACKAGE = "aethergraph"
#: :meth:`~a.b.name`, :class:`name`, :attr:`text <a.b.name>`
ROLE = re.compile(r":(?:py:)?(?:attr|class|data|exc|func|meth|mod|obj):`(?P<text>[^`]+)`")
#: Of a section of arguments: ``a, b: what both are``, whose names may go on in the next lines.
SHARED = re.compile(
    r"^(?P<margin> +)(?P<names>\*{0,2}\w+(?:,\s+\*{0,2}\w+)+):"
    r"(?P<text> .*(?:\n(?:(?P=margin) +\S.*|\s*(?=\n)))*)",
    re.MULTILINE,
)
SECTION = re.compile(
    r"^( *)(?:Args|Attributes|Keyword Args):\n(?:(?:\1 +\S.*| *)(?:\n|$))+", re.MULTILINE
)


class Docstrings(griffe.Extension):
    """Shows what a reader of the sources sees: names that lead somewhere, code, all methods."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name != PACKAGE:
            return
        for item in list(walk(pkg)):
            if item.is_attribute and item.docstring is None and (comment := comment_above(item)):
                item.docstring = griffe.Docstring(comment, parent=item)
            if item.docstring is not None:
                item.docstring.value = to_markdown(item, item.docstring.value)
        for item in list(walk(pkg)):
            if isinstance(item, griffe.Class):
                show_members(item)


def walk(item: griffe.Object) -> Iterator[griffe.Object]:
    yield item
    for member in item.members.values():
        if not member.is_alias:
            yield from walk(member)


def comment_above(item: griffe.Object) -> str:
    """Return the lines that begin with ``#:`` above a constant, an alias or an attribute."""
    out: list[str] = []
    for line in reversed(item.lines_collection[item.filepath][: (item.lineno or 1) - 1]):
        if not line.strip().startswith("#:"):
            break
        out.insert(0, line.strip().removeprefix("#:").strip())
    return "\n".join(out)


def show_members(cls: griffe.Class) -> None:
    """Inherited members are the class's own, what makes an object comes first, properties last."""
    members = {name: member for name, member in cls.members.items() if not refuses(member)}
    for name, member in cls.inherited_members.items():
        is_shown = name == "__init__" or not name.startswith("_")
        if name not in cls.members and is_shown and not refuses(member):
            members[name] = griffe.Alias(name, member.final_target, parent=cls)
    cls.members.clear()
    cls.members.update(sorted(members.items(), key=lambda pair: rank(pair[1])))


def refuses(member: griffe.Object | griffe.Alias) -> bool:
    """Tell whether it takes anything, only to say what to call instead."""
    try:
        names = [parameter.name for parameter in member.parameters]
    except (AttributeError, griffe.AliasResolutionError):
        return False
    return [name for name in names if name not in ("self", "cls")] == ["_", "__"]


def rank(member: griffe.Object | griffe.Alias) -> int:
    try:
        if "property" in member.labels:
            return 3
        if member.is_attribute:
            return 0
        return 1 if "classmethod" in member.labels else 2
    except griffe.AliasResolutionError:
        return 2


def to_markdown(item: griffe.Object, text: str) -> str:
    text = SECTION.sub(lambda section: SHARED.sub(entry_each, section[0]), text)
    return ROLE.sub(lambda role: reference(item, role["text"]), literal_blocks(text))


def entry_each(entry: re.Match[str]) -> str:
    """Give each of several names an entry of its own, as parsers of docstrings expect."""
    names = re.split(r",\s+", entry["names"])
    return "\n".join(f"{entry['margin']}{name}:{entry['text'].rstrip()}" for name in names)


def reference(item: griffe.Object, text: str) -> str:
    """Return a link to the anchor of a name; code where the site has none."""
    text = " ".join(text.split())
    titled = re.fullmatch(r"(?P<title>.+?) ?<(?P<name>[^>]+)>", text)
    name = (titled["name"] if titled else text).lstrip("~")
    title = titled["title"] if titled else name.split(".")[-1] if text.startswith("~") else name
    title = f"<code>{html.escape(title)}</code>"
    path = find(item, name)
    return f'<autoref optional identifier="{path}">{title}</autoref>' if path else title


def find(item: griffe.Object, name: str) -> str | None:
    """Return the path of what a name means there: in the class, the module, the packages above."""
    if name.startswith(f"{PACKAGE}."):
        path = member_path(item.package, name.removeprefix(f"{PACKAGE}."))
        return path or name
    scope: griffe.Object | None = item
    while scope is not None:
        path = member_path(scope, name)
        if path is not None:
            return path
        if scope.name == name:
            return scope.path
        scope = scope.parent
    return None


def member_path(scope: griffe.Object, name: str) -> str | None:
    member: griffe.Object | griffe.Alias = scope
    try:
        for part in name.split("."):
            member = member.all_members[part]
        return member.canonical_path
    except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def literal_blocks(text: str) -> str:
    """Make fenced blocks of code of the indented ones that follow ``::``."""
    lines = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        if not line.endswith("::"):
            out.append(line)
            continue
        margin = line[: len(line) - len(line.lstrip())]
        end = at
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(margin + " ")):
            end += 1
        code = textwrap.dedent("\n".join(lines[at:end])).strip("\n").rstrip()
        at = end
        if line.strip() != "::":
            out += [line[:-1], ""]
        fenced = ["```" + language(code), *code.split("\n"), "```", ""]
        out += [margin + row if row else "" for row in fenced]
    return "\n".join(out)


def language(code: str) -> str:
    try:
        ast.parse(code)
    except SyntaxError:
        return "console" if code.startswith("$ ") else "text"
    return "python"
