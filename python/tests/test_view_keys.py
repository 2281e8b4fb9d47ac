"""The page by keyboard, and its contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traces import OURS, lines, opened_page, served, written

from rampmeter.view import find, hover

CONTRAST = """() => {
  const light = (colour) => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || ["SCRIPT", "TITLE"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [low, high] = [light(ink), light(behind(element))].sort((one, other) => one - other);
    found.push([(high + 0.05) / (low + 0.05), element.textContent.trim()]);
  }
  return found;
}"""
"""The contrast of each text to what is behind it (WCAG 2.2, section 1.4.3)."""


def test_each_event_of_a_panel_is_one_step_from_the_next(tmp_path: Path) -> None:
    [source] = find([written(tmp_path, "0-bulk.client.qlog", lines(*OURS))])
    shown = source.shown()
    panel = next(panel for panel in shown.panels if panel.key == "sequence")
    assert [series.label for series in panel.series] == ["sent", "acknowledged", "lost"]

    def walk(is_later: bool, off: list[str]) -> list[tuple[int, int]]:
        time, at, steps = (0.0 if is_later else 1.0), None, []
        while event := hover.neighbour(panel, off, time, at, is_later):
            at, time = event, float(panel.series[event.series].time[event.row])
            steps.append((event.series, event.row))
        return steps

    forward = walk(True, [])
    assert forward == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert walk(False, []) == forward[::-1]
    assert walk(True, ["sent", "acknowledged"]) == [(2, 0)]
    text, at = hover.describe(shown, panel, hover.Event(2, 0))
    assert text[:3] == ["Lost at 0.060000 s", "", "Packet 1 left at 0.011000 s"]
    assert at == (0.06, 1500.0)
    trips = next(panel for panel in shown.panels if panel.key == "rtt")
    assert hover.describe(shown, trips, hover.Event(0, 0)) == (["At 0.060000 s", "latest: 50 ms"], (0.06, 0.05))


def test_arrow_keys_read_events_out_and_texts_have_contrast(browser: str, traces: Path) -> None:
    with served(traces) as server, opened_page(browser) as page:
        page.goto(server.url)
        page.wait_for_selector("body[data-ready=true]")
        said = page.locator("[aria-live=polite]#said")

        def press(key: str) -> Any:
            page.keyboard.press(key)
            page.wait_for_timeout(300)
            return said.text_content()

        for _ in range(60):  # Tab reaches every panel
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Stream offset":
                break
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
        whole = page.evaluate("() => ({ ...rampmeterView.view })")
        assert "Packet 0 left at 0.010000 s" in press("ArrowRight")
        assert "Packet 1 left at 0.011000 s" in press("ArrowRight")
        assert "Why now: a timer expired" in said.text_content()
        assert page.locator("#under").is_visible()
        assert page.locator("#ring").is_visible()
        assert page.locator('section[aria-label="Network"] h2').text_content() == "Network at 0.011 s"
        assert "Packet 0 left" in press("ArrowLeft")
        assert press("ArrowLeft") == "no earlier event"
        assert press("End").startswith("Packet 3002 left at 3.019")
        assert page.evaluate("() => ({ ...rampmeterView.view })") == whole
        page.keyboard.press("+")  # the last event is not in view any more
        page.wait_for_timeout(300)
        assert "left at" in press("End")
        press("Escape")
        assert not page.locator("#under").is_visible()

        page.click("text=Round-trip time >> nth=0")
        page.keyboard.press("?")
        texts = page.evaluate(CONTRAST)
        assert len(texts) > 50
        assert [text for text in texts if text[0] < 4.5] == []
