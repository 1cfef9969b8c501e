"""What can be typed into the search of the list: words such as task:mail, all of which hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext

from django_claimq.admin import argument_search
from django_claimq.admin.conditions import NOTHING, Condition, HasElement
from django_claimq.admin.text import word as shown
from django_claimq.models.error import Error
from django_claimq.states import State

_MOST_WORDS = 10
# Of an exception's name, so that a part of it which all have does not make a long list.
_MOST_ERRORS = 200
_TOKEN = re.compile(r'(?:(?P<name>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
_ID = re.compile(r"[0-9a-f]{1,32}")
_LEAST_BARE_ID = 8


class Unclear(ValueError):
    """A search that cannot be made; its text says how to write it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is given.

    `using`: the alias of the tables. `sees_payload`: whether the person may see arguments.
    """

    using: str
    sees_payload: bool


def read(term: str, asked: Asked) -> list[Condition]:
    """The conditions of a search. Raises Unclear."""
    return [_condition(name, value, asked) for name, value in _words(term)]


def _words(term: str) -> Iterator[tuple[str, str]]:
    """Each word with its name; "" for one without."""
    found = list(_TOKEN.finditer(term))
    if len(found) > _MOST_WORDS:
        raise Unclear(gettext("A search has at most %s words.") % _MOST_WORDS)
    for token in found:
        name, quoted, plain = token.group("name", "quoted", "plain")
        if quoted is None and '"' in plain:
            raise Unclear(gettext('A quotation mark is missing: write task:"two words".'))
        value = plain if quoted is None else quoted
        if name is None and quoted is None and value.endswith(":"):
            raise Unclear(gettext("Write what to look for right after %s") % shown(value, 40))
        yield name or "", value


def _condition(name: str, value: str, asked: Asked) -> Condition:
    if name.startswith("arg."):
        try:
            return argument_search.condition(name.removeprefix("arg."), value, asked.sees_payload)
        except ValueError as error:
            raise Unclear(str(error)) from None
    if name not in _WORDS:
        raise Unclear(
            gettext(
                "There is no search word %(name)s: but %(words)s and arg.name: are there. To look "
                "for the text itself, put it in quotation marks."
            )
            % {"name": shown(name, 40), "words": ", ".join(f"{one}:" for one in _WORDS if one)}
        )
    return _WORDS[name](value, asked)


def _bare(value: str, asked: Asked) -> Condition:
    digits = value.replace("-", "").lower()
    if len(digits) >= _LEAST_BARE_ID and _ID.fullmatch(digits):
        return _id(value, asked)
    return Condition(Q(task__contains=value) | Q(queue_name=value) | Q(claimed_by=value))


def _id(value: str, asked: Asked) -> Condition:
    digits = value.replace("-", "").lower()
    if not _ID.fullmatch(digits):
        raise Unclear(gettext("id: takes the beginning of an id, such as id:01989f3c-6b1e."))
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    return Condition(Q(id__range=(first, last)), has_index=True)


def _task(value: str, asked: Asked) -> Condition:
    return Condition(Q(task__contains=value))


def _queue(value: str, asked: Asked) -> Condition:
    return Condition(Q(queue_name=value), is_queue=True)


def _worker(value: str, asked: Asked) -> Condition:
    return Condition(Q(claimed_by=value) | Q(finished_by=value))


def _tag(value: str, asked: Asked) -> Condition:
    return Condition(Q(HasElement("tags", value)))


def _key(value: str, asked: Asked) -> Condition:
    # It is made of arguments.
    if not asked.sees_payload:
        raise Unclear(gettext("key: needs the permission to view arguments."))
    return Condition(Q(unique_key=value))


def _subject(value: str, asked: Asked) -> Condition:
    kind, _, key = value.partition(":")
    if not key or "." not in kind:
        raise Unclear(gettext("Write subject:app.model:key, such as subject:shop.order:17."))
    return Condition(Q(subject_type=kind.lower(), subject_id=key), has_index=True)


def _error(value: str, asked: Asked) -> Condition:
    alike = Error.objects.using(asked.using).filter(exception__contains=value)
    newest = alike.order_by("-last_seen").values_list("fingerprint", flat=True)
    fingerprints = list(newest[:_MOST_ERRORS])
    if not fingerprints:
        return NOTHING
    return Condition(Q(state=State.FAILED, error_fingerprint__in=fingerprints), has_index=True)


_WORDS: dict[str, Callable[[str, Asked], Condition]] = {
    "": _bare,
    "id": _id,
    "task": _task,
    "queue": _queue,
    "worker": _worker,
    "tag": _tag,
    "key": _key,
    "subject": _subject,
    "error": _error,
}
