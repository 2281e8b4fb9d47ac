"""Check the licences of all dependencies, and that no crate is built in two versions without a reason.

    scripts/dependencies.py     all Cargo lock files of this tree; exit code 1 if anything is wrong

The Go peers in bench/wire, which nothing else uses, are not checked. It reads `cargo metadata` for Linux, the only
system that this tree runs on, and uses no network. `cargo-deny` checks more, but takes minutes to build on a machine
that does not have it, and this check is part of every `make lint`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Licences that permit use in a work under Apache-2.0 or MIT, with at most a notice. The names are those of SPDX.
LICENCES = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

# A crate's older version that is built beside its newest one, and why.
DUPLICATES = {
    "chacha20 0.9": "snow 0.10 uses it, rand 0.10 of quinn-proto a newer one",
    "cpufeatures 0.2": "sha2 0.10 and snow 0.10 use it, blake3 a newer one; bench/wire: aes-gcm of the peers",
    "getrandom 0.2": "ring 0.17 uses it",
    "getrandom 0.3": "ahash and rand 0.9 use it, rand 0.10 of quinn-proto a newer one",
    "num-bigint 0.4": "named by x509-parser, an option of rcgen 0.14 that nothing builds; parquet uses a newer one",
    "rand 0.9": "bench/wire: rand_xoshiro 0.7, as in the workspace, uses it; the peers use a newer one",
    "rand_core 0.9": "bench/wire: rand 0.9 uses it",
    "syn 1": "pcap-file 2, which reads captures in tests, uses it",
    "syn 2": "delegate, derive_more, smart-default and macros of curve25519-dalek and zerocopy use it, in builds only",
    "thiserror 1": "pcap-file 2, which reads captures in tests, uses it",
    "thiserror-impl 1": "the same",
    "untrusted 0.7": "bench/wire: aws-lc-rs uses it",
}

# Each lock file's manifest, and whether its packages may be missing: nothing in `make test` builds bench/wire.
MANIFESTS = {"Cargo.toml": False, "fuzz/Cargo.toml": False, "bench/wire/Cargo.toml": True}


def main() -> int:
    """Print everything that is wrong."""
    wrong: list[str] = []
    used: set[str] = set()
    is_complete = True
    for manifest, may_be_missing in MANIFESTS.items():
        found = packages(manifest)
        if isinstance(found, str):
            is_complete = False
            if may_be_missing:
                print(f"{manifest}: SKIPPED, packages are missing; `cargo fetch --manifest-path {manifest}` gets them")
            else:
                wrong.append(f"{manifest}: {found}")
            continue
        wrong += [f"{manifest}: {error}" for package in found for error in unlicensed(*package)]
        for name, old, new in duplicates(found):
            used.add(f"{name} {series(old)}")
            if f"{name} {series(old)}" not in DUPLICATES:
                wrong.append(
                    f"{manifest}: {name} is built twice, {old} and {new}: update what uses {old} (`cargo tree "
                    f"--invert {name}@{old}`), or add `{name} {series(old)}` with the reason to DUPLICATES"
                )
    if is_complete:
        unused = sorted(DUPLICATES.keys() - used)
        wrong += [f"no lock file has `{name}` beside a newer version: remove it from DUPLICATES" for name in unused]
    for line in wrong:
        print(f"scripts/dependencies.py: {line}")
    return 1 if wrong else 0


def packages(manifest: str) -> list[tuple[str, str, str | None]] | str:
    """Return name, version and licence of each package, or why Cargo does not know them."""
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    platform = host.split("host: ")[1].split()[0]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", platform]
    done = subprocess.run([*command, "--manifest-path", manifest], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        return " ".join(done.stderr.split())
    return [(each["name"], each["version"], each["license"]) for each in json.loads(done.stdout)["packages"]]


def unlicensed(name: str, version: str, licence: str | None) -> list[str]:
    """Say what is wrong with the licence of a package."""
    place = f"{name} {version}"
    if licence is None:
        return [f"{place} names no licence: use another crate"]
    try:
        permitted = is_permitted(licence)
    except ValueError as error:
        return [f"{place}: cannot read its licence `{licence}`: {error}"]
    advice = "use another crate, or add the licence to LICENCES if it permits use with a notice"
    return [] if permitted else [f"{place} has the licence `{licence}`: {advice}"]


def is_permitted(licence: str) -> bool:
    """Evaluate an SPDX expression; old manifests write `/` for OR.

    >>> is_permitted("(MIT OR GPL-3.0-only) AND Unicode-3.0"), is_permitted("MIT AND GPL-3.0-only")
    (True, False)
    >>> is_permitted("Apache-2.0 WITH LLVM-exception/MIT"), is_permitted("GPL-3.0-only OR (ISC AND LGPL-3.0-only)")
    (True, False)
    """
    words = re.findall(r"[()]|[^\s()]+(?:\s+WITH\s+[^\s()]+)?", licence.replace("/", " OR "))

    def either() -> bool:
        found = both()
        while words and words[0] == "OR":
            words.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = single()
        while words and words[0] == "AND":
            words.pop(0)
            found = single() and found
        return found

    def single() -> bool:
        word = words.pop(0) if words else ""
        if word == "(":
            found = either()
            if not words or words.pop(0) != ")":
                raise ValueError("a parenthesis does not close")
            return found
        if word in ("", ")", "AND", "OR"):
            raise ValueError("a licence is missing")
        return " ".join(word.split()) in LICENCES

    found = either()
    if words:
        raise ValueError(f"expected AND or OR before `{words[0]}`")
    return found


def duplicates(found: list[tuple[str, str, str | None]]) -> list[tuple[str, str, str]]:
    """Return each crate's older versions, with its newest one."""
    versions: dict[str, list[str]] = {}
    for name, version, _ in found:
        versions.setdefault(name, []).append(version)
    pairs = []
    for name, several in sorted(versions.items()):
        *older, newest = sorted(several, key=lambda version: [int(n) for n in re.findall(r"\d+", version)])
        pairs += [(name, old, newest) for old in older]
    return pairs


def series(version: str) -> str:
    """Return the part of a version that incompatible versions differ in: 2 of 2.0.119, 0.7 of 0.7.15."""
    major, minor, *_ = version.split(".")
    return major if major != "0" else f"0.{minor}"


if __name__ == "__main__":
    sys.exit(main())
