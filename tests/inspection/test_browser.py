"""The page in a real browser: opened from the disk, stepped through, read back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import NAMES, Browser, executable
from tests.inspection.test_report import data

pytestmark = pytest.mark.skipif(
    executable() is None,
    reason=f"NO BROWSER: none of {', '.join(NAMES)} is installed, the page is not tested",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = executable()
    assert program is not None
    made = Browser(program, tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.look(1200, 900, "light")
    browser.open(page)
    browser.run("document.getElementById('player').focus()")
    yield browser
    assert not browser.problems


def _shown_q(browser: Browser) -> list[float]:
    return browser.run(
        "[...document.querySelectorAll('#q [data-q]')].map(timestep => Number(timestep.dataset.q))"
    )


def _step(browser: Browser) -> str:
    return browser.run("document.getElementById('step').textContent")


def test_every_step_shows_its_q_values_picture_and_view(opened: Browser, page: Path) -> None:
    found = data(page, "player")
    run = found["runs"][0]
    for number, episode in enumerate(run["episodes"]):
        for t, q in enumerate(episode["q"]):
            assert _step(opened) == f"step {t} of {episode['length']}"
            assert _shown_q(opened) == q
            bold = opened.run("document.querySelector('#q .greedy .name').textContent")
            assert bold == run["actions"][q.index(max(q))]
            picture = opened.run("document.getElementById('world').src")
            assert picture == found["pictures"][episode["picture"][t]]
            cells = opened.run(
                "[...document.querySelectorAll('#view .grid span')].map(x => Number(x.textContent))"
            )
            assert cells == run["views"][episode["view"][t]][0]
            cells = "[...document.querySelectorAll('.strip')[0].querySelectorAll(':enabled')]"
            heat = opened.run(f"{cells}.map(x => x.getAttribute('aria-label'))")
            timestep = episode["maps"]["shown"][t]
            assert heat == [f"step {k}: {timestep[k] / 10:.1f}\u00a0%" for k in range(t + 1)]
            opened.press("ArrowRight")
        assert _step(opened) == f"end, after {episode['length']} steps"
        assert opened.run("document.getElementById('world').naturalWidth") > 0
        if number + 1 < len(run["episodes"]):
            opened.press("ArrowDown")


def test_keys_and_the_choice_of_a_run(opened: Browser, page: Path) -> None:
    runs = data(page, "player")["runs"]
    length = runs[0]["episodes"][0]["length"]
    opened.press("End")
    assert _step(opened) == f"end, after {length} steps"
    opened.press("ArrowLeft")
    assert _shown_q(opened) == runs[0]["episodes"][0]["q"][-1]
    opened.press("Home")
    opened.press("ArrowLeft")
    assert _step(opened) == f"step 0 of {length}"
    opened.press("ArrowDown")
    opened.press("ArrowRight")
    assert _shown_q(opened) == runs[0]["episodes"][1]["q"][1]
    opened.press("ArrowUp")
    assert _shown_q(opened) == runs[0]["episodes"][0]["q"][0]
    opened.run("(() => { const s = document.getElementById('run'); s.value = 1;"
               "s.dispatchEvent(new Event('change')) })()")  # fmt: skip
    assert _shown_q(opened) == runs[1]["episodes"][0]["q"][0]


def test_a_past_step_is_seen_by_mouse_and_by_keys(opened: Browser, page: Path) -> None:
    found = data(page, "player")
    run = found["runs"][0]
    episode = run["episodes"][0]
    for _ in range(4):
        opened.press("ArrowRight")

    def past() -> tuple[str, str, list[float]]:
        return (
            opened.run("document.getElementById('past-title').textContent"),
            opened.run("document.getElementById('past-world').src"),
            opened.run("[...document.querySelectorAll('#past-view span')].map(x => Number(x.textContent))"),
        )

    def of(k: int, words: str) -> tuple[str, str, list[float]]:
        picture = found["pictures"][episode["picture"][k]]
        return f"Step {k}{words}", picture, run["views"][episode["view"][k]][0]

    timestep = episode["maps"]["shown"][4]
    assert past() == of(timestep.index(max(timestep)), ", which counts most")
    opened.hover(".strip button:nth-child(3)")
    assert past() == of(2, "")
    assert f"{timestep[2] / 10:.1f}\u00a0%" in opened.run(
        "document.getElementById('past-values').textContent"
    )
    opened.ask("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert past() == of(timestep.index(max(timestep)), ", which counts most")
    opened.run("document.querySelector('.strip button[tabindex=\"0\"]').focus()")
    opened.press("ArrowLeft")
    assert past() == of(3, "")
    opened.press("Home")
    assert past() == of(0, "")
    assert _step(opened) == "step 4 of 7", "keys in a strip leave the decision"
    opened.run("document.getElementById('go').click()")
    assert _step(opened) == "step 0 of 7"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1200])
def test_the_curve_is_drawn_and_nothing_is_wider_than_the_page(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    browser.look(width, 900, scheme)
    browser.open(page)
    assert browser.run("document.getElementById('curve').naturalWidth") > 200
    turned = browser.run("getComputedStyle(document.getElementById('curve')).filter")
    assert turned.startswith("invert") == (scheme == "dark")
    assert browser.run("document.documentElement.scrollWidth") <= width
    columns = browser.run("getComputedStyle(document.querySelector('.panes')).gridTemplateColumns").split()
    assert len(columns) == (1 if width < 700 else 3)
    light = browser.run("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")
    assert (int(light[0]) > 128) == (scheme == "light")
    assert not browser.problems


def test_the_page_is_ready_within_a_second(browser: Browser, page: Path) -> None:
    """From the start of its loading to the end of its scripts; five times as much is let pass here."""
    browser.open(page)
    took = browser.run("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert 0 < took < 5000
