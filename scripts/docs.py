"""Build the site of the documentation: docs.py OUT makes OUT/site from every Markdown file here.

Pages have the same paths on the site as in the tree, so links stay valid. Only `docs/controllers.md` is split,
into pages for single controllers. Links to files that are not pages become plain text, because the site has no copy of
the source. Pages that `NAV` does not name are appended to its section `ELSE`, and names without a page are left out.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from links import ROOT, anchor, anchors, heading, is_elsewhere, lines, pages

CONTROLLERS = "docs/controllers.md"

NAV = {
    "Start": ["README.md", "docs/tutorial.md", "docs/README.md", "docs/limits.md"],
    "Reference": [
        "docs/scenario.md",
        CONTROLLERS,
        "docs/routers.md",
        "docs/workloads.md",
        "docs/evaluation.md",
        "docs/view.md",
        "docs/output.md",
    ],
    "Real networks": [
        "docs/moving-files.md",
        "docs/files.md",
        "docs/wire.md",
        "docs/tunnel.md",
        "docs/python.md",
        "docs/operations.md",
        "docs/security.md",
    ],
    "Papers": [
        "docs/claims.md",
        "docs/verification.md",
        "docs/pcp.md",
        "docs/congestion-manager.md",
        "docs/vcp.md",
        "docs/vcp-plus.md",
        "docs/vcp-end-to-end.md",
        "docs/vcp-islands.md",
        "docs/vcp-fluid.md",
    ],
    "Contributing": ["CONTRIBUTING.md", "ARCHITECTURE.md", "docs/speed.md", "docs/glossary.md", "CHANGELOG.md"],
    "Crates": [],
}
ELSE = "Papers"

LINK = re.compile(
    r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)\)|^ *```.*?^ *```|`[^`\n]+`",
    re.DOTALL | re.MULTILINE,
)
"""`[text](target)`, `![text](target)`, or code, which holds no links."""

FENCE = re.compile(r"^( *```\w+),\S+$", re.MULTILINE)
"""The start of a block of code with attributes for rustdoc, such as `rust,ignore`. Markdown readers that do not know
them take the text between two such blocks, with its headings, for code."""

Pages = dict[str, str]
"""The text of every page, by its path on the site."""


def split(path: str, text: str) -> Pages:
    """Split a page: a new part at each heading of level 2, and of level 3 if it begins with a code name."""
    directory, parts, chapter, current = path.removesuffix(".md"), {path: ""}, path, path
    for _, line, prose in lines(text):
        if prose and (title := heading(line)) and title[0] in (2, 3):
            level, name = title
            if level == 2 or name.startswith("`"):
                current = f"{directory}/{anchor(name)}.md"
                chapter = current if level == 2 else chapter
                parts[current], line = "", f"# {name}"
            else:
                current = chapter
        parts[current] += line + "\n"
    return parts


def links_of(path: str, whole: Pages, parts: Pages) -> Pages:
    """Return the page at `path`, or its parts, with links adapted to the site."""
    homes = {name: part for part, text in parts.items() for name in anchors(text)}

    def mend(here: str, link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        if not target or is_elsewhere(target):
            return link[0]
        file, _, name = target.partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
        if page == CONTROLLERS and name:
            page = homes.get(name, page)
        if page not in whole and page not in parts and not text.startswith("!"):
            return text[1:-1]
        return f"{text}({posixpath.relpath(page, posixpath.dirname(here) or '.')}{'#' + name if name else ''})"

    own = parts if path == CONTROLLERS else {path: whole[path]}
    return {here: LINK.sub(partial(mend, here), text) for here, text in own.items()}


def title(text: str, path: str) -> str:
    """Return a page's first heading, without marks."""
    found = next((title[1] for _, line, prose in lines(text) if prose and (title := heading(line))), path)
    return re.sub(r"[`*]", "", found)


def nav(site: Pages, parts: Pages) -> list[dict[str, Any]]:
    """Make the table of contents: `NAV`, with the pages that exist."""
    sections = {name: [page for page in listed if page in site] for name, listed in NAV.items()}
    rest = [page for page in site if page not in parts and not any(page in listed for listed in NAV.values())]
    for page in rest:
        sections["Crates" if page.startswith(("crates/", "examples/")) else ELSE].append(page)

    def entry(page: str) -> dict[str, Any]:
        name = title(site[page], page)
        return {name: [{part_title(part): part} for part in parts] if page == CONTROLLERS else page}

    def part_title(part: str) -> str:
        return "Overview" if part == CONTROLLERS else title(site[part], part)

    return [{name: [entry(page) for page in listed]} for name, listed in sections.items() if listed]


def main() -> int:
    """Write the pages and the configuration, and build the site with MkDocs; a broken link is an error."""
    out = Path(sys.argv[1]).resolve()
    source = out / "site-source"
    shutil.rmtree(source, ignore_errors=True)
    whole = {str(page): (ROOT / page).read_text() for page in pages() if not page.parts[0].startswith(".")}
    parts = split(CONTROLLERS, whole[CONTROLLERS])
    site: Pages = {}
    for path in whole:
        site.update(links_of(path, whole, parts))
    for path, text in site.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(FENCE.sub(r"\1", text))
    shutil.copytree(ROOT / "docs/images", source / "docs/images")
    config = {
        "INHERIT": str(ROOT / "docs/site.yml"),
        "docs_dir": str(source),
        "site_dir": str(out / "site"),
        "nav": nav(site, parts),
    }
    (out / "site.json").write_text(json.dumps(config, indent=2))
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(out / "site.json")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(build, env=environment, check=False, capture_output=True, text=True)
    if built.returncode:
        print(built.stdout + built.stderr, file=sys.stderr)
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
