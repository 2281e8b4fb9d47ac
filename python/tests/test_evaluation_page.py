"""The page of `rampmeter evaluate` in a browser."""

from __future__ import annotations

import subprocess
from pathlib import Path

from traces import opened_page

CUT = """() => {
  document.querySelectorAll("details").forEach((each) => (each.open = true));
  const isCut = (element) => element.scrollWidth > element.clientWidth + 1 && !element.closest(".hidden");
  const blocks = [...document.querySelectorAll("body *")].filter((each) => getComputedStyle(each).display !== "inline");
  const cut = blocks.filter(isCut).map((each) => `${each.className}: ${each.textContent.slice(0, 80)}`);
  return [document.documentElement.scrollWidth, cut];
}"""


def test_no_column_is_cut_at_1300_pixels(browser: str, rampmeter_command: Path, tmp_path: Path) -> None:
    asked = ["--controller", "cubic", "--quick", "--only", "outage,half-lost"]
    evaluate = [str(rampmeter_command), "evaluate", *asked, "--against", "newreno,bbr", "--out", str(tmp_path)]
    subprocess.run(evaluate, check=True, capture_output=True, cwd=tmp_path)
    with opened_page(browser) as page:
        page.goto((tmp_path / "index.html").as_uri())
        width, cut = page.evaluate(CUT)
    assert (width <= 1300, cut) == (True, [])
