"""Check the links of every Markdown file here: their files exist, and so do the headings that they point at.

`make lint` calls it. Links to other hosts are not checked. `docs.py` uses the same rules.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TARGET = re.compile(r"\]\((?P<target>[^()\s]+)\)")
"""The end of `[text](target)`; the text may begin on an earlier line."""


def pages() -> list[Path]:
    """List every Markdown file that belongs to the tree."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in sorted(names.split("\0")) if name and (ROOT / name).exists()]


def lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each line with its number, and whether it is prose: outside of fenced blocks of code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        yield number, line, not fenced and not fence


def heading(line: str) -> tuple[int, str] | None:
    """Return the level and the text of a heading."""
    found = re.match(r"(#+) (.+)", line)
    return (len(found[1]), found[2].strip()) if found else None


def anchor(title: str) -> str:
    """Return the name of a heading in links, as code hosts make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return every anchor of a page; headings of the same name are numbered."""
    found: set[str] = set()
    for _, line, prose in lines(text):
        if prose and (title := heading(line)):
            name, number = anchor(title[1]), 0
            while (candidate := f"{name}-{number}" if number else name) in found:
                number += 1
            found.add(candidate)
    return found


def is_elsewhere(target: str) -> bool:
    """Whether a link leads to another host, or is a mail address."""
    return re.match(r"[a-z]+:", target) is not None


def problems(page: Path) -> Iterator[str]:
    """Yield the errors in the links of `page`."""
    text = (ROOT / page).read_text()
    for number, line, prose in lines(text):
        for link in TARGET.finditer(re.sub(r"`[^`]*`", "", line)) if prose else ():
            if is_elsewhere(link["target"]):
                continue
            path, _, name = link["target"].partition("#")
            file = ROOT / page.parent / path if path else ROOT / page
            if not file.exists():
                yield f"{page}:{number}: {path} does not exist"
            elif name and file.suffix == ".md" and name not in anchors(file.read_text()):
                yield f"{page}:{number}: {path or page} has no heading with the anchor #{name}"


def main() -> int:
    """Print all errors."""
    found = [problem for page in pages() for problem in problems(page)]
    for problem in found:
        print(f"links: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
