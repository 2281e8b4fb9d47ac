"""Check that each row of `docs/security.md` names a test that exists, unless its result is an admission in bold.

`make lint` calls it. A name in code style is a test, a fuzz target, or the place of one: a crate, a module or a file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/security.md")

CODE = re.compile(r"`([^`]+)`")
FUZZ = re.compile(r"fuzz targets? ((?:`\w+`(?:, | and )?)+)")
TEST = re.compile(r"#\[(?:tokio::)?test\](?:\s*#\[[^\n]*\])*\s*(?:async )?fn (\w+)\(|proptest! \{")
CLAIM = re.compile(r"\bfn (\w+)\(")


@cache
def tests() -> dict[str, list[str]]:
    """Return the files of each test, by its name."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "crates/**/*.rs"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    found: dict[str, list[str]] = {}
    for name in filter(None, names):
        text = (ROOT / name).read_text() if (ROOT / name).exists() else ""
        for test in TEST.finditer(text):
            # Properties are functions in a macro.
            functions = [test[1]] if test[1] else CLAIM.findall(text[test.end() :])
            for function in functions:
                found.setdefault(function, []).append(name)
    return found


def is_place(name: str) -> bool:
    """Whether this is a crate, a module of one, or a file."""
    if (ROOT / "crates" / name).exists() or (ROOT / name).exists():
        return True
    path = name.replace("::", "/")
    return any(f"/{path}.rs" in file or f"/{path}/" in file for files in tests().values() for file in files)


def is_test(name: str) -> bool:
    """Whether this is a test, in a file whose path or name has the modules before it."""
    *modules, function = name.split("::")
    files = tests().get(function, [])
    return any(all(re.search(rf"\b{module}(\b|_)", file) for module in modules) for file in files)


def rows() -> Iterator[tuple[int, str, str]]:
    """Yield the result and the test of each row of tables of attacks, with its line."""
    lines = (ROOT / PAGE).read_text().splitlines()
    inside = False
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" |")]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "test":
            inside = True
        elif inside and not line.startswith("|---"):
            yield number, cells[1], cells[-1].strip("|").strip()


def problems() -> Iterator[str]:
    """Yield what is wrong with each row."""
    for number, result, cell in rows():
        fuzzed = {name for found in FUZZ.finditer(cell) for name in CODE.findall(found[1])}
        names = [name for name in CODE.findall(FUZZ.sub("", cell)) if "-" not in name]
        for name in sorted(fuzzed):
            if not (ROOT / "fuzz/targets" / f"{name}.rs").exists():
                yield f"{PAGE}:{number}: there is no fuzz target {name}"
        found = [name for name in names if is_test(name)]
        for name in names:
            if name not in found and not is_place(name):
                yield f"{PAGE}:{number}: `{name}` is no test and no place of one"
        if not (found or fuzzed or "**" in result):
            yield f"{PAGE}:{number}: no test shows it: name one, or admit it in bold"


def main() -> int:
    """Print all errors."""
    found = list(problems())
    for problem in found:
        print(f"attacks: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
