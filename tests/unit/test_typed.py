from __future__ import annotations

import json
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import models
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.arguments import encode_arguments
from django_claimq.exceptions import InvalidArguments
from django_claimq.typed import codec_of, flaws_of

if TYPE_CHECKING:
    from shop.models import Order


DAY = date(2001, 2, 3)
DAYS = [f"2001-02-{day:02}" for day in range(1, 21)]


class Colour(Enum):
    RED = 1
    ROT = 1
    BLUE = ("b", 2)


class Size(models.TextChoices):
    SMALL = "s", "Small"
    LARGE = "l", "Large"


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    MAIN = "main"


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Point:
    at: datetime
    label: str = "none"


@dataclass
class Tree:
    value: Decimal
    children: list[Tree] = field(default_factory=list)
    point: Point | None = None
    size: int = field(init=False)

    def __post_init__(self):
        self.size = 1 + len(self.children)


@dataclass(slots=True, kw_only=True)
class Positive:
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("it is negative")


class Pair(NamedTuple):
    key: UUID
    until: date | None = None


Bare = namedtuple("Bare", "x y")
Key = NewType("Key", UUID)
T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Temporary:
    number: InitVar[int]


@dataclass
class Unreadable:
    order: Order


class PlainRecord(TypedDict):
    name: str


class TimedRecord(TypedDict):
    at: datetime


class Abstract(models.Model):
    class Meta:
        abstract = True
        app_label = "tests"


class Foreign: ...


def taking(annotation):
    """A task of one argument, annotated so."""

    def it(value): ...

    it.__annotations__ = {"value": annotation}
    return it


def stored(codec, args, kwargs=None):
    """What the row of a job gives back: checked and read as every other one is."""
    args, kwargs = codec.encode(args, kwargs or {})
    encoded = encode_arguments(args, kwargs, task="t", names=None, limit=10**6)
    return json.loads(encoded.args_text), json.loads(encoded.kwargs_text)


def there_and_back(annotation, value):
    codec = codec_of(taking(annotation), False)
    args, kwargs = codec.decode(*stored(codec, [value]), missing_as_none=False)
    assert kwargs == {}
    return args[0]


def exactly(value):
    """With the types of everything in it, and what == does not see: fold, -0, NaN, True."""
    if isinstance(value, dict):
        return dict, {key: exactly(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [exactly(one) for one in value]
    if isinstance(value, set | frozenset):
        return type(value), {(type(one), one) for one in value}
    if is_dataclass(value):
        return type(value), [exactly(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, datetime | time):
        return type(value), value.replace(tzinfo=None), value.utcoffset(), value.fold
    return type(value), value.as_tuple() if isinstance(value, Decimal) else value


ZONES = st.none() | st.just(UTC) | st.timezones()
DATETIMES = st.datetimes(timezones=ZONES) | st.datetimes(
    timezones=st.integers(-86399, 86399).map(lambda offset: timezone(timedelta(seconds=offset)))
)
FOLDS = st.sampled_from([0, 1])
MOMENTS = st.builds(
    lambda moment, fold: moment.replace(fold=fold), DATETIMES, st.sampled_from([0, 1])
)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
POINTS = st.builds(Point, MOMENTS, TEXT)
TREES = st.recursive(
    st.builds(Tree, st.decimals(), point=st.none() | POINTS),
    lambda inner: st.builds(Tree, st.decimals(), st.lists(inner, max_size=2)),
    max_leaves=4,
)
VALUES = {
    "datetime": (datetime, MOMENTS),
    "date": (date, st.dates()),
    "time": (time, st.builds(lambda at, fold: at.replace(fold=fold), st.times(), FOLDS)),
    "time with an offset": (time, st.times(timezones=st.just(timezone(timedelta(hours=-3))))),
    "timedelta": (timedelta, st.timedeltas()),
    "decimal": (Decimal, st.decimals()),
    "uuid": (UUID, st.uuids()),
    "new type": (Key, st.uuids()),
    "bytes": (bytes, st.binary()),
    "enum": (Colour, st.sampled_from(Colour)),
    "text choices": (Size, st.sampled_from(Size)),
    "int enum": (Level, st.sampled_from(Level)),
    "str enum": (Name, st.sampled_from(Name)),
    "flag": (Rights, st.sampled_from([Rights.READ, Rights.WRITE])),
    "dataclass": (Point, POINTS),
    "nested dataclass": (Tree, TREES),
    "slotted dataclass": (Positive, st.builds(lambda n: Positive(number=n), st.integers(0, 9))),
    "named tuple": (Pair, st.builds(Pair, st.uuids(), st.none() | st.dates())),
    "named tuple without annotations": (Bare, st.builds(Bare, TEXT, st.booleans())),
    "optional": (date | None, st.none() | st.dates()),
    "optional as typing has it": (Optional[date], st.none() | st.dates()),  # noqa: UP045
    "annotated": (Annotated[date, "of birth"], st.dates()),
    "literal": (
        Literal["a", 1, True, None, Colour.BLUE],
        st.sampled_from(["a", 1, True, None, Colour.BLUE]),
    ),
    "list": (list[datetime], st.lists(MOMENTS)),
    "list of anything": (list[date | None], st.lists(st.none() | st.dates())),
    "sequence": (Sequence[date], st.lists(st.dates())),
    "dict": (dict[str, UUID], st.dictionaries(TEXT, st.uuids())),
    "mapping": (Mapping[str, date], st.dictionaries(TEXT, st.dates())),
    "tuple of any length": (tuple[date, ...], st.lists(st.dates()).map(tuple)),
    "tuple": (tuple[date, str, bytes], st.tuples(st.dates(), TEXT, st.binary())),
    "empty tuple": (tuple[()], st.just(())),
    "bare tuple": (tuple, st.tuples(st.integers(), TEXT)),
    "set": (set[date], st.sets(st.dates())),
    "set of tuples": (set[tuple[int, date]], st.sets(st.tuples(st.integers(), st.dates()))),
    "frozenset": (frozenset[Decimal], st.frozensets(st.decimals(allow_nan=False))),
    "bare set": (set, st.sets(st.integers())),
    "of one another": (
        dict[str, list[tuple[Colour, set[date]]]],
        st.dictionaries(
            TEXT, st.lists(st.tuples(st.sampled_from(Colour), st.sets(st.dates())), max_size=2)
        ),
    ),
    "bool for int": (int, st.booleans()),
    "bool for int beside others": (tuple[int, date], st.tuples(st.booleans(), st.dates())),
}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_values_come_back_as_they_went_in(name, data):
    annotation, values = VALUES[name]
    value = data.draw(values)
    assert exactly(there_and_back(annotation, value)) == exactly(value)


@pytest.mark.parametrize(
    ("annotation", "value", "json"),
    [
        (datetime, datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC), "2001-02-03T04:05:06+00:00"),
        (
            datetime,
            datetime(2001, 7, 3, 4, 5, tzinfo=ZoneInfo("Europe/Berlin")),
            "2001-07-03T04:05:00+02:00",
        ),
        (datetime, datetime(2001, 2, 3, fold=1), "2001-02-03T00:00:00[fold=1]"),
        (date, date(2001, 2, 3), "2001-02-03"),
        (timedelta, timedelta(days=1, seconds=90), "P1DT00H01M30S"),
        (Decimal, Decimal("1.50"), "1.50"),
        (bytes, b"\xff\x00", "/wA="),
        (Size, Size.LARGE, "LARGE"),
        (Point, Point(datetime(2001, 2, 3), "x"), {"at": "2001-02-03T00:00:00", "label": "x"}),
        (Pair, Pair(UUID(int=0)), {"key": str(UUID(int=0)), "until": None}),
        (set[date], set(map(date.fromisoformat, DAYS)), DAYS),
        (Literal[Colour.RED], Colour.RED, "RED"),
    ],
)
def test_what_is_stored_can_be_read_by_people(annotation, value, json):
    assert codec_of(taking(annotation), False).encode([value], {}) == ([json], {})


def test_a_zone_comes_back_as_its_offset_and_the_instant_is_the_same():
    before = datetime(2024, 11, 3, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1)
    after = there_and_back(datetime, before)
    assert after.timestamp() == before.timestamp()
    assert after.tzinfo == timezone(timedelta(hours=-5))


def test_an_instance_of_a_subclass_comes_back_as_its_annotation_says():
    class FakeDatetime(datetime): ...

    after = there_and_back(datetime, FakeDatetime(2001, 2, 3))
    assert type(after) is datetime
    assert after == datetime(2001, 2, 3)


def test_what_freezegun_puts_in_place_of_a_class_is_that_class():
    fake = type("FakeDatetime", (datetime,), {"__module__": "freezegun.api"})
    assert there_and_back(fake, datetime(2001, 2, 3)) == datetime(2001, 2, 3)


def test_a_subclass_that_says_more_than_json_holds_is_refused():
    class Nanoseconds(datetime):
        def __eq__(self, other):
            return isinstance(other, Nanoseconds)

        __hash__ = datetime.__hash__

    with pytest.raises(
        InvalidArguments,
        match=r"argument value: this Nanoseconds would not .*Pass a plain datetime",
    ):
        codec_of(taking(datetime), False).encode([Nanoseconds(2001, 2, 3)], {})


@pytest.mark.parametrize(
    "annotation",
    [
        *(Any, object, str, int, float, bool, None, list, dict),
        *(list[str], dict[str, Any], int | str, dict[str, list[int | None]], Sequence[int]),
        *(Mapping[str, Any], PlainRecord, Annotated[int, "x"], int | list[int] | None),
    ],
)
def test_json_is_left_as_it_is(annotation):
    codec = codec_of(taking(annotation), False)
    assert codec.is_plain
    value = object()
    assert codec.encode([value], {}) == ([value], {})
    assert codec.decode([value], {}, missing_as_none=False) == ([value], {})


def test_a_task_without_annotations_is_plain_and_one_with_a_date_is_not():
    assert codec_of(lambda a, *b, **c: None, False).is_plain
    assert not codec_of(taking(date), False).is_plain


def test_a_codec_is_made_once():
    task = taking(date)
    assert codec_of(task, False) is codec_of(task, False)


def all_kinds(first: date, /, second: UUID, *rest: Decimal, third: bytes, **others: timedelta): ...


def test_every_kind_of_parameter_has_its_own_annotation():
    codec = codec_of(all_kinds, False)
    args = [date(2001, 2, 3), UUID(int=1), Decimal(1), Decimal(2)]
    kwargs = {"third": b"3", "first": timedelta(1), "more": timedelta(2)}
    assert codec.decode(*stored(codec, args, kwargs), missing_as_none=False) == (args, kwargs)
    kwargs = {"third": b"3", "second": UUID(int=1)}
    assert codec.decode(*stored(codec, args[:1], kwargs), missing_as_none=False) == (
        args[:1],
        kwargs,
    )


def test_what_the_signature_does_not_take_is_left_to_the_call():
    codec = codec_of(taking(date), False)
    call = codec.decode(["2001-02-03", "more"], {"other": 1}, missing_as_none=False)
    assert call == ([date(2001, 2, 3), "more"], {"other": 1})


def with_context(context: Order, value: date) -> Order: ...


def test_the_context_and_what_is_returned_need_no_annotation_that_resolves():
    assert codec_of(with_context, True).encode([date(2001, 2, 3)], {}) == (["2001-02-03"], {})


def test_the_annotations_of_a_decorated_function_are_resolved_where_it_is_written():
    elsewhere = {"wraps": wraps}
    exec(  # noqa: S102
        "def decorate(function):\n"
        "    @wraps(function)\n"
        "    def inner(*args): return function(*args)\n"
        "    return inner",
        elsewhere,
    )
    decorated = elsewhere["decorate"](with_context)
    assert codec_of(decorated, True).encode([date(2001, 2, 3)], {}) == (["2001-02-03"], {})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="has no such statement")
def test_an_alias_is_what_it_stands_for_unless_it_stands_for_itself():
    aliases = {"date": date}
    exec("type Day = date\ntype Json = list[Json]", aliases)  # noqa: S102
    assert there_and_back(aliases["Day"], DAY) == DAY
    assert flaws_of(taking(aliases["Json"]), False) == (
        "argument value: the annotation contains itself. Annotate Any, or a dataclass"
    )


@pytest.mark.parametrize(
    ("annotation", "value", "says", "given", "fix"),
    [
        (datetime, "x", "datetime", "str", "Pass datetime.fromisoformat(str(value))"),
        (datetime, DAY, "datetime", "date", "Pass datetime.fromisoformat(str(value))"),
        (datetime, None, "datetime", "None", "Annotate datetime | None"),
        (date, datetime(2001, 2, 3), "date", "datetime", "Pass value.date()"),
        (timedelta, 5, "timedelta", "int", "Pass timedelta(seconds=value)"),
        (Decimal, 1.5, "Decimal", "float", "Pass Decimal(str(value))"),
        (UUID, "x", "UUID", "str", "Pass UUID(str(value))"),
        (bytes, bytearray(b"x"), "bytes", "bytearray", "Pass bytes(value)"),
        (Size, "s", "Size", "str", "Pass Size(value)"),
        (list[date], (DAY,), "list", "tuple", "Pass list(value)"),
        (tuple[date, ...], [], "tuple", "list", "Pass tuple(value)"),
        (tuple[date, date], [DAY, DAY], "tuple", "list", "Pass tuple(value)"),
        (set[date], frozenset(), "set", "frozenset", "Pass set(value)"),
        (dict[str, date], [], "dict", "list", "Pass dict(value)"),
        (Point, {}, "Point", "dict", "Pass Point(...)"),
        (Pair, (UUID(int=0), None), "Pair", "tuple", "Pass Pair(...)"),
    ],
)
def test_a_value_that_is_not_what_the_annotation_says_is_refused(
    annotation, value, says, given, fix
):
    with pytest.raises(InvalidArguments) as raised:
        codec_of(taking(annotation), False).encode([value], {})
    assert str(raised.value) == (
        f"Cannot enqueue {__name__}.taking.<locals>.it: argument value: "
        f"the annotation says {says}, and this is {given}. {fix}."
    )


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (
            time,
            time(1, tzinfo=ZoneInfo("Europe/Berlin")),
            "no offset in seconds, so it would be lo",
        ),
        (
            datetime,
            datetime(2001, 2, 3, tzinfo=timezone(timedelta(microseconds=1))),
            "no offset in",
        ),
        (Rights, Rights.READ | Rights.WRITE, "Rights has no name. Annotate list[Rights] and pass"),
        (Literal["a", 1], True, "not one of Literal['a', 1]. Pass one of these."),
        (Literal["a", 1], [], "not one of Literal['a', 1]. Pass one of these."),
        (tuple[date, date], (DAY,), "1 items instead of 2. Pass as many."),
    ],
)
def test_a_value_that_would_not_come_back_is_refused(annotation, value, problem):
    with pytest.raises(InvalidArguments, match=r": argument value: .+\. .+\.$") as raised:
        codec_of(taking(annotation), False).encode([value], {})
    assert problem in str(raised.value)


def test_an_instance_of_a_subclass_of_a_dataclass_is_refused_since_it_would_lose_fields():
    class More(Point): ...

    with pytest.raises(InvalidArguments, match="says Point, and this is More"):
        codec_of(taking(Point), False).encode([More(datetime(2001, 2, 3))], {})


@pytest.mark.parametrize(
    ("annotation", "value", "where"),
    [
        (list[date], [date(2001, 2, 3), 1], r"argument value\[1\]: "),
        (
            dict[str, list[Tree]],
            {"a": [Tree(Decimal(1), [Tree(2)])]},
            r"argument value\['a'\]\[0\].children\[0\].value: ",
        ),
        (tuple[int, Point], (1, Point(5)), r"argument value\[1\].at: "),
    ],
)
def test_a_refusal_names_the_place(annotation, value, where):
    with pytest.raises(InvalidArguments, match=where):
        codec_of(taking(annotation), False).encode([value], {})


def test_refusals_name_the_argument_however_it_was_given():
    codec = codec_of(all_kinds, False)
    good = [date(2001, 2, 3), UUID(int=1)]
    for args, kwargs, where in (
        ([1], {}, "first"),
        ([*good, Decimal(1), 1], {}, r"rest\[1\]"),
        (good, {"third": 1}, "third"),
        (good, {"more": 1}, "more"),
    ):
        with pytest.raises(InvalidArguments, match=f"argument {where}: "):
            codec.encode(args, kwargs)


def test_refusals_do_not_show_the_value_which_may_be_a_secret():
    for annotation in (date, Decimal, Size, Point, list[date], Literal["a"], tuple[int, int]):
        codec = codec_of(taking(annotation), False)
        with pytest.raises(InvalidArguments) as refused:
            codec.encode(["s3cret"], {})
        with pytest.raises(ValueError, match="argument value: ") as unreadable:
            codec.decode(["s3cret"], {}, missing_as_none=False)
        assert "s3cret" not in f"{refused.value!r} {unreadable.value!r}"
        assert unreadable.value.__cause__ is None
        assert unreadable.value.__suppress_context__


def test_values_that_hold_themselves_are_refused():
    tree = Tree(Decimal(1))
    tree.children.append(tree)
    with pytest.raises(InvalidArguments, match=r"contain themselves, .* Store the data and pass"):
        codec_of(taking(Tree), False).encode([tree], {})


@pytest.mark.parametrize(
    ("annotation", "json", "problem"),
    [
        (datetime, "2001-02-03", "the stored str is no datetime"),
        (datetime, "20010203", "the stored str is no datetime"),
        (datetime, 5, "the stored int is no datetime"),
        (date, "2001-02-03T00:00:00", "the stored str is no date"),
        (date, None, "the stored None is no date"),
        (time, "noon", "the stored str is no time"),
        (timedelta, "soon", "the stored str is no timedelta"),
        (timedelta, "P9999999999D", "the stored str is no timedelta"),
        (Decimal, "1,5", "the stored str is no Decimal"),
        (Decimal, 1, "the stored int is no Decimal"),
        (UUID, "x", "the stored str is no UUID"),
        (bytes, "é", "the stored str is no bytes"),
        (bytes, "Y Q==", "the stored str is no bytes"),
        (Size, "s", "the stored str names no member of Size"),
        (Size, [], "the stored list names no member of Size"),
        (Literal["a", 1], True, "what is stored is not one of Literal['a', 1]"),
        (Literal["a", 1], {}, "what is stored is not one of Literal['a', 1]"),
        (list[date], {}, "the stored dict is no list"),
        (tuple[int, date], [1], "what is stored is no tuple of 2"),
        (dict[str, date], [], "the stored list is no dict"),
        (set[Any], [[]], "what is stored cannot be in a set (unhashable type: 'list')"),
        (Point, [], "the stored list is no Point"),
        (Point, {"label": "x"}, "at of Point is not stored"),
        (Point, {"at": "2001-02-03T00:00", "colour": 1}, "Point has no field 'colour'"),
        (Pair, {}, "key of Pair is not stored"),
        (Tree, {"children": [], "size": 1}, "Tree has no field 'size', which is stored"),
        (Positive, {"number": -1}, "Positive cannot be made of what is stored"),
    ],
)
def test_stored_json_that_does_not_fit_is_refused(annotation, json, problem):
    with pytest.raises(ValueError, match=r"^argument value: ") as raised:
        codec_of(taking(annotation), False).decode([json], {}, missing_as_none=False)
    message = str(raised.value)
    assert message.startswith(f"argument value: {problem}")
    assert "version= and upcast=" in message


def test_the_error_of_a_dataclass_is_kept_as_the_cause():
    with pytest.raises(ValueError, match="cannot be made of") as raised:
        codec_of(taking(Positive), False).decode([{"number": -1}], {}, missing_as_none=False)
    assert str(raised.value.__cause__) == "it is negative"


def test_a_field_that_was_added_has_its_default():
    codec = codec_of(taking(list[Point]), False)
    args, _ = codec.decode([[{"at": "2001-02-03T00:00:00"}]], {}, missing_as_none=False)
    assert args == [[Point(datetime(2001, 2, 3), "none")]]


UNSUPPORTED = {
    "union": (date | datetime, "does not say which of its types is stored. Annotate one type"),
    "union with text": (date | str | None, "does not say which of its types is stored."),
    "own class": (Foreign, "Foreign is not supported. Annotate what JSON has, datetime"),
    "callable": (Callable[[], None], "is not supported. Annotate what JSON has"),
    "complex": (complex, "is not supported"),
    "bytearray": (bytearray, "is not supported"),
    "type variable": (T, "is not supported"),
    "generic dataclass": (Box[int], "is not supported"),
    "field of a type variable": (Box, "field inside of"),
    "enum without members": (Enum, "is not supported"),
    "model of models": (models.Model, "is not supported"),
    "abstract model": (Abstract, "is not supported"),
    "no type at all": ([int], "is not supported"),
    "keys": (dict[int, date], "would become text. Annotate dict[str, ...], or a list of tuples"),
    "keys of plain values": (dict[UUID, str], "would become text"),
    "literals alike": (Literal[Colour.RED, "RED"], "told apart as JSON. Annotate an Enum"),
    "literal bytes": (Literal[b"x"], "cannot be told apart as JSON"),
    "init var": (Temporary, "an InitVar of"),
    "typed dict": (TimedRecord, "TimedRecord holds more than JSON. Make it a dataclass"),
    "unknown name": (
        "Order",
        "resolved (name 'Order' is not defined). Import its names where it is used",
    ),
    "unknown name inside": (list["Order"], "name 'Order' is not defined"),
    "unknown name in a field": (Unreadable, "the fields of"),
    "no Python": ("not a type(", "cannot be resolved"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_annotation_that_is_not_supported_is_named_with_the_fix(name):
    annotation, problem = UNSUPPORTED[name]
    task = taking(annotation)
    with pytest.raises(ValueError, match=r"^argument value: ") as raised:
        codec_of(task, False)
    assert problem in str(raised.value)
    assert flaws_of(task, False) == str(raised.value)


def test_a_task_that_is_fine_has_no_flaws():
    assert flaws_of(all_kinds, False) is None
    assert flaws_of(with_context, True) is None
    assert flaws_of(with_context, False).startswith("argument context: the annotation Order ")
