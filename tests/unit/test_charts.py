from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from django.utils import translation

from django_claimq.admin.charts import bars, spark
from django_claimq.insight.statistics import Slot

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
HOSTILE = '<script>alert("1")</script>\'"&'


def slots(*successful, seconds=60, **others):
    """Slots with so many successful runs; of `others`, lists that go along with them."""
    made = []
    for number, count in enumerate(successful):
        more = {name: values[number] for name, values in others.items()}
        start = START + timedelta(seconds=seconds * number)
        made.append(Slot(start=start, seconds=seconds, successful=count, **more))
    return made


def drawn(chart):
    """The SVG of a chart, which has to be well-formed."""
    svg = re.search("<svg.*?</svg>", str(chart), re.DOTALL)[0]
    return ElementTree.fromstring(svg)  # noqa: S314


def rects(chart, kind):
    return [one.attrib for one in drawn(chart).iter("rect") if one.get("class") == kind]


def test_each_slot_has_its_place_and_its_height_by_the_scale():
    chart = bars(slots(0, 5, 10), title="Runs")
    found = rects(chart, "claimq-bar-successful")
    assert [(one["x"], one["y"], one["height"]) for one in found] == [
        ("10", "50", "50"),
        ("20", "0", "100"),
    ]
    assert drawn(chart).get("viewBox") == "0 0 30 100"


def test_what_failed_or_was_lost_stands_on_what_succeeded():
    chart = bars(slots(50, failed=[20], lost=[30]), title="Runs")
    (good,), (bad,) = rects(chart, "claimq-bar-successful"), rects(chart, "claimq-bar-failed")
    assert (good["y"], good["height"]) == ("50", "50")
    assert (bad["y"], bad["height"]) == ("0", "50")


def test_one_failure_among_many_is_seen_and_nothing_leaves_the_drawing():
    chart = bars(slots(10_000 - 1, 0, failed=[1, 1]), title="Runs")
    for one in rects(chart, "claimq-bar-failed"):
        assert float(one["height"]) == 2
    (good,) = rects(chart, "claimq-bar-successful")
    assert (good["y"], good["height"]) == ("2", "98")


@pytest.mark.parametrize(
    ("most", "scale"),
    [
        (1, ["1", "", "0"]),
        (7, ["8", "4", "0"]),
        (11, ["20", "10", "0"]),
        (280, ["300", "150", "0"]),
        (10**6, ["1,000,000", "500,000", "0"]),
    ],
)
def test_the_scale_ends_at_a_number_that_is_easily_read(most, scale):
    chart = bars(slots(most), title="Runs")
    text = re.search("claimq-scale.*?>(.*?)</div>", str(chart), re.DOTALL)[1]
    assert re.findall("<span>(.*?)</span>", text) == scale


def test_it_says_in_words_what_it_shows():
    chart = bars(slots(1200, 0, failed=[3, 0], lost=[1, 0]), title="Runs of late")
    svg = drawn(chart)
    assert svg.get("role") == "img"
    titles = [one.text for one in svg.iter("title")]
    assert titles[0] == "Runs of late"
    assert titles[1] == "09:30: 1,200 successful, 4 failed or lost"
    rows = re.findall(r"<tr>(.*?)</tr>", str(chart).split("<tbody>")[1], re.DOTALL)
    cells = [re.findall(">([^<]+)</t[hd]>", row) for row in rows]
    assert cells == [["09:30", "1,200", "3", "1", "0", "0"]]


def test_a_chart_of_several_days_names_them():
    chart = str(bars(slots(*[1] * 168, seconds=3600), title="Runs"))
    axis = re.search("claimq-axis.*?>(.*?)</div>", chart, re.DOTALL)[1]
    labels = re.findall("<span>(.*?)</span>", axis)
    assert labels == ["Mon 09:30", "Wed 03:30", "Thu 21:30", "Sat 15:30", "now"]


def test_a_time_in_which_nothing_ran_is_said_to_be_empty():
    for chart in (bars(slots(0, 0), title="Runs"), bars([], title="Runs")):
        assert "Nothing ran in this time." in chart
        assert "<table" not in chart
        assert "<svg" not in chart


def test_numbers_are_written_the_same_in_every_language():
    with translation.override("de"):
        chart = bars(slots(1, 3, *[0] * 120), title="Runs")
    for one in rects(chart, "claimq-bar-successful"):
        assert float(one["height"]) > 0
    assert drawn(chart).get("viewBox") == "0 0 1220 100"


def test_a_title_is_text():
    for chart in (bars(slots(1), title=HOSTILE), spark([1], title=HOSTILE)):
        assert "<script>" not in chart
        assert next(drawn(chart).iter("title")).text == HOSTILE


def test_a_spark_has_a_bar_for_each_value_that_is_not_zero():
    svg = drawn(spark([0, 5, 10, 0.001], title="Runs"))
    assert svg.get("viewBox") == "0 0 16 20"
    assert svg.find("path").get("d") == "M4 20v-10h3v10zM8 20v-20h3v20zM12 20v-2h3v2z"


@pytest.mark.parametrize("values", [[], [0, 0]])
def test_a_spark_of_nothing_draws_nothing(values):
    assert drawn(spark(values, title="Runs")).find("path").get("d") == ""


def test_no_chart_needs_inline_style_or_script():
    for chart in (bars(slots(1, 2, failed=[1, 0]), title="Runs"), spark([1], title="Runs")):
        assert not re.search(r"style|<script|\son\w+=|data:", str(chart))
