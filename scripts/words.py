"""List the words that the project does not use, with their places and what to write instead.

    scripts/words.py            all files of the repository; exit code 1 if there is any

The words are private language that a reader cannot know; docs/glossary.md has the ones to use. A name of a test is a
claim of at most 60 characters.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A pattern, and what to write instead. Patterns match identifiers and prose alike, in any case.
WORDS = {
    r"\b(?<!at_)(?:least|most)_[a-z]|(?<!at)_(?:least|most)_": "min_ or max_",
    r"outstanding": "in flight, in_flight",
    r"hind(?:er|ranc)": "degraded, degraded_reason",
    r"(?<!un)forgotten": "discarded",
    r"\bin vain\b": "without success, failed",
    r"\b(?:makes?|made) way\b": "is replaced by, leaves room for",
    r"\bgiv(?:es?|en|ing)_? ?way\b|\bgave_? ?way\b": "reduces its rate, cooperative",
    r"\blets? be\b": "does not change, target",
    r"\bbelie(?:f|ves?|ved|ving)\b": "estimate, delivery-rate cap, trust",
    r"\bcourteous": "cooperative mode",
    r"\bsuspicion": "score",
    r"\blived?[_ ]to\b": "local time",
    r"\buntaken\b": "receive backlog",
    r"\btravelling\b": "in transit",
    r"\btellings?\b": "progress steps",
    r"\bhesitation\b": "hello timeout",
    r"\bwish(?:es|ed)?\b": "client request",
    r"\bhouse\b": "comparison, platform",
    r"\bopen wire\b": "real network",
    r"\bunproved\b": "inconclusive",
    r"\bleave (?:to send|for one|for a) ": "permission to send, send credit",
    r"\b(?:is|are|was|were|be|been|being) told\b": "is informed, receives, is reported",
    r"\bgr(?:ow|ows|own|ew)_? ?old\b": "on_aging_timer, expires",
    r"\bf[ae]ll(?:s|en)?_? ?silent\b": "on_feedback_overdue, stops answering",
}
PATTERNS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in WORDS.items()]
SUFFIXES = {".rs", ".md", ".py", ".toml", ".h", ".c", ".yml", ".cc", ".tcl"}
EXEMPT = {"scripts/words.py"}
MAX_TEST_NAME = 60
TEST = re.compile(r"#\[(?:tokio::)?test\](?:\s*#\[[^\]]*\])*\s*fn (\w+)|^ *def (test_\w+)", re.MULTILINE)


def main() -> int:
    """Print every word that should not be there."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    found = [line for name in listed if Path(name).suffix in SUFFIXES and name not in EXEMPT for line in check(name)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def check(name: str) -> list[str]:
    """Say what is wrong in one file."""
    path = ROOT / name
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    words = [
        f"{name}:{number}: `{match[0]}`: write {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in PATTERNS
        if (match := pattern.search(line))
    ]
    tests = [
        f"{name}: the test `{test}` has {len(test)} characters: use at most {MAX_TEST_NAME}"
        for match in TEST.finditer(text)
        if len(test := match[1] or match[2]) > MAX_TEST_NAME
    ]
    return words + tests


if __name__ == "__main__":
    sys.exit(main())
