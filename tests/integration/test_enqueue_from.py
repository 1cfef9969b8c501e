"""Jobs made of the rows of a queryset, in one statement."""

from __future__ import annotations

import datetime as dt
import math
import re
import time
from decimal import Decimal
from unittest import mock
from uuid import RFC_4122, UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.db.models import (
    BooleanField,
    Case,
    CharField,
    Count,
    DecimalField,
    Exists,
    ExpressionWrapper,
    F,
    FileField,
    FloatField,
    GenericIPAddressField,
    IntegerField,
    JSONField,
    OuterRef,
    Q,
    TextField,
    UUIDField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Concat, Lower, Now, Upper
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_claimq import InvalidArguments, aenqueue_from, enqueue_from, task
from django_claimq.carried import request_id
from django_claimq.compat import FRAMEWORK, InvalidTask, task_enqueued
from django_claimq.copies import restore
from django_claimq.embedded import run_worker
from django_claimq.models import Job
from django_claimq.queueing import wakeups
from django_claimq.states import State
from example_project.census.models import Census, SourceFile
from tests import tasks
from tests.factories import JobFactory, ahead
from tests.rows import claim

pytestmark = pytest.mark.django_db

SMILE = "\U0001f600"
_MONEY = DecimalField(max_digits=9, decimal_places=2)
NESTED = {"a": [1, 1.5, None, True, {}, SMILE]}
STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@task
def send(order, *, copies=1):
    """A signature to bind against."""


@task(unique_key="order:{order}")
def send_once(order):
    """One job at a time."""


@task(typed=True)
def remind(at: dt.datetime):
    """Its argument is no JSON."""


@task(typed=True)
def note(anything, more=None):
    """Has nothing to convert."""


@task(version=2, upcast=lambda version, args, kwargs: (args, kwargs), sensitive=["secret"])
def keep(secret):
    """Its payload is described."""


class Encrypted(TextField):
    def from_db_value(self, value, expression, connection):
        return value[::-1]


def files(count, source="shop"):
    census = Census.objects.create(source=source, root="/")
    return SourceFile.objects.bulk_create(
        [
            SourceFile(census=census, path=f"{number:05}.py", job_id=uuid4())
            for number in range(count)
        ]
    )


def calls(**which):
    return list(Job.objects.filter(**which).order_by("id").values_list("args", "kwargs"))


def one_call(*args, **kwargs):
    """The arguments of the job that these make of a row."""
    Job.objects.all().delete()
    assert enqueue_from(tasks.noop, Census.objects.all(), args, kwargs) == 1
    return calls()[0]


class TestRows:
    def test_each_row_is_a_job_in_the_order_of_the_queryset(self):
        rows = files(300)
        queryset = SourceFile.objects.order_by("-path")
        assert enqueue_from(tasks.noop, queryset, ["pk", "census__source"], {"path": "path"}) == 300
        assert calls() == [([row.pk, "shop"], {"path": row.path}) for row in reversed(rows)]

    def test_the_jobs_are_those_of_values_list_whatever_the_queryset(self):
        files(30)
        files(20, source="bank")
        plain = SourceFile.objects.order_by("pk")
        first = SourceFile.objects.filter(pk__in=plain.values("pk")[:3])
        for queryset in (
            plain,
            plain[5:15],
            plain.reverse()[:7],
            plain.filter(census__source="bank").exclude(path="00003.py"),
            plain.select_related("census").prefetch_related("reports").only("path"),
            plain.order_by("census").distinct(),
            first.union(SourceFile.objects.filter(census__source="bank")).order_by("pk"),
            plain.none(),
            plain.filter(pk__in=[]),
            plain.extra(where=["path > '00010.py'"]),
            plain.annotate(name=Upper("path")).filter(name__startswith="0000"),
        ):
            Job.objects.all().delete()
            # Django answers what a union is ordered by, too.
            expected = [row[:1] for row in queryset.values_list("census")]
            assert enqueue_from(tasks.noop, queryset, ["census"]) == len(expected)
            assert calls() == [([census], {}) for (census,) in expected]

    def test_annotations_and_groups_are_given_by_name(self):
        files(3)
        files(2, source="bank")
        counted = SourceFile.objects.values("census__source").annotate(count=Count("pk"))
        queryset = counted.order_by("count")
        assert enqueue_from(tasks.noop, queryset, ["census__source"], {"count": "count"}) == 2
        assert calls() == [(["bank"], {"count": 2}), (["shop"], {"count": 3})]

    def test_aggregates_are_counted_per_row(self):
        files(3)
        assert one_call(Count("files"), Count("files") * 2) == ([3, 6], {})

    def test_the_same_field_may_be_asked_for_twice(self):
        (row,) = files(1)
        queryset = SourceFile.objects.annotate(name=Upper("path"))
        given = ["path", "path", "name", F("path"), "census", "census_id", "census__pk"]
        enqueue_from(tasks.noop, queryset, given, {"name": "name", "pk": "pk", "id": "id"})
        names = [row.path, row.path, "00000.PY", row.path, *[row.census_id] * 3]
        assert calls() == [(names, {"name": "00000.PY", "pk": row.pk, "id": row.pk})]

    def test_without_arguments_each_row_is_a_job_all_the_same(self):
        files(4)
        assert enqueue_from(tasks.noop, SourceFile.objects.all()) == 4
        assert calls() == [([], {})] * 4

    def test_rows_that_are_locked_meanwhile_may_be_asked_for(self):
        files(2)
        assert enqueue_from(tasks.noop, SourceFile.objects.select_for_update(), ["pk"]) == 2

    def test_jobs_may_be_made_of_jobs(self):
        JobFactory.create_batch(3, tags=["old"])
        assert enqueue_from(tasks.noop, Job.objects.all(), ["id", "tags"]) == 3
        assert Job.objects.count() == 6

    def test_names_and_values_are_quoted(self):
        source = "quotes ' \" \\ ; -- %s %(x)s {} $1 `"
        files(1, source=source)
        queryset = SourceFile.objects.filter(census__source=source)
        given = {source: Value(source), "%s": "census__source"}
        assert enqueue_from(tasks.noop, queryset, [Value("%"), Value("?")], given) == 1
        assert calls() == [(["%", "?"], {source: source, "%s": source})]


class TestValues:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            (Value(0), 0),
            (Value(-(2**63)), -(2**63)),
            (Value(2**63 - 1), 2**63 - 1),
            (Cast(Value(3), IntegerField()) * 2**40, 3 * 2**40),
            (Value("naïve, 日本, " + SMILE), "naïve, 日本, " + SMILE),
            (Value("\t\n\r\x01\x1f\x7f\u2028 \\u0041 \\"), "\t\n\r\x01\x1f\x7f\u2028 \\u0041 \\"),
            (Value("17"), "17"),
            (Value("true"), "true"),
            (Value('{"a": 1}'), '{"a": 1}'),
            (Value(""), ""),
            (Concat(Value("a"), "source"), "ashop"),
            (Case(When(pk=0, then=Value("none")), default=Value("some")), "some"),
            (Value(True), True),
            (Value(False), False),
            (Value(None, BooleanField()), None),
            (Exists(SourceFile.objects.filter(census=OuterRef("pk"))), False),
            (ExpressionWrapper(Q(source="shop"), BooleanField()), True),
            (Value(None, IntegerField()), None),
            (Value(None, TextField()), None),
            (Value(None, UUIDField()), None),
            (Value(None, JSONField()), None),
            (Value(None, FloatField()), None),
            (Value(None, GenericIPAddressField()), None),
            (Value(UUID(int=7)), str(UUID(int=7))),
            (Cast(Value(1), FloatField()), 1.0),
            (Cast(Value(0.1 + 0.2), FloatField()), 0.1 + 0.2),
            (Cast(Value(-1e20), FloatField()), -1e20),
            (
                Value({"a": [1, 1.5, None, True, SMILE]}, JSONField()),
                {"a": [1, 1.5, None, True, SMILE]},
            ),
            (Value([], JSONField()), []),
            (Value("text", JSONField()), "text"),
            (Value("true", JSONField()), "true"),
            (Value(True, JSONField()), True),
            (Cast(Value("192.168.0.1"), GenericIPAddressField()), "192.168.0.1"),
            (Cast(Value("2001:db8::1"), GenericIPAddressField()), "2001:db8::1"),
            (Value("up/load.txt", FileField()), "up/load.txt"),
            (Cast(Cast(Value("1.25"), _MONEY), CharField(max_length=9)), "1.25"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_each_is_the_json_that_enqueue_would_store(self, expression, value):
        files(0)
        args, kwargs = one_call(expression, value=expression)
        assert (args, kwargs) == ([value], {"value": value})
        assert type(args[0]) is type(value)
        if not isinstance(value, float) or abs(value) < 1e16:
            tasks.noop.enqueue(value, value=value)
            assert calls()[0] == calls()[1]

    @pytest.mark.parametrize("backend_field", ["id", "duplicate_of", "fails_on_crash", "tags"])
    def test_columns_come_as_the_orm_reads_them(self, backend_field):
        job = JobFactory(
            tags=["a", {"b": 1.5}], fails_on_crash=True, duplicate_of=uuid4(), kwargs={"x": None}
        )
        enqueue_from(tasks.noop, Job.objects.filter(pk=job.pk), [backend_field, "kwargs"])
        value = getattr(job, backend_field)
        (stored,) = calls(kwargs={})
        assert stored[0] == [str(value) if isinstance(value, UUID) else value, {"x": None}]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(st.floats(-1e15, 1e15), st.text(STORABLE))
    def test_any_float_and_any_text_come_back_equal(self, number, text):
        with transaction.atomic():
            files(0)
            enqueue_from(
                tasks.noop, Census.objects.all(), [Cast(Value(number), FloatField()), Value(text)]
            )
            ((args, _),) = calls()
            transaction.set_rollback(True)
        assert args == [number, text]
        assert isinstance(args[0], float)

    def test_the_text_of_a_part_of_json_is_a_text(self):
        JobFactory(kwargs={"a": True, "b": 1, "c": "true", "d": {"e": 1}})
        parts = [KT(f"kwargs__{name}") for name in "bc"]
        enqueue_from(tasks.noop, Job.objects.all(), parts)
        assert calls(kwargs={}) == [(["1", "true"], {})]

    @pytest.mark.postgres
    def test_what_is_no_number_is_an_error_and_not_a_text(self):
        files(0)
        for number in (math.nan, math.inf, -math.inf):
            with pytest.raises(DatabaseError), transaction.atomic():
                one_call(Cast(Value(str(number)), FloatField()))

    @pytest.mark.parametrize(
        ("expression", "says"),
        [
            (
                "created_at",
                "a DateTimeField, which is no JSON. Pass Cast('created_at', ",
            ),
            (Now(), "a DateTimeField"),
            (Now() - F("created_at"), "a DurationField"),
            (Value(Decimal("1.5")), "a DecimalField"),
            (Value(dt.date(2026, 1, 1)), "a DateField"),
            (Value(dt.timedelta(1)), "a DurationField"),
            (Value(b"x"), "a BinaryField"),
            (Value("x", Encrypted()), "a Encrypted, which is no JSON"),
            (Value(None), "unknown output_field. "),
            ("sourc", "Cannot resolve keyword 'sourc' into field. Choices are: "),
            (7, "argument key: neither a field's name nor an expression. Pass Value(7)"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    def test_what_json_would_change_is_refused_with_the_argument_and_the_fix(
        self, expression, says
    ):
        files(0)
        with pytest.raises(InvalidArguments, match=re.escape(says)) as caught:
            one_call("pk", key=expression)
        assert "Cannot enqueue tests.tasks.noop: " in str(caught.value)
        assert Job.objects.count() == 0

    def test_a_part_of_json_is_refused(self):
        with pytest.raises(InvalidArguments, match=r"args?ument 0 is a part of a JSONField; KT"):
            enqueue_from(tasks.noop, Job.objects.all(), ["kwargs__a"])

    def test_a_cast_is_what_the_message_says_it_is(self):
        files(0)
        ((written,), _) = one_call(Cast("created_at", TextField()))
        assert dt.datetime.fromisoformat(written).date() == timezone.now().date()


class TestSize:
    def test_arguments_that_are_too_large_are_refused_before_anything_is_stored(self):
        files(1)
        files(1, source="x" * 400)
        too_large = Concat(*["census__source"] * 2, *[Value("y" * 999_300)])
        with pytest.raises(
            InvalidArguments,
            match=r"the arguments of a row are 1,000,1\d\d bytes as JSON, over the limit of "
            r"1,000,000 \(MAX_PAYLOAD\)\. Pass its key",
        ):
            enqueue_from(tasks.noop, SourceFile.objects.all(), [too_large])
        assert Job.objects.count() == 0

    def test_those_just_below_are_not(self):
        files(1)
        just = Concat("census__source", Value("é" * 499_000))
        assert enqueue_from(tasks.noop, SourceFile.objects.all(), [just]) == 1

    def test_positions_and_names_count_together(self):
        files(1)
        half = Concat("census__source", Value("y" * 500_000))
        with pytest.raises(InvalidArguments, match="MAX_PAYLOAD"):
            enqueue_from(tasks.noop, SourceFile.objects.all(), [half], {"half": half})

    def test_rows_are_looked_at_only_where_one_may_be_too_large(self):
        files(2)
        for expression, statements in (("census__source", 1), (Lower("path"), 2)):
            with CaptureQueriesContext(connection) as captured:
                enqueue_from(tasks.noop, SourceFile.objects.all(), ["pk", expression])
            assert len([q for q in captured if "SAVEPOINT" not in q["sql"]]) == statements

    def test_there_need_be_no_row(self):
        long = Concat("path", Value(""), output_field=TextField())
        assert enqueue_from(tasks.noop, SourceFile.objects.all(), [long]) == 0


class TestCalls:
    @pytest.mark.parametrize(
        ("args", "kwargs", "says"),
        [
            ([], {}, "missing a required argument: 'order'"),
            (["pk", "pk"], {}, "too many positional arguments"),
            (["pk"], {"copys": "pk"}, "unexpected keyword argument 'copys'"),
        ],
    )
    def test_they_must_fit_the_signature(self, args, kwargs, says):
        with pytest.raises(InvalidArguments, match=says):
            enqueue_from(send, SourceFile.objects.all(), args, kwargs)

    def test_a_context_is_not_given_by_the_caller(self):
        files(2)
        assert enqueue_from(tasks.get_task_id, SourceFile.objects.all()) == 2
        with pytest.raises(InvalidArguments):
            enqueue_from(tasks.get_task_id, SourceFile.objects.all(), ["pk"])

    def test_a_text_is_no_list_of_arguments(self):
        with pytest.raises(TypeError, match=r"args is a list, such as \['pk'\]"):
            enqueue_from(tasks.noop, SourceFile.objects.all(), "pk")

    @pytest.mark.parametrize("rows", [SourceFile, SourceFile.objects, [1, 2]])
    def test_only_a_queryset_has_rows(self, rows):
        with pytest.raises(TypeError, match="takes a QuerySet"):
            enqueue_from(tasks.noop, rows, ["pk"])

    def test_a_union_cannot_be_computed_with(self):
        union = SourceFile.objects.all().union(SourceFile.objects.all())
        with pytest.raises(InvalidArguments, match="Annotate first, and pass the name"):
            enqueue_from(tasks.noop, union, [Upper("path")])

    def test_a_task_is_validated_as_by_enqueue(self):
        with pytest.raises(InvalidTask):
            enqueue_from(restore(tasks.noop, queue_name="nowhere"), SourceFile.objects.all())

    def test_a_unique_key_is_refused_with_the_fix(self):
        for unique in (send_once, send.using(unique_key="all")):
            with pytest.raises(InvalidArguments, match=r"unique_key.*enqueue_many.*chunk of rows"):
                enqueue_from(unique, SourceFile.objects.all(), ["pk"])

    def test_typed_arguments_are_refused_unless_there_is_nothing_to_convert(self):
        with pytest.raises(InvalidArguments, match=r"typed arguments.*enqueue_many"):
            enqueue_from(remind, SourceFile.objects.all(), ["census__created_at"])
        files(1)
        assert enqueue_from(note, SourceFile.objects.all(), ["pk"]) == 1

    def test_another_database_than_the_queues_is_refused_by_both_names(self):
        with pytest.raises(InvalidArguments, match=r"in the database 'legacy', the jobs in 'defau"):
            enqueue_from(tasks.noop, SourceFile.objects.using("legacy"), ["pk"])

    def test_a_replica_that_the_router_reads_from_is_no_other_database(self, settings):
        files(1)
        settings.DATABASE_ROUTERS = [
            mock.Mock(spec=["db_for_read"], db_for_read=lambda *a, **k: "replica")
        ]
        assert enqueue_from(tasks.noop, SourceFile.objects.all(), ["pk"]) == 1

    def test_a_backend_that_cannot_is_named(self, settings):
        dummy = f"{FRAMEWORK}.backends.dummy.DummyBackend"
        settings.TASKS = {**settings.TASKS, "dummy": {"BACKEND": dummy}}
        elsewhere = tasks.noop.using(backend="dummy")
        with pytest.raises(TypeError, match="enqueue_from: DummyBackend cannot"):
            enqueue_from(elsewhere, SourceFile.objects.all())


class TestColumns:
    """All but the arguments are as by `enqueue`."""

    OPTIONS = [
        {},
        {"priority": -7, "queue_name": "mail", "tags": ["a", "\\N", '"']},
        {"run_after": dt.timedelta(hours=2)},
        {"run_after": dt.timedelta(hours=-2), "expires": "1d"},
        {"run_after": ahead(days=1), "expires": ahead(days=2)},
        {"run_after": ahead(days=-1)},
        {"expires": 90},
        {"subject": Group(pk=7)},
    ]

    @pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
    def test_they_are_alike(self, options):
        self.assert_alike(tasks.noop.using(**options))

    @pytest.mark.parametrize("defined", [tasks.plain, tasks.core, tasks.mail, keep])
    def test_they_are_alike_whatever_the_task(self, defined):
        self.assert_alike(defined)

    def test_they_are_alike_without_time_zones(self, settings):
        settings.USE_TZ = False
        for options in ({}, {"run_after": dt.timedelta(hours=2), "expires": "2d"}):
            Job.objects.all().delete()
            self.assert_alike(tasks.noop.using(**options))
        Job.objects.all().delete()
        soon = dt.datetime.now() + dt.timedelta(hours=2)
        self.assert_alike(tasks.noop.using(run_after=soon))
        assert Job.objects.filter(state=State.SCHEDULED).count() == 2

    def test_they_carry_what_is_active_here(self):
        with translation.override("de"), timezone.override("Asia/Tokyo"):
            token = request_id.set("of the ' request")
            try:
                self.assert_alike(tasks.noop)
            finally:
                request_id.reset(token)
        assert Job.objects.first().metadata["claimq_carried"]["language"] == "de"

    def assert_alike(self, defined):
        Group.objects.create(name="staff")
        defined.enqueue("staff")
        enqueue_from(defined, Group.objects.all(), ["name"])
        by_enqueue, by_select = Job.objects.order_by("id").values()
        Group.objects.all().delete()
        started = by_enqueue.pop("enqueued_at"), by_select.pop("enqueued_at")
        for name in ("run_after", "expires_at"):
            pair = by_enqueue.pop(name), by_select.pop(name)
            if pair != (None, None):
                since = [time - start for time, start in zip(pair, started, strict=True)]
                assert abs(since[0] - since[1]) < dt.timedelta(minutes=1)
        assert by_enqueue.pop("id") < by_select.pop("id")
        assert by_select == by_enqueue


class TestIds:
    @pytest.fixture(
        params=[None, pytest.param(150_000, marks=pytest.mark.postgres)], ids=["newest", "older"]
    )
    def server(self, request, monkeypatch):
        """Also a PostgreSQL that has no function for them."""
        if request.param:
            found = connections["default"]
            monkeypatch.setitem(found.__dict__, "pg_version", request.param)
            monkeypatch.setitem(found.features.__dict__, "is_postgresql_16", False)

    def test_they_are_of_version_7_unique_and_in_order(self, server):
        tasks.noop.enqueue(0)
        for _ in range(7):
            enqueue_from(tasks.noop, Job.objects.order_by("id"), ["id"])
        rows = files(80)
        pairs = SourceFile.objects.filter(census__files__isnull=False).order_by("pk")
        assert enqueue_from(tasks.noop, pairs, ["pk"]) == 80 * 80
        ids = list(Job.objects.values_list("id", flat=True))
        assert len(set(ids)) == 128 + 80 * 80
        assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
        made = Job.objects.order_by("id").values_list("args", flat=True)[128:]
        assert list(made) == [[row.pk] for row in rows for _ in rows]

    def test_their_time_is_that_of_the_enqueue(self, server):
        files(3)
        before = time.time()
        enqueue_from(tasks.noop, SourceFile.objects.all())
        for job_id in Job.objects.values_list("id", flat=True):
            assert before - 1 < (job_id.int >> 80) / 1000 < time.time() + 1


class TestSubjects:
    def test_each_row_is_the_subject_of_its_job(self):
        rows = files(3)
        enqueue_from(tasks.noop, SourceFile.objects.order_by("pk"), subjects=True)
        subjects = Job.objects.order_by("id").values_list("subject_type", "subject_id")
        assert list(subjects) == [("census.sourcefile", str(row.pk)) for row in rows]

    def test_a_uuid_is_written_as_by_enqueue(self):
        row = JobFactory()
        tasks.noop.using(subject=row).enqueue()
        enqueue_from(tasks.noop, Job.objects.filter(pk=row.pk), subjects=True)
        made = Job.objects.exclude(pk=row.pk).values_list("subject_type", "subject_id")
        assert list(made) == [("django_claimq.job", str(row.pk))] * 2

    def test_a_union_has_them_too(self):
        (row,) = files(1)
        union = SourceFile.objects.all().union(SourceFile.objects.all())
        assert enqueue_from(tasks.noop, union, ["path"], subjects=True) == 1
        assert Job.objects.get().subject_id == str(row.pk)

    def test_rows_that_are_none_have_none(self):
        with pytest.raises(InvalidArguments, match=r"needs whole rows\. Leave out \.values\(\)"):
            enqueue_from(tasks.noop, SourceFile.objects.values("path"), subjects=True)

    def test_there_are_not_two_of_them(self):
        task = tasks.noop.using(subject=Group(pk=1))
        with pytest.raises(InvalidArguments, match="Leave one of them out"):
            enqueue_from(task, SourceFile.objects.all(), subjects=True)


class TestTransactions:
    def test_it_is_part_of_the_callers(self):
        files(3)
        with transaction.atomic():
            enqueue_from(tasks.noop, SourceFile.objects.all(), ["pk"])
            assert Job.objects.count() == 3
            transaction.set_rollback(True)
        assert Job.objects.count() == 0

    def test_an_error_leaves_nothing_and_the_callers_transaction_usable(self, monkeypatch):
        monkeypatch.setattr(
            "django_claimq.backend.ClaimqBackend._validate_for_enqueue", mock.Mock()
        )
        files(3)
        tasks.noop.enqueue()
        with pytest.raises(IntegrityError):
            enqueue_from(restore(tasks.noop, priority=101), SourceFile.objects.all(), ["pk"])
        assert Job.objects.count() == 1

    def test_an_error_in_one_row_leaves_nothing(self):
        rows = files(3)
        SourceFile.objects.filter(pk=rows[1].pk).update(path="no number")
        with pytest.raises(DatabaseError):
            number = Cast("path", JSONField())
            enqueue_from(tasks.noop, SourceFile.objects.order_by("pk"), [number])
        assert Job.objects.count() == 0

    def test_it_is_one_insert_for_any_number_of_rows(self):
        files(250)
        with CaptureQueriesContext(connection) as captured:
            enqueue_from(tasks.noop, SourceFile.objects.all(), ["pk"])
        verbs = [query["sql"].split()[0] for query in captured]
        assert verbs == ["SAVEPOINT", "INSERT", "RELEASE"]

    def test_no_signal_is_sent(self):
        files(2)
        receiver = mock.Mock()
        task_enqueued.connect(receiver)
        try:
            enqueue_from(tasks.noop, SourceFile.objects.all(), ["pk"])
        finally:
            task_enqueued.disconnect(receiver)
        receiver.assert_not_called()

    def test_workers_are_woken_once_and_not_for_nothing(self, monkeypatch):
        announced = mock.Mock()
        monkeypatch.setattr(wakeups, "announce", announced)
        enqueue_from(tasks.mail, SourceFile.objects.all(), ["path"])
        announced.assert_not_called()
        files(5)
        enqueue_from(tasks.mail.using(run_after=ahead(hours=1)), SourceFile.objects.all(), ["path"])
        announced.assert_not_called()
        enqueue_from(tasks.mail, SourceFile.objects.all(), ["path"])
        announced.assert_called_once_with("default", ["queue:mail"])

    def test_the_jobs_can_be_claimed_in_order(self):
        rows = files(5)
        enqueue_from(tasks.noop, SourceFile.objects.order_by("-pk"), ["pk"])
        assert [job.args for job in claim()] == [f"[{row.pk}]" for row in reversed(rows)]


@pytest.mark.django_db(transaction=True)
def test_workers_run_them_with_their_arguments():
    files(20)
    queryset = SourceFile.objects.order_by("pk")
    enqueue_from(tasks.echo_async, queryset, ["path", Value(True)], {"id": "job_id"}, subjects=True)
    run_worker(batch=True)
    results = Job.objects.order_by("id").values_list("state", "result")
    assert list(results) == [
        (State.SUCCESSFUL, {"args": [row.path, True], "kwargs": {"id": str(row.job_id)}})
        for row in queryset
    ]


@pytest.mark.django_db(transaction=True)
def test_the_async_form_does_the_same():
    rows = files(3)
    enqueue = async_to_sync(aenqueue_from)
    queryset = SourceFile.objects.order_by("pk")
    assert enqueue(tasks.noop, queryset, ["pk"], {"path": "path"}, subjects=True) == 3
    assert calls() == [([row.pk], {"path": row.path}) for row in rows]
    with pytest.raises(InvalidArguments):
        enqueue(send, queryset)
