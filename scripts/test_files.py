"""Check that the tests of a crate that are one program name all their files, as a file that none names never runs.

`make lint` calls it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def unnamed(program: Path) -> list[str]:
    """Return the files beside `program` that neither it nor the crate's manifest names."""
    manifest = (program.parent.parent / "Cargo.toml").read_text()
    modules = re.findall(r"^mod (\w+);", program.read_text(), re.MULTILINE)
    programs = re.findall(r"\[\[test\]\]\nname = \"(\w+)\"", manifest)
    files = [file for file in sorted(program.parent.glob("*.rs")) if file != program]
    return [str(file.relative_to(ROOT)) for file in files if file.stem not in modules + programs]


def main() -> int:
    """Print the files that are unnamed; return 1 if there are some."""
    programs = sorted(ROOT.glob("crates/*/tests/tests.rs"))
    missing = [(file, program) for program in programs for file in unnamed(program)]
    for file, program in missing:
        print(f"{file}: its tests never run: add `mod {Path(file).stem};` to {program.relative_to(ROOT)}")
    return 1 if missing or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
