"""The page in a browser: opened in Chromium from a file, clicked, on a narrow screen, in dark mode."""

import json
import math
import os
import shutil

import pytest

from peerdescent import train
from peerdescent.graphs import parse
from peerdescent.report import page, run_page
from peerdescent.report.layout import WeightedGraph
from peerdescent.report.page import Claim, Curves, Page, Section
from peerdescent.report.tables import Table
from peerdescent.runs.folder import read_metrics
from peerdescent.runs.metrics import Metrics

pytestmark = pytest.mark.e2e
PATIENCE = 30
"""Seconds to wait for the page, which a loaded machine redraws slowly."""
HOSTILE = "</script><img src=x onerror=alert(1)><b>%{x}"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


def program(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        message = f"no {names[0]}: install the Debian packages chromium and chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(program("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two methods, one with three seeds, on a problem that has an accuracy."""
    root = tmp_path_factory.mktemp("runs")
    for name, method, seed in (("a1", "d-sgd-1", 1), ("a2", "d-sgd-1", 2), ("a3", "d-sgd-1", 3), ("b1", "dm-sgd", 1)):
        train("mnist-nn", "ring:5", method, iterations=40, batch_size=5, seed=seed, eval_every=5, out=root / name)
    return root


@pytest.fixture(scope="module")
def places(folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("pages")
    shown = {"good": run_page.page([folder], "peerdescent report 'a b'"), "odd": odd(), "empty": odd(rows=0)}
    for name, content in shown.items():
        page.write(content, root / f"{name}.html")
    return root


def odd(rows=30):
    """A run that diverged, one still running, one with a hostile name; fifty agents; a table wider than a phone."""

    def table(count, broken=None):
        losses = [0.9**k * (1 if broken is None or k < broken - 3 else 1e9) for k in range(count)]
        values = [math.nan if k == broken else loss for k, loss in enumerate(losses)]
        return Metrics(
            [
                {"iteration": 10 * k, "loss": v, "consensus_error": 0.0, "seconds": k, HOSTILE: 2 + k}
                for k, v in enumerate(values)
            ]
        )

    methods = {"plain": [table(rows)], "broken": [table(min(rows, 11), broken=10)], HOSTILE: [table(rows // 2)]}
    curves = Curves("γ", methods, 30, {"plain": 290, "broken": 290, HOSTILE: 290})
    wide = Table("Agents", [str(i) for i in range(60)], [[f"{i / 7:.4f}" for i in range(60)]])
    words = "word" * 60
    section = Section(words, words, [curves], [WeightedGraph.build(parse("er:50:0.1:seed=1"))], [wide], {words: words})
    return Page(words, words, [Claim(words, words, "not reproduced", words)], [section], {words: words}, [words])


@pytest.fixture
def reader(chromium, places):
    """Opens a page at a width and in a colour scheme, with empty logs."""

    def visit(name, width=1200, scheme="light"):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for log in ("browser", "performance"):
            chromium.get_log(log)
        chromium.get((places / f"{name}.html").as_uri())
        return Reader(chromium)

    return visit


class Reader:
    """A reader of the page, who looks and clicks."""

    def __init__(self, driver):
        self.driver = driver

    def wait(self, condition, what):
        """Wait until the page has changed; `what` describes the change if it does not come."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, PATIENCE).until(lambda _: condition(), f"the page does not show {what}")

    def wait_for(self, lines):
        """Wait until so many lines are drawn."""
        self.wait(lambda: self.drawn() == lines, f"{lines} lines")

    def ask(self, script, *arguments):
        return self.driver.execute_script(f"return {script}", *arguments)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def click(self, element, double=False):
        """Click an element, scrolled into view at once: the page scrolls smoothly, and a click would miss."""
        from selenium.webdriver import ActionChains

        self.ask("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        actions = ActionChains(self.driver)
        (actions.double_click(element) if double else actions.click(element)).perform()

    def legend(self, number, double=False):
        self.click(self.all(".legend button")[number], double)

    def choose(self, name, value):
        from selenium.webdriver.support.select import Select

        (element,) = self.all(f"select[name={name}]")
        Select(element).select_by_value(value)

    def options(self, name):
        return [option.get_attribute("value") for option in self.all(f"select[name={name}] option")]

    def traces(self, part="line"):
        """The data given to plotly, by label."""
        script = "document.querySelector('.plot').data.map((t) => ({...t.meta, x: [...t.x], y: [...t.y]}))"
        return {trace["label"]: trace for trace in self.ask(script) if trace["part"] == part}

    def drawn(self):
        """The number of lines in the picture; while it is redrawn, there is none."""
        lines = "[...document.querySelectorAll('.plot .scatterlayer path.js-line')]"
        visible = "(line.getAttribute('d') ?? '').startsWith('M') && getComputedStyle(line).strokeWidth !== '0px'"
        return self.ask(f"{lines}.filter((line) => {visible}).length")

    def title(self, axis):
        return self.all(f".plot .{axis}title")[0].text


@pytest.mark.parametrize("name", ["good", "odd", "empty"])
def test_it_opens_without_errors_and_without_the_network(reader, places, name):
    found = reader(name)
    assert found.all(".plot svg")
    assert found.driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in found.driver.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [(places / f"{name}.html").as_uri()]


def test_curves_are_drawn_from_the_records(reader, folder):
    found = reader("good")
    assert set(found.traces()) == {"d-sgd-1", "dm-sgd"}
    assert set(found.traces("band")) == {"d-sgd-1", "dm-sgd"}
    found.wait_for(lines=2)
    losses = read_metrics(folder / "b1")["loss"]
    assert found.traces()["dm-sgd"]["y"] == pytest.approx(losses, rel=1e-4)
    seeds = [read_metrics(folder / name)["loss"] for name in ("a1", "a2", "a3")]
    assert found.traces()["d-sgd-1"]["y"] == pytest.approx([sum(at) / 3 for at in zip(*seeds, strict=True)], rel=1e-4)


def test_a_click_hides_and_a_double_click_isolates(reader):
    found = reader("good")
    found.wait_for(lines=2)
    found.legend(0)
    found.wait(lambda: set(found.traces()) == {"dm-sgd"}, "dm-sgd alone")
    assert set(found.traces("band")) == {"dm-sgd"}
    found.wait_for(lines=1)
    assert [e.get_attribute("aria-pressed") for e in found.all(".legend button")] == ["false", "true"]
    found.legend(0)
    found.wait_for(lines=2)
    found.legend(0, double=True)
    found.wait(lambda: set(found.traces()) == {"d-sgd-1"}, "d-sgd-1 alone")
    found.legend(0, double=True)
    found.wait_for(lines=2)


def test_axes_can_be_switched(reader, folder):
    found, records = reader("good"), read_metrics(folder / "b1")
    assert found.options("y") == ["loss", "test_loss", "accuracy", "consensus_error", "gradient_norm"]
    assert found.options("x") == ["iteration", "bytes_sent", "seconds"]
    assert (found.title("x"), found.title("y")) == ("iterations", "risk")
    assert found.traces()["dm-sgd"]["x"] == records["iteration"]
    found.choose("x", "bytes_sent")
    found.choose("y", "accuracy")
    assert (found.title("x"), found.title("y")) == ("bytes sent", "test accuracy (%)")
    shown = found.traces()["dm-sgd"]
    assert shown["x"] == pytest.approx(records["bytes_sent"], rel=1e-4)
    assert shown["y"] == pytest.approx([100 * value for value in records["accuracy"]], rel=1e-4)


def test_single_seeds_have_a_band_of_their_agents(reader, folder):
    found, records = reader("good"), read_metrics(folder / "b1")
    assert "lowest to the highest agent" in found.all(".remarks")[-1].text
    for column, scale in (("loss", 1), ("accuracy", 100)):
        found.choose("y", column)
        band, agents = found.traces("band")["dm-sgd"], records[f"agent_{column}"]
        assert max(band["y"]) == pytest.approx(scale * max(map(max, agents)), rel=1e-4)
        assert min(band["y"]) == pytest.approx(scale * min(map(min, agents)), rel=1e-4)
    found.choose("y", "gradient_norm")
    assert "dm-sgd" not in found.traces("band")


def test_metrics_of_the_user_can_be_chosen_and_are_never_markup(reader):
    found = reader("odd")
    found.choose("y", HOSTILE)
    assert found.title("y") == HOSTILE.removesuffix("%{x}")  # which plotly takes for a variable
    assert not found.all("img")
    assert found.traces()["plain"]["y"][:2] == [2, 3]


def test_scales_can_be_switched(reader):
    found = reader("good")
    for axis in "xy":
        kind = f"document.querySelector('.plot')._fullLayout.{axis}axis.type"
        before = found.ask(kind)
        found.click(found.all(f"button[name=log{axis}]")[0])
        assert {before, found.ask(kind)} == {"linear", "log"}


def test_the_table_shows_the_records(reader, folder):
    found, last = reader("good"), read_metrics(folder / "b1")[-1]
    table = found.all("table")[0]
    heads = [cell.text for cell in table.find_elements("css selector", "th")]
    cells = [cell.text for cell in table.find_elements("css selector", "tbody tr:nth-child(2) td")]
    line = dict(zip(heads, cells, strict=True))
    assert line["method"] == "dm-sgd"
    assert float(line["risk"]) == pytest.approx(last["loss"], rel=1e-3)
    assert float(line["test accuracy (%)"]) == pytest.approx(100 * last["accuracy"], abs=0.005)
    assert float(line["consensus error"]) == pytest.approx(last["consensus_error"], rel=1e-2)
    assert int(line["iterations"]) == last["iteration"] == 40
    aligned = found.ask("getComputedStyle(document.querySelector('tbody td:nth-child(4)')).textAlign")
    assert aligned == "right"


@pytest.mark.parametrize("name", ["good", "odd", "empty"])
@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_never_scrolls_sideways(reader, name, width):
    found = reader(name, width)
    assert found.ask("innerWidth") == width
    assert found.ask("document.documentElement.scrollWidth") <= width
    figure, plot = (found.all(selector)[0].size["width"] for selector in (".chart", ".plot .main-svg"))
    assert plot == pytest.approx(figure, abs=1)
    if name == "odd":
        box = found.all(".scroll")[0]
        assert found.ask("arguments[0].scrollWidth > arguments[0].clientWidth", box)


def test_runs_that_diverged_or_are_still_running_are_marked(reader):
    found = reader("odd")
    entries = [entry.text for entry in found.all(".legend button")]
    assert entries[0] == "plain"
    assert "diverged at k = 100" in entries[1]
    assert "still running: 140 of 290 iterations" in entries[2]
    assert set(found.traces("end")) == {"broken"}
    assert found.traces("end")["broken"]["x"] == [90]
    assert found.traces()["broken"]["x"][-1] == 90
    # its last values would flatten the other curves: the axis follows those
    top = found.ask("document.querySelector('.plot')._fullLayout.yaxis.range[1]")
    assert top < 3
    assert found.traces()["broken"]["y"][-1] > 1e8


def test_a_label_is_never_markup(reader):
    found = reader("odd")
    assert HOSTILE in found.all(".legend button")[2].text
    assert not found.all("img")
    assert found.traces()[HOSTILE]["x"]


def test_quantities_that_are_absent_are_not_offered(reader):
    found = reader("odd")
    assert found.options("y") == ["loss", HOSTILE, "consensus_error"]
    assert found.options("x") == ["iteration", "epochs", "seconds"]
    found.choose("x", "epochs")
    assert found.title("x") == "epochs"
    assert found.traces()["plain"]["x"][3] == pytest.approx(1)


def test_a_remark_names_what_a_logarithmic_axis_cannot_show(reader):
    found = reader("odd")
    found.choose("y", "consensus_error")
    found.wait_for(lines=3)
    found.ask("arguments[0].click()", found.all("button[name=logy]")[0])  # remarks still move it while they are written
    found.wait_for(lines=0)
    remark = "a logarithmic axis cannot show 0: plain, broken"
    found.wait(lambda: remark in found.all(".remarks")[-1].text, repr(remark))


def test_colours_follow_the_preferred_scheme(reader):
    def colours(found):
        page_colour = found.ask("getComputedStyle(document.body).backgroundColor")
        return page_colour, found.all(".plot .xtitle")[0].value_of_css_property("fill")

    (light, dark_ink), (dark, light_ink) = colours(reader("good")), colours(reader("good", scheme="dark"))
    assert min(brightness(light), brightness(light_ink)) > 200
    assert max(brightness(dark), brightness(dark_ink)) < 60


def brightness(colour):
    channels = [float(part) for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    return sum(channels) / 3


def test_the_command_can_be_copied(reader):
    found = reader("good")
    found.click(found.all("#copy")[0])
    found.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    script = "navigator.clipboard.readText().then(arguments[0], (error) => arguments[0](String(error)))"
    assert found.driver.execute_async_script(script) == "peerdescent report 'a b'"
