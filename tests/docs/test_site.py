"""The built site: links, llms.txt, and what a browser makes of it on a desk and on a telephone."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
needs_site = pytest.mark.skipif(
    "AETHERGRAPH_SITE" not in os.environ,
    reason="AETHERGRAPH_SITE is not set: ./scripts/test.sh docs builds the site",
)


@pytest.fixture(scope="module")
def site() -> Path:
    return Path(os.environ["AETHERGRAPH_SITE"])


# ---- the hooks ---------------------------------------------------------------


def load_hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts/site_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = """\
The [README](../../README.md), [a table](../../benchmarks/results/gpu.md#gpu), [`a.c`](../../a.c),
[another page](../pyg.md#seeds), [elsewhere](https://example.org), ![plot](../../results/a.png)
[a program](../../examples/a.py)

```text
[README](../../README.md)
```
"""


@pytest.mark.parametrize(
    "repository, first, program",
    [
        (
            "https://example.org/repo/",
            "The [README](https://example.org/repo/blob/main/README.md), "
            "[a table](https://example.org/repo/blob/main/benchmarks/results/gpu.md#gpu), "
            "[`a.c`](https://example.org/repo/blob/main/a.c),",
            "[a program](https://example.org/repo/blob/main/examples/a.py)",
        ),
        ("", "The README, a table, `a.c`,", "[a program](../examples/a.py)"),
    ],
)
def test_links_that_leave_the_pages_lead_to_the_repository(
    repository: str, first: str, program: str
) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="tasks/serve.md"))
    lines = PAGE.splitlines()
    lines[0] = first
    lines[1] = lines[1].replace("../../results", "../results")  # as the site has it
    lines[2] = program
    config = SimpleNamespace(repo_url=repository)
    assert load_hooks().on_page_markdown(PAGE, page=page, config=config).splitlines() == lines


def test_the_first_sentence_of_a_page() -> None:
    page = "# Title\n\n```sh\nmake\n```\n\n| a |\n\n**Two** words, [a link](b.md#c).\nIt goes on.\n"
    assert load_hooks().first_sentence(page) == "Two words, a link."


# ---- what is built -----------------------------------------------------------


@needs_site
def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    assert len(pages) > 40
    anchors = {
        path: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for path, text in pages.items()
    }
    dead = []
    for path, text in pages.items():
        if path.name == "404.html":  # served at any address; its links begin with "/"
            continue
        for link in re.findall(r'<[a-z][^<>]*?\s(?:href|src)="([^"]*)"', text):
            link = html.unescape(link)
            if re.match(r"(?:\w+:|//)", link):
                continue
            target, _, anchor = link.partition("#")
            file = (path.parent / unquote(target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and unquote(anchor) not in anchors.get(file, ())):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


@needs_site
def test_llms_txt_names_every_page(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    assert text.startswith("# AetherGraph\n\n> ")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .*\w", text, flags=re.MULTILINE)
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(page.removesuffix(".md") + ".html" for page in pages)


# ---- in a browser ------------------------------------------------------------

#: Opens each page in frames of both widths, one after the other, and posts what does not fit:
#: what reaches over the page's edge, or out of a box that hides it, without a scroll bar.
HARNESS = """\
<!doctype html><title>pages</title><body><script>
const pages = PAGES, widths = [1400, 390];
function scrolls(element, page) {
  for (let e = element; e && e !== page.body; e = e.parentElement)
    if (/auto|scroll/.test(page.defaultView.getComputedStyle(e).overflowX)) return true;
  return false;
}
function cut(page, width) {
  const bad = [];
  const whole = page.documentElement.scrollWidth;
  if (whole > width) bad.push(`page: ${whole}`);
  for (const e of page.querySelectorAll(".md-content__inner *")) {
    const box = e.getBoundingClientRect();
    if (!box.width || e.closest(".md-clipboard, .headerlink, svg")) continue;
    const name = `${e.tagName}: ${e.textContent.trim().slice(0, 60)}`;
    if (box.right > width + 1 && !scrolls(e, page)) bad.push(`over the edge: ${name}`);
    const hides = /hidden|clip/.test(page.defaultView.getComputedStyle(e).overflowX);
    if (hides && e.scrollWidth > e.clientWidth + 1) bad.push(`hidden: ${name}`);
    // Code is whole without a scroll bar; drawings may have one on a telephone.
    const drawing = width < 1000 && e.closest(".language-text");
    if (e.matches("pre > code") && !drawing && e.scrollWidth > e.clientWidth + 1) {
      const longest = e.textContent.split("\\n").sort((a, b) => b.length - a.length)[0];
      bad.push(`code of ${longest.length} columns: ${longest}`);
    }
  }
  return bad;
}
async function run() {
  const found = [];
  for (const width of widths) for (const path of pages) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 900px; border: 0`;
    frame.src = path;
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    const page = frame.contentDocument;
    // Scripts of the theme put tables into boxes that scroll.
    while (page.querySelector(".md-content__inner table:not(.md-typeset__table > table)"))
      await new Promise(next => setTimeout(next, 20));
    for (const what of cut(page, width)) found.push(`${path} at ${width}: ${what}`);
    frame.remove();
  }
  return found;
}
run().catch(error => [String(error)]).then(found => {
  const answer = JSON.stringify({found, opened: pages.length * widths.length});
  fetch("/found", {method: "POST", body: answer});
});
</script>
"""


class Pages(SimpleHTTPRequestHandler):
    """Serves the site, the harness at /harness.html, and takes what that finds."""

    server: Server

    def do_GET(self) -> None:
        if self.path != "/harness.html":
            super().do_GET()
            return
        body = self.server.harness.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.answer = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.answered.set()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    harness = ""
    answer: dict[str, Any]

    def __init__(self, site: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Pages, directory=str(site)))
        self.answered = threading.Event()


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    with Server(site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@needs_site
@pytest.mark.skipif(
    "AETHERGRAPH_BROWSER" not in os.environ,
    reason="AETHERGRAPH_BROWSER is not set: ./scripts/test.sh site names Chromium",
)
def test_nothing_is_cut_on_a_desk_or_on_a_telephone(
    server: Server, site: Path, tmp_path: Path
) -> None:
    pages = sorted(f"/{path.relative_to(site)}" for path in site.rglob("*.html"))
    server.harness = HARNESS.replace("PAGES", json.dumps(pages))
    command = [
        *(os.environ["AETHERGRAPH_BROWSER"], "--headless", "--no-sandbox", "--disable-gpu"),
        f"--user-data-dir={tmp_path}",
        "--remote-debugging-port=0",  # it then runs until it is ended
        f"http://127.0.0.1:{server.server_address[1]}/harness.html",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            assert server.answered.wait(500)
        finally:
            browser.terminate()
    assert not server.answer["found"], "\n".join(server.answer["found"])
    assert server.answer["opened"] == 2 * len(pages) > 80
