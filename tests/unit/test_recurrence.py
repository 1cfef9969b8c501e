from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.recurrence import Recurrence

PARIS = ZoneInfo("Europe/Paris")
CRONS = ("*/7 * * * *", "0 * * * *", "30 2 * * *", "15 23 * * 1-5", "0 0 1 * *", "0 4 29 2 *")


def utc(*numbers):
    return datetime(*numbers, tzinfo=UTC)


def local(recurrence, after, until):
    """The slots in between, as the clocks of the zone show them."""
    zone = ZoneInfo(recurrence.zone)
    slots = recurrence.between(after, until, 1000)
    return [f"{slot.astimezone(zone):%d %H:%M %z}" for slot in slots]


def cron(expression, zone="Europe/Paris", **others):
    return Recurrence(cron=expression, zone=zone, **others)


class TestClockChanges:
    def test_an_hour_that_is_left_out_is_met_at_the_change(self):
        slots = local(cron("30 2 * * *"), utc(2025, 3, 29), utc(2025, 4, 1))
        assert slots == ["29 02:30 +0100", "30 03:00 +0200", "31 02:30 +0200"]

    def test_an_hour_that_comes_twice_is_met_the_first_time(self):
        slots = local(cron("30 2 * * *"), utc(2025, 10, 25), utc(2025, 10, 28))
        assert slots == ["25 02:30 +0200", "26 02:30 +0200", "27 02:30 +0100"]

    def test_so_it_is_for_who_looks_between_the_two(self):
        between = utc(2025, 10, 26, 0, 45)
        assert cron("30 2 * * *").after(between) == utc(2025, 10, 27, 1, 30)

    def test_what_repeats_within_the_day_goes_on_by_the_real_time(self):
        slots = cron("*/30 * * * *").between(utc(2025, 10, 25, 22), utc(2025, 10, 26, 4), 100)
        assert {later - one for one, later in pairwise(slots)} == {timedelta(minutes=30)}
        hourly = local(cron("15 * * * *"), utc(2025, 10, 26, 0), utc(2025, 10, 26, 2))
        assert hourly == ["26 02:15 +0200", "26 02:15 +0100"]

    def test_a_change_of_half_an_hour(self):
        lord_howe = "Australia/Lord_Howe"
        spring = local(cron("15 2 * * *", lord_howe), utc(2025, 10, 3), utc(2025, 10, 6))
        assert spring == ["04 02:15 +1030", "05 02:30 +1100", "06 02:15 +1100"]
        autumn = local(cron("45 1 * * *", lord_howe), utc(2025, 4, 4), utc(2025, 4, 7))
        assert autumn == ["05 01:45 +1100", "06 01:45 +1100", "07 01:45 +1030"]


@lru_cache(maxsize=1)
def changes_of_all_zones():
    """The day of each change of clocks in a year, once for all the zones that share it."""
    found = {}
    for name in sorted(available_timezones()):
        zone, moment = ZoneInfo(name), utc(2025, 1, 1)
        while moment < utc(2026, 1, 1):
            following = moment + timedelta(days=1)
            before, after = (one.astimezone(zone).utcoffset() for one in (moment, following))
            if before != after:
                found.setdefault((moment, before, after), name)
            moment = following
    return found


def test_in_every_zone_a_daily_slot_comes_once_a_day_around_a_change_of_clocks():
    changes = changes_of_all_zones()
    assert len(changes) > 30
    for (moment, _, _), zone in changes.items():
        for hour in (0, 1, 2, 3, 12, 23):  # Clocks are changed at night.
            for minute in (0, 30):
                daily, slots = cron(f"{minute} {hour} * * *", zone), [moment - timedelta(days=2)]
                while len(slots) < 5:
                    slots.append(daily.after(slots[-1]))
                steps = [later - one for one, later in pairwise(slots[1:])]
                day = timedelta(hours=22), timedelta(hours=26)
                assert all(day[0] <= step <= day[1] for step in steps), (zone, moment, hour, minute)


def test_in_every_zone_quarters_of_an_hour_are_a_quarter_of_an_hour_apart():
    for (moment, _, _), zone in changes_of_all_zones().items():
        around = moment - timedelta(hours=2), moment + timedelta(hours=26)
        slots = cron("*/15 * * * *", zone).between(*around, 1000)
        steps = {later - one for one, later in pairwise(slots)}
        assert steps == {timedelta(minutes=15)}, (zone, moment)


class TestBetween:
    @given(
        st.sampled_from(CRONS),
        st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]),
        st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
        st.timedeltas(timedelta(0), timedelta(days=40)),
        st.integers(1, 20),
    )
    def test_it_gives_the_newest_of_those_that_follow_one_another(
        self, expression, zone, start, span, limit
    ):
        recurrence, after = cron(expression, zone), start.replace(tzinfo=UTC)
        until, one, all_slots = after + span, after, []
        while (one := recurrence.after(one)) is not None and one <= until:
            all_slots.append(one)
        assert recurrence.between(after, until, limit) == all_slots[-limit:]

    def test_years_of_slots_are_not_walked_through(self):
        counted = []

        class Counting(Recurrence):
            def _all(self, after):
                for slot in super()._all(after):
                    counted.append(slot)
                    yield slot

        slots = Counting(cron="* * * * *").between(utc(2000, 1, 1), utc(2026, 1, 1), 3)
        assert slots == [utc(2025, 12, 31, 23, 58), utc(2025, 12, 31, 23, 59), utc(2026, 1, 1)]
        assert len(counted) < 100

    def test_the_end_is_in_it_and_the_beginning_is_not(self):
        hourly = Recurrence(every=3600)
        slots = hourly.between(utc(2026, 1, 1, 1), utc(2026, 1, 1, 3), 9)
        assert slots == [utc(2026, 1, 1, 2), utc(2026, 1, 1, 3)]


class TestIntervals:
    def test_all_agree_on_the_slots_whenever_they_begin_to_count(self):
        slots = {Recurrence(every=900).after(utc(2026, 1, 1, 0, minute, 7)) for minute in range(15)}
        assert slots == {utc(2026, 1, 1, 0, 15)}

    def test_they_count_from_the_start_where_there_is_one(self):
        recurrence = Recurrence(every=86_400, starts_at=datetime(2026, 1, 1, 7, 30, tzinfo=PARIS))
        assert recurrence.after(utc(2020, 1, 1)) == utc(2026, 1, 1, 6, 30)
        assert recurrence.after(utc(2026, 5, 1)) == utc(2026, 5, 1, 6, 30)

    def test_there_are_none_after_the_end(self):
        recurrence = Recurrence(every=60, ends_at=utc(2026, 1, 1, 0, 2))
        assert len(recurrence.between(utc(2026, 1, 1), utc(2027, 1, 1), 99)) == 2
        assert recurrence.after(utc(2026, 1, 1, 0, 2)) is None

    def test_what_comes_once_comes_once(self):
        once = Recurrence(at=datetime(2026, 1, 1, 7, tzinfo=PARIS))
        assert once.after(utc(2025, 1, 1)) == utc(2026, 1, 1, 6)
        assert once.after(utc(2026, 1, 1, 6)) is None

    def test_what_never_comes_has_no_slot(self):
        assert (
            cron("0 0 30 1 *", starts_at=utc(2026, 2, 1), ends_at=utc(2026, 3, 1)).after(
                utc(2026, 1, 1)
            )
            is None
        )


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({}, "one of"),
        ({"cron": "* * * * *", "every": 5}, "one of"),
        ({"every": 0.5}, "shortest interval"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "61 * * * *"}, "five fields"),
        ({"cron": "0 0 31 2 *"}, "five fields"),
        ({"cron": "\0"}, "five fields"),
        ({"every": 60, "zone": "Mars/Olympus"}, "Europe/Paris"),
        ({"every": 60, "zone": "../etc/passwd"}, "Europe/Paris"),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(values, fix):
    with pytest.raises(ValueError, match=fix):
        Recurrence(**values)


def test_it_says_in_words_when_it_is_due():
    assert cron("30 2 * * *").explain() == "At 02:30 every day (Europe/Paris)"
    assert Recurrence(every=900).explain() == "every 15 minutes"
    assert Recurrence(every=1.5).explain() == "every 1.5 seconds"
    assert Recurrence(at=utc(2026, 1, 1, 6), zone="Europe/Paris").explain() == (
        "once at 2026-01-01 07:00:00 CET"
    )
