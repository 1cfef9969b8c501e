import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq import arguments
from django_claimq.arguments import bind, encode_arguments
from django_claimq.exceptions import InvalidArguments
from tests import tasks

TEXT = st.text() | st.text(st.sampled_from("a\\u0e+\0\udcff😀"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from([1e15, 1e16, -0.0, 10**400, 10**5000])
)


def outcome(args, kwargs, limit):
    try:
        encoded = encode_arguments(args, kwargs, task="t", names=["a"], limit=limit)
    except InvalidArguments as error:
        return str(error)
    # By repr, since True == 1 == 1.0 and -0.0 == 0.0.
    return repr(encoded)


@given(st.lists(SCALARS, max_size=4), st.dictionaries(TEXT, SCALARS, max_size=3), st.just(10**6))
def test_flat_arguments_get_the_verdict_and_the_value_of_the_long_way(args, kwargs, limit):
    short = outcome(args, kwargs, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_is_flat", lambda *given: False)
        assert outcome(args, kwargs, limit) == short


@given(st.lists(SCALARS, max_size=4), st.integers(7, 40))
def test_the_limit_is_the_same_for_both(args, limit):
    short = outcome(args, {}, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_is_flat", lambda *given: False)
        assert outcome(args, {}, limit) == short


def plain(a, /, b, *rest, c, d=1, **others): ...


def fixed(a, b=1, *, c=2): ...


def context_first(context, a, b=1): ...


class Shell:
    """What `bind` reads of a task."""

    module_path = "shop.tasks.it"

    def __init__(self, func, takes_context=False):
        self.func, self.takes_context = func, takes_context


@given(
    st.sampled_from([Shell(plain), Shell(fixed), Shell(context_first, takes_context=True)]),
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", "context"]), st.integers()),
)
def test_a_call_fits_as_the_signature_says_the_first_time_and_later(task, args, kwargs):
    signature = inspect.signature(task.func)
    for _ in range(2):
        try:
            signature.bind(*[None] * task.takes_context, *args, **kwargs)
        except TypeError as error:
            with pytest.raises(InvalidArguments) as raised:
                bind(task, args, kwargs)
            assert str(raised.value) == f"shop.tasks.it{signature}: {error}"
        else:
            names = {plain: ("a", "b"), fixed: ("a", "b"), context_first: ("a", "b")}
            assert tuple(bind(task, args, kwargs)) == names[task.func]


def test_names_that_are_no_texts_are_refused():
    with pytest.raises(InvalidArguments, match="keywords must be strings"):
        bind(tasks.noop, [], {1: 2})
