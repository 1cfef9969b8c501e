"""`claimq import-schedules`: what becomes of the schedules of others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from django_claimq import schedulable, task
from django_claimq.models import Job, Schedule
from django_claimq.queueing import firing, schedules
from tests import foreign_tables as tables
from tests.tasks import noop

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC).replace(microsecond=0)
LATER = NOW + timedelta(days=30)
EARLIER = datetime(2020, 1, 1, 4, 30, tzinfo=UTC)


@schedulable
@task
def clean(days=1, *, deep=False):
    pass


PATH = clean.module_path


@pytest.fixture
def beat():
    tables.create("django_celery_beat")

    def add(name="nightly", *, task=PATH, **values):
        tables.add_periodic_task(name, task, NOW, **values)

    return add


@pytest.fixture
def q2():
    tables.create("django_q")

    def add(kind="D", *, func=PATH, next_run=LATER, name="nightly", **values):
        tables.add_q_schedule(func, kind, next_run, name=name, **values)

    return add


def crontab(minute="30", hour="4", day="*", month="*", weekday="*", zone="Europe/Paris"):
    return tables.add(
        "django_celery_beat_crontabschedule",
        minute=minute,
        hour=hour,
        day_of_month=day,
        month_of_year=month,
        day_of_week=weekday,
        timezone=zone,
    )


def interval(every=15, period="minutes"):
    return tables.add("django_celery_beat_intervalschedule", every=every, period=period)


def clocked(at):
    return tables.add("django_celery_beat_clockedschedule", clocked_time=at)


def run(capsys, source, *arguments):
    code = 0
    try:
        call_command("claimq", "import-schedules", "--from", source, *arguments)
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().out


def outcomes(capsys, source, *arguments):
    _, out = run(capsys, source, *arguments, "--format", "json")
    return {told["name"]: told for told in json.loads(out)}


def refusal(capsys, source, *arguments):
    [told] = outcomes(capsys, source, *arguments).values()
    assert told["outcome"] == "refused"
    assert not Schedule.objects.exists()
    return told["why"]


class TestCeleryBeat:
    def test_a_crontab_keeps_its_zone_arguments_queue_and_priority(self, beat, capsys):
        beat(
            crontab_id=crontab("*/5, 7", weekday="mon-fri"),
            args=[3],
            kwargs={"deep": True},
            queue="mail",
            priority=7,
        )
        code, out = run(capsys, "celery-beat")
        assert (code, out.startswith("'nightly' imported\n")) == (0, True)
        row = Schedule.objects.get()
        assert (row.cron, row.zone) == ("*/5,7 4 * * mon-fri", "Europe/Paris")
        assert (row.task, row.args, row.kwargs) == (PATH, [3], {"deep": True})
        assert (row.queue_name, row.priority, row.declared) == ("mail", 7, False)
        assert row.enabled
        assert row.next_at > NOW

    def test_an_interval_goes_on_where_it_was(self, beat, capsys):
        beat(interval_id=interval(1, "days"), last_run_at=EARLIER)
        run(capsys, "celery-beat")
        row = Schedule.objects.get()
        assert (row.every, row.starts_at) == (86_400.0, EARLIER)
        assert (row.next_at.hour, row.next_at.minute) == (4, 30)

    def test_start_and_end_are_kept(self, beat, capsys):
        beat(interval_id=interval(), start_time=LATER, expires=LATER + timedelta(hours=1))
        run(capsys, "celery-beat")
        row = Schedule.objects.get()
        assert (row.starts_at, row.ends_at) == (LATER, LATER + timedelta(hours=1))
        assert row.next_at == LATER

    def test_what_is_to_run_once_becomes_a_moment(self, beat, capsys):
        beat("clocked", clocked_id=clocked(LATER), one_off=True)
        beat("next", crontab_id=crontab(zone="Asia/Tokyo"), one_off=True)
        run(capsys, "celery-beat")
        once, following = Schedule.objects.order_by("name")
        assert once.at == once.next_at == LATER
        assert NOW < following.at <= NOW + timedelta(days=1)
        assert (following.at.hour, following.at.minute) == (19, 30)

    def test_what_is_off_stays_off(self, beat, capsys):
        beat(interval_id=interval(), enabled=False)
        assert ", turned off\n" in run(capsys, "celery-beat")[1]
        assert not Schedule.objects.get().enabled

    def test_what_is_not_carried_over_is_told(self, beat, capsys):
        beat(interval_id=interval(), headers='{"a": 1}', exchange="x", expire_seconds=60)
        [told] = outcomes(capsys, "celery-beat").values()
        assert told["left_out"] == ["exchange", "headers", "expire_seconds"]

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            ({"task": "shop.old.clean"}, "--map shop.old.clean=shop.tasks.clean"),
            ({"task": "os.system"}, "put @schedulable"),
            ({"task": noop.module_path}, "put @schedulable"),
            ({"args": "[1"}, "args are not JSON"),
            ({"args": {"a": 1}}, "args are not a list"),
            ({"args": [1, 2, 3]}, "clean"),
            ({"kwargs": {"no": 1}}, "clean"),
            ({"queue": "celery"}, "--map-queue celery=census"),
            ({"priority": 200}, "riority"),
            ({"one_off": True, "total_run_count": 1}, "has: there is nothing"),
            ({"one_off": True, "expires": EARLIER}, "a time that has passed"),
            ({"expires": EARLIER}, "last time has passed"),
        ],
    )
    def test_what_cannot_be_is_refused_with_the_fix(self, beat, capsys, values, why):
        beat(interval_id=interval(), **values)
        assert why in refusal(capsys, "celery-beat")

    @pytest.mark.parametrize(
        ("when", "why"),
        [
            (lambda: {}, "does not say when"),
            (lambda: {"interval_id": interval(500, "microseconds")}, "shortest interval"),
            (lambda: {"interval_id": interval(1, "moons")}, "'moons' is none of days"),
            (lambda: {"clocked_id": clocked(EARLIER), "one_off": True}, "last time has passed"),
            (lambda: {"crontab_id": crontab(day="1", weekday="1")}, "means either"),
            (lambda: {"crontab_id": crontab(minute="soon")}, "cannot be read"),
            (lambda: {"crontab_id": crontab(zone="Mars/Olympus")}, "no time zone"),
            (
                lambda: {
                    "solar_id": tables.add(
                        "django_celery_beat_solarschedule", event="sunset", latitude=1, longitude=1
                    )
                },
                "follows the sun",
            ),
        ],
    )
    def test_when_it_cannot_be_due_it_says_so(self, beat, capsys, when, why):
        beat(**when())
        assert why in refusal(capsys, "celery-beat")


class TestDjangoQ2:
    @pytest.fixture(autouse=True)
    def in_paris(self, settings):
        settings.TIME_ZONE = "Europe/Paris"

    NEXT = datetime(2999, 7, 5, 2, 30, tzinfo=UTC)  # A Friday, half past four in Paris.

    @pytest.mark.parametrize(
        ("kind", "cron"),
        [
            ("D", "30 4 * * *"),
            ("W", "30 4 * * 5"),
            ("M", "30 4 5 * *"),
            ("BM", "30 4 5 1,3,5,7,9,11 *"),
            ("Q", "30 4 5 1,4,7,10 *"),
            ("Y", "30 4 5 7 *"),
        ],
    )
    def test_days_and_months_become_expressions_in_local_time(self, q2, capsys, kind, cron):
        q2(kind, next_run=self.NEXT)
        run(capsys, "django-q2")
        row = Schedule.objects.get()
        assert (row.cron, row.zone, row.enabled) == (cron, "Europe/Paris", True)
        assert row.recurrence.after(self.NEXT - timedelta(seconds=1)) == self.NEXT

    @pytest.mark.parametrize(("kind", "every"), [("I", 45 * 60), ("H", 3600), ("BW", 14 * 86_400)])
    def test_the_others_become_intervals_from_the_next_run_on(self, q2, capsys, kind, every):
        q2(kind, minutes=45)
        run(capsys, "django-q2")
        row = Schedule.objects.get()
        assert (row.every, row.starts_at, row.next_at) == (every, LATER, LATER)

    def test_once_and_cron(self, q2, capsys):
        q2("O", name="once")
        q2("C", name="cron", cron="*/5 4 * * *")
        q2("C", name="seconds", cron="*/5 4 * * * 30", next_run=EARLIER)
        run(capsys, "django-q2")
        rows = {row.name: row for row in Schedule.objects.all()}
        assert rows["once"].at == LATER
        assert rows["cron"].cron == "*/5 4 * * *"
        assert rows["seconds"].cron == "30 */5 4 * * *"

    @pytest.mark.parametrize(
        ("args", "kwargs", "expected"),
        [
            (None, None, ([], {})),
            ("3", "", ([3], {})),
            ("3,", "deep=True", ([3], {"deep": True})),
            ("(3,)", "{'deep': None}", ([3], {"deep": None})),
            ("'3'", "days=[1, 'x']", None),
            ("[3, 4]", None, ([[3, 4]], {})),
        ],
    )
    def test_arguments_are_read_as_literals(self, q2, capsys, args, kwargs, expected):
        q2(args=args, kwargs=kwargs)
        run(capsys, "django-q2")
        found = [(row.args, row.kwargs) for row in Schedule.objects.all()]
        assert found == ([] if expected is None else [expected])

    def test_so_many_times_become_an_end(self, q2, capsys):
        q2("H", repeats=3)
        run(capsys, "django-q2")
        row = Schedule.objects.get()
        assert row.next_slots(NOW, 9) == [LATER + timedelta(hours=n) for n in range(3)]

    def test_one_without_a_name_is_called_by_its_function(self, q2, capsys):
        q2(name=None)
        run(capsys, "django-q2")
        assert Schedule.objects.get().name.startswith(f"{PATH} ")

    @pytest.mark.parametrize(
        ("kind", "values", "why"),
        [
            ("D", {"intended_date_kwarg": "day"}, "context.slot"),
            ("D", {"hook": "shop.hooks.done"}, "shop.hooks.done"),
            ("D", {"kwargs": "q_options={'group': 'x'}"}, "q_options"),
            ("D", {"kwargs": "days=__import__('os')"}, "more than literals"),
            ("D", {"kwargs": "**{'days': 1}"}, "write x=1, y=2"),
            ("D", {"kwargs": "days=1) or f(days=2"}, "write x=1, y=2"),
            ("D", {"args": "open('/etc/passwd')"}, "more than literals"),
            ("D", {"args": "{1, 2}"}, "JSON"),
            ("D", {"repeats": 0}, "as often as it was to"),
            ("D", {"repeats": 5000}, "set -1"),
            ("D", {"next_run": None}, "when it runs next"),
            ("M", {"next_run": datetime(2999, 7, 31, 9, tzinfo=UTC)}, "L is the last day"),
            ("O", {"next_run": EARLIER}, "last time has passed"),
            ("X", {}, "'X' is not known"),
            ("C", {"cron": "@hourly"}, "cannot be read"),
            ("D", {"func": "math.copysign"}, "--map math.copysign="),
            ("D", {"cluster": "fast"}, "fast"),
        ],
    )
    def test_what_cannot_be_is_refused_with_the_fix(self, q2, capsys, kind, values, why):
        q2(kind, **values)
        assert why in refusal(capsys, "django-q2")


class TestRunning:
    def test_a_dry_run_shows_all_and_changes_nothing(self, beat, capsys):
        beat("good", interval_id=interval())
        beat("bad", interval_id=interval(), task="no.such.task")
        code, out = run(capsys, "celery-beat", "--dry-run")
        assert code == 1
        assert "'good' would be imported\n    every 15 minutes: " in out
        assert "'bad' refused: no task no.such.task" in out
        assert not Schedule.objects.exists()

    def test_what_can_be_is_imported_and_the_code_tells_of_the_rest(self, beat, capsys):
        beat("bad", interval_id=interval(), task="no.such.task")
        beat("good", interval_id=interval())
        assert run(capsys, "celery-beat")[0] == 1
        assert Schedule.objects.get().name == "good"

    def test_a_second_time_nothing_changes(self, beat, capsys):
        beat(interval_id=interval())
        run(capsys, "celery-beat")
        Schedule.objects.update(queue_name="mail")
        before = Schedule.objects.values().get()
        assert run(capsys, "celery-beat") == (0, "'nightly' there already\n")
        assert Schedule.objects.values().get() == before

    def test_of_two_with_one_name_the_first_is_taken(self, q2, capsys):
        q2("H")
        q2("D")
        run(capsys, "django-q2")
        assert Schedule.objects.get().every == 3600

    def test_names_of_tasks_and_queues_are_mapped(self, beat, capsys, tmp_path):
        beat("one", interval_id=interval(), task="old.clean", queue="celery")
        beat("two", interval_id=interval(), task="old.sweep")
        names = tmp_path / "names"
        names.write_text(f"# From our Celery.\n\nold.sweep = {PATH}\n")
        maps = ("--map", f"old.clean={PATH}", "--map", f"@{names}", "--map-queue", "celery=mail")
        assert run(capsys, "celery-beat", *maps)[0] == 0
        assert [row.task for row in Schedule.objects.all()] == [PATH] * 2
        assert Schedule.objects.get(name="one").queue_name == "mail"

    def test_all_can_be_left_turned_off(self, beat, capsys):
        beat(interval_id=interval())
        run(capsys, "celery-beat", "--disabled")
        assert not Schedule.objects.get().enabled
        assert schedules.enable("default", "nightly", enabled=True)

    def test_what_is_imported_is_enqueued(self, q2, capsys):
        q2("I", minutes=1, args="3", next_run=EARLIER)
        run(capsys, "django-q2")
        row = Schedule.objects.get()
        Schedule.objects.update(
            counted_from=row.counted_from - timedelta(minutes=2),
            next_at=row.next_at - timedelta(minutes=2),
        )
        assert firing.fire_due("default").jobs == 1
        assert Job.objects.get().args == [3]

    def test_without_any_it_says_so(self, q2, capsys):
        assert run(capsys, "django-q2") == (0, "There are no schedules to import.\n")

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            ((), "no table django_q_schedule in the database 'default'"),
            (("--database", "elsewhere"), "none of default"),
            (("--map", "old"), "--map old: write OLD=NEW"),
            (("--map", "@/no/such/file"), "cannot be read"),
        ],
    )
    def test_a_wrong_call_is_told(self, capsys, arguments, why):
        with pytest.raises(CommandError, match="claimq import-schedules: ") as refused:
            run(capsys, "django-q2", *arguments)
        assert why in str(refused.value)
        assert refused.value.returncode == 2
