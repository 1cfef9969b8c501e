from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest
from django.apps.registry import Apps
from django.contrib.auth.models import Group, User
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.test.utils import isolate_apps, override_settings

from django_claimq.exceptions import InvalidArguments, RowMissing
from django_claimq.models import Job, Worker
from django_claimq.typed import codec_of
from example_project.census.models import Census
from tests.factories import JobFactory, WorkerFactory

pytestmark = pytest.mark.django_db


class Member(User):
    class Meta:
        proxy = True
        app_label = "tests"
        # Of no migration, so of no app of ours.
        apps = Apps()


@dataclass
class Invitation:
    to: User
    groups: list[Group]
    until: date | None = None


def one(user: User): ...


def maybe(user: User | None): ...


def several(
    users: list[User], /, *rest: Group, by: dict[str, User], invitation: Invitation, **others: User
): ...


def uuid_key(job: Job): ...


def text_key(worker: Worker): ...


def proxied(member: Member): ...


def users_of(*names):
    return [User.objects.create(username=name) for name in names]


def decoded(task, args, kwargs=None, *, missing_as_none=False):
    codec = codec_of(task, False)
    return codec.decode(*codec.encode(args, kwargs or {}), missing_as_none=missing_as_none)


def fields_of(row):
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.mark.parametrize(
    ("task", "make", "stored"),
    [
        (one, lambda: users_of("ann")[0], lambda row: row.pk),
        (uuid_key, JobFactory, lambda row: str(row.pk)),
        (text_key, WorkerFactory, lambda row: row.pk),
        (proxied, lambda: Member.objects.create(username="ann"), lambda row: row.pk),
    ],
)
def test_a_row_is_stored_by_its_key_and_comes_back_as_it_is_then(task, make, stored):
    row = make()
    codec = codec_of(task, False)
    args, _ = codec.encode([row], {})
    assert args == [stored(row)]
    [found], _ = codec.decode(args, {}, missing_as_none=False)
    row.refresh_from_db()
    assert type(found) is type(row)
    assert fields_of(found) == fields_of(row)


def test_a_row_is_read_anew_and_not_as_it_was_at_the_enqueue():
    (user,) = users_of("ann")
    codec = codec_of(one, False)
    args, _ = codec.encode([user], {})
    User.objects.update(username="changed")
    [found], _ = codec.decode(args, {}, missing_as_none=False)
    assert found.username == "changed"


def test_there_is_one_query_for_each_model(django_assert_num_queries):
    ann, bob, eve = users_of("ann", "bob", "eve")
    first, second = Group.objects.create(name="1"), Group.objects.create(name="2")
    args = [[ann, bob, ann], first]
    invitation = Invitation(ann, [second], date(2001, 2, 3))
    kwargs = {"by": {"one": eve}, "invitation": invitation, "other": bob}
    codec = codec_of(several, False)
    stored = codec.encode(args, kwargs)
    with django_assert_num_queries(2):
        assert codec.decode(*stored, missing_as_none=False) == (args, kwargs)


def test_there_is_none_for_tasks_without_rows(django_assert_num_queries):
    (user,) = users_of("ann")
    with django_assert_num_queries(0):
        assert decoded(maybe, [None]) == ([None], {})
        codec_of(one, False).encode([user], {})


def test_a_deferred_row_is_not_read_to_be_stored(django_assert_num_queries):
    users_of("ann")
    row = User.objects.only("pk").get()
    with django_assert_num_queries(0):
        assert codec_of(one, False).encode([row], {}) == ([row.pk], {})


def test_more_rows_than_a_statement_has_parameters_are_read():
    Group.objects.bulk_create(Group(name=str(number)) for number in range(1100))
    groups = list(Group.objects.all())
    assert decoded(several_groups, [groups]) == ([groups], {})


def several_groups(groups: list[Group]): ...


@pytest.mark.parametrize("missing_as_none", [False, True])
def test_a_row_that_is_gone_is_an_error_that_names_it_or_none(missing_as_none):
    ann, bob = users_of("ann", "bob")
    codec = codec_of(one_of_many, False)
    stored = codec.encode([[ann, bob]], {})
    key = bob.pk
    bob.delete()
    if missing_as_none:
        assert codec.decode(*stored, missing_as_none=True) == ([[ann, None]], {})
    else:
        with pytest.raises(RowMissing, match=f"is gone: there is no auth.User with .* key {key}"):
            codec.decode(*stored, missing_as_none=False)


def one_of_many(users: list[User]): ...


@pytest.mark.parametrize(
    ("task", "stored"),
    [(one, "seven"), (one, True), (one, None), (one, 1.5), (uuid_key, "x"), (one, [1])],
)
def test_stored_json_that_is_no_key_is_refused(task, stored):
    with pytest.raises(ValueError, match=r"^argument (user|job): the stored \w+ is no primary key"):
        codec_of(task, False).decode([stored], {}, missing_as_none=True)


def refusal(task, value):
    with pytest.raises(InvalidArguments) as raised:
        codec_of(task, False).encode([value], {})
    return str(raised.value)


def test_a_row_that_is_not_saved_is_refused():
    problem = "this User is not in the database. Save it first."
    assert refusal(one, User(username="ann")).endswith(f"argument user: {problem}")
    # With a key of its own from the start, or by hand.
    assert refusal(uuid_key, Job()).endswith("this Job is not in the database. Save it first.")
    assert refusal(one, User(pk=5)).endswith(problem)


def test_a_row_that_is_deleted_is_refused():
    (user,) = users_of("ann")
    user.delete()
    assert refusal(one, user).endswith("Save it first.")


def test_a_key_instead_of_the_row_is_refused():
    assert refusal(one, 5).endswith(
        "the annotation says User, and this is int. Pass User.objects.get(pk=value)."
    )


def test_a_row_of_another_model_is_refused():
    assert "the annotation says User, and this is Census" in refusal(one, Census())


def test_a_proxy_may_stand_for_the_model_but_not_the_other_way_round():
    (user,) = users_of("ann")
    member = Member.objects.get()
    [found], _ = decoded(one, [member])
    assert type(found) is User
    assert found == member
    assert "the annotation says Member, and this is User" in refusal(proxied, user)


@isolate_apps("tests")
def test_a_row_of_a_child_table_is_no_row_of_its_parent():
    class Admin(User):
        class Meta:
            app_label = "tests"

    child = Admin(pk=1)
    child._state.adding = False
    assert refusal(one, child).endswith(
        "this Admin would come back as User. Annotate Admin, or pass User.objects.get(pk=value.pk)."
    )


class Elsewhere:
    """Users live in a database of their own."""

    def db_for_write(self, model, **hints):
        return hints["instance"]._state.db if "instance" in hints else DEFAULT_DB_ALIAS


def test_a_row_of_another_database_is_refused():
    (user,) = users_of("ann")
    user._state.db = "archive"
    assert refusal(one, user).endswith(
        "this row is of the database 'archive', and would be looked for in 'default'. "
        "Pass its primary key, and load it in the task."
    )


class Replicas:
    """Reads go elsewhere, as behind a replica."""

    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "default"


@override_settings(DATABASE_ROUTERS=[Replicas()])
def test_rows_are_read_where_they_are_written_and_may_come_from_a_replica():
    user = User(username="ann")
    user.save()
    user._state.db = "replica"
    assert decoded(one, [user]) == ([user], {})


@pytest.fixture
def tables(transactional_db):
    """Models of shapes that no installed app has."""
    made = []

    def make(*new):
        with connection.schema_editor() as editor:
            for model in new:
                editor.create_model(model)
                made.append(model)

    yield make
    with connection.schema_editor() as editor:
        for model in reversed(made):
            editor.delete_model(model)


class Hiding(models.Manager):
    def get_queryset(self):
        return super().get_queryset().none()


@isolate_apps("tests")
def test_rows_are_found_that_their_manager_hides(tables):
    class Draft(models.Model):
        objects = Hiding()

        class Meta:
            app_label = "tests"

        def __str__(self):
            return "draft"

    tables(Draft)
    draft = Draft.objects.create()

    def publish(draft): ...

    publish.__annotations__ = {"draft": Draft}
    assert decoded(publish, [draft]) == ([draft], {})


@isolate_apps("tests")
def test_keys_of_any_kind_come_back(tables):
    class Place(models.Model):
        opened = models.DateField(primary_key=True)

        class Meta:
            app_label = "tests"

        def __str__(self):
            return str(self.opened)

    class Cafe(Place):
        seats = models.IntegerField()

        class Meta:
            app_label = "tests"

        def __str__(self):
            return str(self.seats)

    class Seat(models.Model):
        pk = models.CompositePrimaryKey("row", "number")
        row = models.CharField(max_length=5)
        number = models.IntegerField()

        class Meta:
            app_label = "tests"

        def __str__(self):
            return f"{self.row}{self.number}"

    tables(Place, Cafe, Seat)
    cafe = Cafe.objects.create(opened=date(2001, 2, 3), seats=5)
    seat = Seat.objects.create(row="A", number=7)

    def visit(cafe, seat): ...

    visit.__annotations__ = {"cafe": Cafe, "seat": Seat}
    codec = codec_of(visit, False)
    stored = codec.encode([cafe, seat], {})
    assert stored == (["2001-02-03", '["A", "7"]'], {})
    args, _ = codec.decode(*stored, missing_as_none=False)
    assert args == [cafe, seat]
    assert args[0].seats == 5
