import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq import task
from django_claimq.compat import InvalidTask
from django_claimq.masking import MASK, mask_text, masked_call, secrets_of

POSITIONS = ("user", "password")


@dataclass
class Card:
    number: str
    code: int


class Key(Enum):
    MAIN = "main key"


def secrets(value):
    return secrets_of(["password"], POSITIONS, ["a user", value], {})


def test_sensitive_arguments_are_masked_wherever_they_are_given():
    assert masked_call(["password"], POSITIONS, ["joe", "s3cret"], {}) == (["joe", MASK], {})
    assert masked_call(["password"], POSITIONS, ["joe"], {"password": [1]}) == (
        ["joe"],
        {"password": MASK},
    )


def test_the_call_itself_is_left_as_it_is():
    args, kwargs = ["joe", "s3cret"], {"token": "t0ken"}
    masked_call(["password", "token"], POSITIONS, args, kwargs)
    assert (args, kwargs) == (["joe", "s3cret"], {"token": "t0ken"})


def test_arguments_beyond_the_named_ones_are_masked_where_a_name_may_be_theirs():
    args = ["joe", "s3cret", "more"]
    assert masked_call(["rest"], POSITIONS, args, {}) == (["joe", "s3cret", MASK], {})
    assert masked_call(["password"], POSITIONS, args, {}) == (["joe", MASK, "more"], {})
    assert secrets_of(["rest"], POSITIONS, args, {}) == ("more",)


def test_what_is_not_sensitive_is_no_secret():
    assert secrets_of(["password"], POSITIONS, ["a user"], {"other": "a text"}) == ()
    assert secrets_of([], POSITIONS, ["a user", "s3cret"], {}) == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("s3cret", ("s3cret",)),
        ("s3c", ()),
        (1234, ("1234",)),
        (-1234, ("1234",)),
        (123, ()),
        (12.34, ("12.34",)),
        (3.14, ()),
        (True, ()),
        (None, ()),
        (Decimal("99.95"), ("99.95",)),
        (Decimal("sNaN"), ()),
        (b"\x00bytes", (r"\\x00bytes", r"\x00bytes")),
        (date(2001, 2, 3), ("2001-02-03",)),
        (UUID(int=1), ("00000000-0000-0000-0000-000000000001",)),
        (Key.MAIN, ("main key",)),
        (Card("4000 1234", 987), ("4000 1234",)),
        ({"login": {"password": "deep down"}, "codes": [[5555], ("6666",)]}, None),
    ],
)
def test_secrets_are_the_texts_and_long_numbers_in_a_value(value, found):
    assert secrets(value) == (found or (("deep down", "5555", "6666") if found is None else ()))


def test_a_number_with_more_digits_than_python_writes_is_no_secret():
    assert secrets(10**5000) == ()


def test_longer_secrets_come_first_so_that_nothing_of_them_is_left():
    found = secrets(["pass", "password", "my password"])
    assert found == ("my password", "password", "pass")
    assert mask_text("my password is a passphrase", found) == f"{MASK} is a {MASK}phrase"
    assert mask_text("pass, pass", found) == f"{MASK}, {MASK}"


@given(st.text(min_size=4), st.text(max_size=3))
def test_a_secret_is_found_as_it_is_and_as_repr_and_json_write_it(text, around):
    found = secrets([text])
    beside = {"it": around + "'" + text + '"'}
    for line in (text, repr(text), ascii(text), repr(beside), json.dumps(text)):
        masked = mask_text(f"> {line} <", found)
        assert MASK in masked
        assert text.strip("*'\"> <") == "" or text not in masked.replace(MASK, "")


def test_text_without_secrets_stays_as_it_is():
    assert mask_text("nothing here", ()) == "nothing here"
    assert mask_text("nothing here", secrets("s3cret")) == "nothing here"


def signing_in(password, **options): ...


def test_what_takes_any_keywords_cannot_be_named_as_sensitive():
    assert task(sensitive=["password", "token"])(signing_in).sensitive == ("password", "token")
    with pytest.raises(InvalidTask, match=r"'options' takes any keywords: name those that are"):
        task(sensitive=["options"])(signing_in)
