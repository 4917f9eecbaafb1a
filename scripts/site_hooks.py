"""What MkDocs makes of the pages: links to the repository and its plots, and llms.txt."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]\n]+)\]\((?P<target>(?!\w+:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Add what pages show or offer of the repository, under its path there."""
    from mkdocs.structure.files import File

    for page in list(files.documentation_pages()):
        for link in LINK.finditer(page.content_string):
            path = repository_path(page.src_uri, link["target"])
            if path and is_on_site(link, config) and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Make links that leave docs/ lead to the repository; code or text while it has no address."""

    def rewrite(link: re.Match[str]) -> str:
        path = repository_path(page.file.src_uri, link["target"])
        if path is None:
            return link[0]
        if is_on_site(link, config):
            up = "../" * page.file.src_uri.count("/")
            return f"{link['image']}[{link['text']}]({up}{path})"
        if config.repo_url:
            address = f"{config.repo_url.rstrip('/')}/blob/main/{path}"
            return f"[{link['text']}]({address}{link['anchor'] or ''})"
        is_path = re.fullmatch(r"[\w./-]*[./][\w./-]*", link["text"])
        return f"`{link['text']}`" if is_path else link["text"]

    pieces = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    pieces[::2] = [LINK.sub(rewrite, text) for text in pieces[::2]]  # the others are code
    return "".join(pieces)


def is_on_site(link: re.Match[str], config: Any) -> bool:
    """Tell whether the site itself has a file: plots; programs while there is no other place."""
    is_program = link["target"].endswith((".ipynb", ".py"))
    return bool(link["image"]) or (is_program and not config.repo_url)


def repository_path(page: str, target: str) -> str | None:
    """Return where a link of a page leads, from the root of the repository; None if into docs/."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return path.removeprefix("../") if path.startswith("../") else None


def on_post_build(*, config: Any, **_: Any) -> None:
    """Write llms.txt: each page with its first sentence (https://llmstxt.org)."""
    rows = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    rows += list(list_pages(config.nav, Path(config.docs_dir), "Pages"))
    Path(config.site_dir, "llms.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")


def list_pages(nav: list[Any], docs: Path, heading: str) -> Iterator[str]:
    yield f"## {heading}"
    yield ""
    sections: list[tuple[str, list[Any]]] = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            sections.append((title, target))
            continue
        url = posixpath.splitext(target)[0] + ".html"
        yield f"- [{title}]({url}): {first_sentence((docs / target).read_text(encoding='utf-8'))}"
    yield ""
    for title, pages in sections:
        yield from list_pages(pages, docs, title)


def first_sentence(markdown: str) -> str:
    """Return it without links and marks."""
    for paragraph in re.split(r"\n\s*\n", FENCE.sub("", markdown)):
        text = " ".join(paragraph.split())
        if text and text[0] not in "#|!<:-":
            text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("**", "")
            return re.split(r"(?<=[.:?]) (?=[A-Z`])", text)[0].rstrip(":")
    return ""
