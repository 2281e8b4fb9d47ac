"""Check that every file of tests is compiled.

In a crate whose tests are one program, `tests/integration.rs`, a file that has no `mod` there never runs. `make lint`
calls this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = re.compile(r"^mod (\w+);", re.MULTILINE)
# As cargo's manifests are written here: tomllib needs Python 3.11.
PROGRAM = re.compile(r"^\[\[test\]\]\nname = \"(\w+)\"", re.MULTILINE)


def unnamed(manifest: Path) -> list[Path]:
    """Return the files of tests that neither the crate's manifest nor a program in it names."""
    directory = manifest.parent / "tests"
    names = PROGRAM.findall(manifest.read_text())
    for program in [directory / f"{name}.rs" for name in names]:
        names += MODULE.findall(program.read_text())
    return [file.relative_to(ROOT) for file in sorted(directory.glob("*.rs")) if file.stem not in names]


def main() -> int:
    """Print the files that never run; return 1 if there are some."""
    manifests = [file for file in ROOT.glob("crates/*/Cargo.toml") if "autotests = false" in file.read_text()]
    missing = [file for manifest in sorted(manifests) for file in unnamed(manifest)]
    for file in missing:
        print(f"{file}: its tests never run: add `mod {file.stem};` to {file.with_name('integration.rs')}")
    return 1 if missing or not manifests else 0


if __name__ == "__main__":
    sys.exit(main())
