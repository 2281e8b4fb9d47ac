"""Build the `rampmeter` command with a QUIC stack as it is in a checkout of yours: `make checkout NOQ=DIR QUINN=DIR`.

    make checkout NOQ=../noq
    target/checkout/release/rampmeter evaluate --stack noq:bbr3 --quick

DIR is the repository of the stack, or its crate `noq-proto` or `quinn-proto`, with whatever has been changed there.
`rampmeter stacks`, and each page of an evaluation, names the checkout and its commit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "Cargo.lock"
PINS = ROOT / "crates/stacks/Cargo.toml"
STACKS = {"noq": "noq-proto", "quinn": "quinn-proto"}


def manifest(directory: Path, crate: str) -> Path:
    """Find the manifest of `crate` in a checkout."""
    for path in (directory / "Cargo.toml", directory / crate / "Cargo.toml"):
        if path.is_file() and re.search(rf'^name\s*=\s*"{crate}"', path.read_text(), re.MULTILINE):
            return path.resolve()
    sys.exit(f"{directory} has no crate `{crate}`; name the repository of the stack or the crate's directory")


def version(path: Path, crate: str) -> str:
    """Ask cargo for the crate's version, which may be that of its workspace."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", str(path)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"cargo cannot read {path}")
    packages = json.loads(result.stdout)["packages"]
    return next(str(package["version"]) for package in packages if package["name"] == crate)


def required(crate: str) -> str:
    """Return the version for which the stack's host is written."""
    found = re.search(rf'^{crate} = {{ version = "=([\d.]+)"', PINS.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{PINS} does not pin {crate}")
    return found.group(1)


def is_compatible(have: str, need: str) -> bool:
    """Whether cargo takes version `have` where `need` is required.

    >>> [is_compatible(have, "0.11.19") for have in ("0.11.19", "0.11.20-rc.1", "0.11.18", "0.12.0")]
    [True, True, False, False]
    >>> [is_compatible(have, "1.4.0") for have in ("1.5.0", "1.3.9", "2.0.0")]
    [True, False, False]
    """
    numbers = [tuple(int(part) for part in text.split("-")[0].split(".")) for text in (have, need)]
    same = 1 if numbers[1][0] > 0 else 2
    return numbers[0][:same] == numbers[1][:same] and numbers[0] >= numbers[1]


def state(crate: Path) -> str:
    """Name the commit of a checkout, and a digest of the crate's sources, which may differ from it."""
    command = ["git", "-C", str(crate), "describe", "--always", "--dirty", "--tags"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    digest = hashlib.sha256()
    for path in sorted(crate.rglob("*.rs")):
        digest.update(path.read_bytes())
    commit = f" at {result.stdout.strip()}" if result.returncode == 0 else ""
    return f"{commit}, sources {digest.hexdigest()[:8]}"


def main() -> None:
    """Build, and leave the files of this repository as they were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for stack, crate in STACKS.items():
        parser.add_argument(f"--{stack}", type=Path, metavar="DIR", help=f"a checkout with the crate {crate}")
    directories = {stack: path for stack, path in vars(parser.parse_args()).items() if path}
    if not directories:
        sys.exit("name a checkout: make checkout NOQ=DIR, or QUINN=DIR")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "checkout"
    # Link-time optimization would take minutes after each change.
    environment = os.environ | {"CARGO_TARGET_DIR": str(target), "CARGO_PROFILE_RELEASE_LTO": "false"}
    command = ["cargo", "build", "--release", "--package", "rampmeter-cli"]
    before, pins = [(file, file.read_bytes()) for file in (LOCK, PINS)], PINS.read_text()
    for stack, directory in directories.items():
        crate = STACKS[stack]
        path = manifest(directory, crate)
        have, need = version(path, crate), required(crate)
        if not is_compatible(have, need):
            sys.exit(f"{crate} of {directory} is {have}; crates/stacks/src/{stack} is written for {need} and later")
        # No registry's version satisfies it, unless it is the same: so cargo takes the checkout, or fails.
        pins = pins.replace(f'{crate} = {{ version = "={need}"', f'{crate} = {{ version = "={have}"')
        command += ["--config", f"patch.crates-io.{crate}.path={json.dumps(str(path.parent))}"]
        environment[f"RAMPMETER_{stack.upper()}"] = f"{crate} {have} of {directory.resolve()}{state(path.parent)}"
    try:
        PINS.write_text(pins)
        built = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
    finally:
        for file, content in before:
            file.write_bytes(content)
    if not built:
        names = " and ".join(f"crates/stacks/src/{stack}" for stack in directories)
        sys.exit(f"it does not compile: an error in the checkout, or a change of what {names} uses")
    print(f"{target / 'release/rampmeter'}")


if __name__ == "__main__":
    main()
