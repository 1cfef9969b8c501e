import datetime as dt
import decimal
import enum
import json
import pathlib
import types
import uuid
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from django.contrib.auth.models import Group
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.arguments import encode_arguments
from django_claimq.exceptions import ClaimqError, InvalidArguments
from django_claimq.flaws import MAX_DEPTH, first_flaw
from django_claimq.payload import clean_text, decode, encode_result

MB = 1_000_000


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Size(str, enum.Enum):  # noqa: UP042  (its str() differs from its value)
    SMALL = "small"


class Lonely(str):
    """A string that equals only itself."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


Point = namedtuple("Point", "x y")


def encode(*args, limit=MB, names=None, **kwargs):
    encoded = encode_arguments(args, kwargs, task="shop.tasks.send", names=names, limit=limit)
    assert [json.loads(encoded.args_text), json.loads(encoded.kwargs_text)] == list(encoded[:2])
    return encoded[:2]


def refusal(*args, **options):
    with pytest.raises(InvalidArguments) as raised:
        encode(*args, **options)
    return str(raised.value)


def kind(value):
    return type(value).__name__


def nested(depth, make=lambda inner: [inner], core=0):
    for _ in range(depth):
        core = make(core)
    return core


def contains_itself():
    value = {"items": [1]}
    value["items"].append(value)
    return value


class TestArguments:
    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            0,
            -1,
            10**100,
            1.5,
            -0.0,
            1e15,
            1e-300,
            "",
            "naïve 日本 😀",
            "tab\tline\n\x01\x7f",
            "about \\u0000 and \\ud800",
            "e+ and 1e+16",
            "[" * 500 + "{" * 500,
            [],
            {},
            [[1, [2, {"a": [None]}]], {}],
            [{"id": i} for i in range(200)],
            nested(MAX_DEPTH - 1),
            nested(MAX_DEPTH - 1, lambda inner: {"a": inner}),
        ],
        ids=kind,
    )
    def test_plain_json_comes_back_equal(self, value):
        assert encode(value, key=value) == ([value], {"key": value})

    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (SafeString("<b>"), "<b>"),
            (Level.HIGH, 3),
            (Size.SMALL, "small"),
            (OrderedDict(a=1), {"a": 1}),
            (defaultdict(int, {Size.SMALL: 1}), {"small": 1}),
            (Lonely("x"), "x"),
            ({Lonely("x"): 1}, {"x": 1}),
        ],
    )
    def test_a_subclass_of_a_json_type_comes_back_plain(self, value, plain):
        (result,), _ = encode(value)
        assert result == plain
        assert type(result) is type(plain)

    def test_the_arguments_are_copied(self):
        value = [1]
        args, _ = encode(value)
        value.append(2)
        assert args == [[1]]

    @pytest.mark.parametrize(
        ("value", "problem", "fix"),
        [
            ((1, 2), "a tuple would come back as a list", "list(value)"),
            (Point(1, 2), "a tuple would come back as a list", "list(value)"),
            ({1, 2}, "Unsupported type: <class 'set'>", "Pass a list"),
            (b"x", "Unsupported type: <class 'bytes'>", "base64"),
            (range(3), "Unsupported type: <class 'range'>", "Pass a list"),
            (types.MappingProxyType({}), "Unsupported type: ", "dict(value)"),
            (dt.datetime(2026, 1, 1), "Unsupported type: ", "value.isoformat()"),
            (dt.date(2026, 1, 1), "Unsupported type: ", "value.isoformat()"),
            (dt.time(1), "Unsupported type: ", "value.isoformat()"),
            (dt.timedelta(1), "Unsupported type: ", "value.total_seconds()"),
            (uuid.UUID(int=1), "Unsupported type: <class 'uuid.UUID'>", "str(value)"),
            (decimal.Decimal(1), "Unsupported type: ", "str(value)"),
            (pathlib.PurePosixPath("/"), "Unsupported type: ", "str(value)"),
            (gettext_lazy("Yes"), "Unsupported type: ", "str(value)"),
            (Group(pk=1), "Unsupported type: ", ".pk"),
            (Group.objects.all(), "Unsupported type: ", 'values_list("pk", flat=True)'),
            (Colour.RED, "Unsupported type: ", "value.value"),
            (object(), "Unsupported type: <class 'object'>", "only text, numbers"),
            (float("nan"), "nan does not exist in JSON", "None"),
            (float("-inf"), "-inf does not exist in JSON", "None"),
            (1e16, "the float 1e+16 would come back from PostgreSQL as an int", "int(value)"),
            (-1e300, "would come back from PostgreSQL as an int", "int(value)"),
            (10**5000, "more digits than Python converts to text", "hex(value)"),
            ("a\0b", "contains a NUL character", 'value.replace("\\0", "")'),
            ("\udcff", "contains a lone surrogate", 'encode("utf-8", "replace")'),
            ("\ud83d\ude00", "contains a lone surrogate", 'encode("utf-8", "replace")'),
            ({1: 2}, "the key 1 is no string and would come back as one", "all strings"),
            ({1: 2, "1": 3}, "the key 1 is no string", "all strings"),
            ({None: 2}, "the key None is no string", "all strings"),
            ({(1, 2): 3}, "the key (1, 2) is no string", "all strings"),
            ({Lonely("x"): 1, Lonely("x"): 2}, "keys that are the same text", "plain strings"),
            ({"a\0": 1}, "the key 'a\\x00' contains a NUL character", "value.replace"),
            ({"\udcff": 1}, "the key '\\udcff' contains a lone surrogate", "encode"),
            (nested(MAX_DEPTH), "nested deeper than 100 levels", "pass its key"),
            (nested(100_000), "nested deeper than 100 levels", "pass its key"),
            (contains_itself(), "contains itself (circular reference)", "Pass only"),
        ],
        ids=kind,
    )
    def test_what_would_not_come_back_is_refused_with_its_fix(self, value, problem, fix):
        message = refusal({"deep": [0, value]}, names=["order"])
        assert message.startswith("Cannot enqueue shop.tasks.send: argument order['deep'][1]")
        assert problem in message
        assert fix in message

    def test_a_refusal_is_a_type_error_of_this_package(self):
        assert issubclass(InvalidArguments, TypeError)
        assert issubclass(InvalidArguments, ClaimqError)

    def test_a_tuple_is_refused_and_the_message_names_the_argument(self):
        assert refusal({"items": [0, 1, 2, (3,)]}, names=["order"]) == (
            "Cannot enqueue shop.tasks.send: argument order['items'][3]: "
            "a tuple would come back as a list. Pass list(value)."
        )

    @pytest.mark.parametrize(
        ("args", "kwargs", "names", "name"),
        [
            ([1, ()], {}, ["a", "b"], "b"),
            ([1, ()], {}, ["a", "b", "c"], "b"),
            ([1, ()], {}, ["a"], "args[1]"),
            ([1, ()], {}, None, "args[1]"),
            ([], {"a": 1, "b": ()}, None, "b"),
            ([()], {"b": ()}, ["a"], "a"),
        ],
    )
    def test_the_message_names_the_argument_as_the_caller_knows_it(self, args, kwargs, names, name):
        assert f"argument {name}: " in refusal(*args, names=names, **kwargs)

    @pytest.mark.parametrize(
        ("key", "shown"), [("\0", "'\\x00'"), ("\udcff", "'\\udcff'"), (1, "1")]
    )
    def test_a_bad_name_of_an_argument_is_refused(self, key, shown):
        with pytest.raises(InvalidArguments) as raised:
            encode_arguments([], {key: 1}, task="t", names=None, limit=MB)
        assert f"kwargs: the key {shown} " in str(raised.value)
        assert str(raised.value).isprintable()

    def test_arguments_over_the_limit_are_refused_and_the_largest_is_named(self):
        message = refusal("x", limit=100, image="x" * 200)
        assert "argument image: the largest of arguments that are 220 bytes as JSON" in message
        assert "over the limit of 100 (MAX_PAYLOAD)" in message
        assert "Store the data and pass its key" in message

    def test_the_limit_counts_bytes_not_characters(self):
        encode("x" * 80, limit=100)
        assert "the limit of 100" in refusal("é" * 80, limit=100)

    def test_the_message_stays_short(self):
        assert len(refusal({"k" * 10_000: ()})) < 500
        assert len(refusal(nested(MAX_DEPTH + 5, lambda inner: {"k" * 50: inner}))) < 500

    def test_the_values_are_not_in_the_message(self):
        assert "hunter2" not in refusal({"password": ("hunter2",)}, "hunter2")


RISKY_TEXT = st.text(st.sampled_from("a\\u0e+[{\0\udcff\ud83d\ude00😀"), max_size=12)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | RISKY_TEXT
    | RISKY_TEXT.map(SafeString)
    | st.sampled_from([1e15, 1e16, 10**400, Level.HIGH, Size.SMALL, b"", Colour.RED])
)
KEYS = RISKY_TEXT | RISKY_TEXT | st.integers() | st.none() | st.just(Size.SMALL)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.tuples(st.integers(1, 120), inner).map(lambda pair: nested(pair[0], core=pair[1]))
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_what_is_accepted_comes_back_equal_and_both_paths_agree(value):
    flaw = first_flaw([value], {"k": value}, None)
    try:
        args, kwargs = encode(value, k=value)
    except InvalidArguments as error:
        assert flaw is not None
        assert flaw.problem in str(error)
    else:
        assert flaw is None
        assert (args, kwargs) == ([value], {"k": value})
        assert decode(json.dumps(args)) == args


def is_marker(result):
    return isinstance(result, dict) and result.get("__claimq__") == "unstorable"


class TestResults:
    @pytest.mark.parametrize(
        ("value", "stored"),
        [
            (None, None),
            ((1, (2,)), [1, [2]]),
            (b"abc", "abc"),
            ({1: "a"}, {"1": "a"}),
            ({"a": [1.5, True]}, {"a": [1.5, True]}),
            (1e300, 1e300),
            ("about \\u0000", "about \\u0000"),
            ("😀", "😀"),
            (nested(MAX_DEPTH), nested(MAX_DEPTH)),
            ([{"id": i} for i in range(200)], [{"id": i} for i in range(200)]),
        ],
        ids=kind,
    )
    def test_a_result_is_stored_as_json(self, value, stored):
        assert encode_result(value, limit=MB) == stored

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ({"a": float("nan")}, "result['a']: nan does not exist in JSON"),
            (["a\0"], "result[0]: the text contains a NUL character"),
            ([1e300, (1,), "a\0"], "result[2]: the text contains a NUL character"),
            ({"a\0": 1}, "result: the key 'a\\x00' contains a NUL character"),
            ({float("nan"): 1}, "cannot be written as JSON"),
            ("\udcff", "result: the text contains a lone surrogate"),
            (10**5000, "result: more digits than Python converts to text"),
            (nested(MAX_DEPTH + 1), "nested deeper than 100 levels"),
            (nested(100_000), "nested too deeply"),
            (contains_itself(), "nested too deeply or contains itself"),
            ("x" * MB, "1,000,002 bytes as JSON, over 1,000,000 (MAX_RESULT)"),
        ],
        ids=kind,
    )
    def test_what_a_database_refuses_becomes_a_marker(self, value, reason):
        result = encode_result(value, limit=MB)
        assert result["__claimq__"] == "unstorable"
        assert reason in result["reason"]
        assert encode_result(result, limit=MB) == result

    @pytest.mark.parametrize("value", [object(), {1, 2}, [uuid.UUID(int=1)], Group(pk=1)])
    def test_an_unsupported_type_is_the_callers_to_handle(self, value):
        with pytest.raises(TypeError, match="Unsupported type"):
            encode_result(value, limit=MB)

    @given(ANYTHING)
    def test_a_result_is_storable_whatever_it_was(self, value):
        try:
            result = encode_result(value, limit=MB)
        except (TypeError, ValueError):
            return
        assert is_marker(result) or encode_result(result, limit=MB) == result
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        text.encode()
        assert "\\u0000" not in text.replace("\\\\", "")


class TestTexts:
    def test_nul_and_lone_surrogates_become_visible(self):
        assert clean_text("a\0b\udcff😀") == "a\\x00b\\udcff😀"

    def test_a_short_text_is_left_alone(self):
        assert clean_text("x" * 10_000) == "x" * 10_000

    @pytest.mark.parametrize("limit", [100, 255, 10_000])
    def test_a_long_text_loses_its_middle_and_says_how_much(self, limit):
        text = "S" * 20_000 + "E" * 20_000
        result = clean_text(text, limit)
        start, line, end = result.split("\n")
        assert len(result) <= limit
        assert set(start) == {"S"}
        assert set(end) == {"E"}
        assert len(end) >= 2 * len(start)
        assert line == f"[... {len(text) - len(start) - len(end):,} characters cut ...]"

    def test_the_last_line_of_a_traceback_survives(self):
        assert clean_text("frame\n" * 10_000 + "ValueError: why").endswith("\nValueError: why")

    @given(st.text(st.characters(exclude_categories=[])), st.integers(100, 300))
    def test_any_text_becomes_storable(self, text, limit):
        result = clean_text(text, limit)
        result.encode()
        assert "\0" not in result
        assert len(result) <= limit


class TestReading:
    def test_json_text_is_read(self):
        assert decode('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}

    @pytest.mark.parametrize("text", ["", "{", "nope", "9" * 5000, "[" * 100_000 + "]" * 100_000])
    def test_what_cannot_be_read_is_a_value_error(self, text):
        with pytest.raises(ValueError, match=r"."):
            decode(text)
