"""Inserting a job for each row of a queryset, by one INSERT ... SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet, FieldError
from django.db import NotSupportedError, connections, router, transaction
from django.db.models import Expression, QuerySet, Value
from django.db.models.functions import JSONArray, JSONObject

from django_claimq.arguments import bind
from django_claimq.compat import Task
from django_claimq.conf import Options
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import InvalidArguments
from django_claimq.models.job import Job
from django_claimq.queueing import copying
from django_claimq.queueing.columns import columns_of, timing_of
from django_claimq.queueing.enqueueing import wake_workers
from django_claimq.queueing.row_ids import Uuid7
from django_claimq.queueing.row_json import JsonSize, as_json, as_text, longest
from django_claimq.typed import codec_of

_IN_CHUNKS = "Enqueue them by enqueue_many instead, a chunk of rows at a time"
_ROWS = "claimq_rows"


class _Rows(NamedTuple):
    """The SELECT of what the jobs need of the rows, and the column that holds each item."""

    sql: str
    params: Sequence[Any]
    # By what was asked for: the name of the column, and its expression.
    columns: Mapping[Any, tuple[str, Any]]


class _Call(NamedTuple):
    task: Task[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    # The names of the arguments, in the order of args and then of kwargs.
    names: Sequence[str]

    def refusal(self, problem: str) -> InvalidArguments:
        return InvalidArguments(f"Cannot enqueue {self.task.module_path}: {problem}.")

    @property
    def items(self) -> Sequence[Any]:
        return [*self.args, *self.kwargs.values()]


def insert_from(
    task: Task[..., Any],
    queryset: QuerySet[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    *,
    subjects: bool,
) -> int:
    """Insert a job for each row and return how many there are; all, or none.

    Raises InvalidArguments before anything is stored.
    """
    call = _checked(task, queryset, args, kwargs, options, subjects)
    using = options.database
    with transaction.atomic(using=using):
        try:
            rows = _rows(call, queryset, using, subjects)
        except EmptyResultSet:
            return 0
        payload = _payload(call, rows)
        _check_size(call, rows, payload, using, options.max_payload)
        columns = {"id": Uuid7(), **payload, **columns_of(task, options)}
        columns |= timing_of(task)
        if subjects:
            columns |= _subjects(call, rows, queryset)
        count = _insert(using, {**copying.defaults(Job, columns), **columns}, rows)
        if count:
            wake_workers([task], options)
    return count


def _checked(
    task: Task[..., Any],
    queryset: QuerySet[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
    subjects: bool,
) -> _Call:
    if isinstance(args, str):
        raise TypeError(f"enqueue_from: args is a list, such as [{args!r}].")
    if not isinstance(queryset, QuerySet):
        raise TypeError(f"enqueue_from takes a QuerySet, such as .all(), not {queryset!r}.")
    positions = bind(task, args, kwargs)
    names = [*positions[: len(args)], *map(str, range(len(positions), len(args))), *kwargs]
    call = _Call(task, args, kwargs, names)
    for name, item in zip(names, call.items, strict=True):
        if not isinstance(item, str) and not hasattr(item, "resolve_expression"):
            fix = f"Pass Value({item!r})"
            raise call.refusal(f"argument {name}: neither a field's name nor an expression. {fix}")
    for problem in _obstacles(task, queryset, options, subjects):
        raise call.refusal(problem)
    return call


def _obstacles(
    task: Task[..., Any], queryset: QuerySet[Any], options: Options, subjects: bool
) -> Iterator[str]:
    if isinstance(task, ClaimqTask):
        if task.unique_key is not None:
            yield f"its unique_key is made by Python, for one job at a time. {_IN_CHUNKS}"
        if task.typed and not codec_of(task.func, task.takes_context).is_plain:
            yield f"its typed arguments are written by Python, for one job at a time. {_IN_CHUNKS}"
        if subjects and task.subject is not None:
            yield "using(subject=...) names one row, subjects=True each row. Leave one of them out"
    home = _home(queryset)
    if home != options.database:
        yield (
            f"the rows of {queryset.model._meta.label} are in the database {home!r}, the jobs in "
            f"{options.database!r}. {_IN_CHUNKS}"
        )
    if subjects and queryset.query.has_select_fields:
        yield "subjects=True needs whole rows. Leave out .values() and .values_list()"


def _home(queryset: Any) -> str:
    """Where its rows are written; a replica of that is no other database."""
    alias: str = queryset._db or router.db_for_write(queryset.model, **queryset._hints)
    return alias


def _rows(call: _Call, queryset: QuerySet[Any], using: str, subjects: bool) -> _Rows:
    wanted = list(dict.fromkeys([*call.items, *(["pk"] if subjects or not call.items else [])]))
    try:
        compiler = queryset.values_list(*wanted).query.get_compiler(using)
        sql, params = compiler.as_sql(with_col_aliases=True)
    except NotSupportedError as error:
        raise call.refusal(f"{error} Annotate first, and pass the name") from None
    except FieldError as error:
        fix = "Name fields as for values_list(), and give expressions an output_field"
        raise call.refusal(f"{str(error).rstrip('.')}. {fix}") from None
    found = [(str(alias), source) for source, _, alias in compiler.select]
    return _Rows(sql, params, dict(zip(wanted, found, strict=True)))


def _payload(call: _Call, rows: _Rows) -> dict[str, Any]:
    parts = []
    for name, item in zip(call.names, call.items, strict=True):
        try:
            parts.append(as_json(*rows.columns[item]))
        except ValueError as error:
            shown = f"Cast({item!r}, TextField())" if isinstance(item, str) else "Cast(...)"
            fix = f"Pass {shown}, or the key alone and load the row in the task"
            raise call.refusal(f"argument {name} {error}. {fix}") from None
    args, kwargs = parts[: len(call.args)], parts[len(call.args) :]
    return {
        "args": JSONArray(*args) if args else [],
        "kwargs": JSONObject(**dict(zip(call.kwargs, kwargs, strict=True))) if kwargs else {},
    }


def _subjects(call: _Call, rows: _Rows, queryset: QuerySet[Any]) -> dict[str, Any]:
    model = queryset.model._meta.concrete_model or queryset.model
    try:
        key = as_text(*rows.columns["pk"])
    except ValueError as error:
        raise call.refusal(f"subjects=True: the primary key {error}. {_IN_CHUNKS}") from None
    return {"subject_type": model._meta.label_lower, "subject_id": key}


def _check_size(
    call: _Call, rows: _Rows, payload: Mapping[str, Any], using: str, limit: int
) -> None:
    """Look at all rows first, where any of them may be too large."""
    sources = [rows.columns[item][1] for item in call.items]
    if sum(map(longest, sources)) + sum(map(len, call.kwargs)) < limit:
        return
    sizes = [JsonSize(part) for part in payload.values() if isinstance(part, Expression)]
    compiled = [_compiled(size, using) for size in sizes]
    largest = f"MAX({' + '.join(sql for sql, _ in compiled)})"
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {largest} FROM ({rows.sql}) {_ROWS}", _joined(compiled, rows))  # noqa: S608
        found = cursor.fetchone()[0]
    if found is not None and found > limit:
        raise call.refusal(
            f"the arguments of a row are {found:,} bytes as JSON, over the limit of {limit:,} "
            "(MAX_PAYLOAD). Pass its key and load it in the task"
        )


def _insert(using: str, columns: Mapping[str, Any], rows: _Rows) -> int:
    quote = connections[using].ops.quote_name
    fields = {field.attname: field for field in Job._meta.concrete_fields}
    compiled = [
        _compiled(_expression(value, fields[name]), using) for name, value in columns.items()
    ]
    names = ", ".join(quote(str(fields[name].column)) for name in columns)
    values = ", ".join(sql for sql, _ in compiled)
    statement = (
        f"INSERT INTO {quote(Job._meta.db_table)} ({names}) "  # noqa: S608
        f"SELECT {values} FROM ({rows.sql}) {_ROWS}"
    )
    with connections[using].cursor() as cursor:
        cursor.execute(statement, _joined(compiled, rows))
        return int(cursor.rowcount)


def _expression(value: Any, field: Any) -> Any:
    return value if hasattr(value, "resolve_expression") else Value(value, output_field=field)


def _compiled(expression: Any, using: str) -> tuple[str, Sequence[Any]]:
    """Its SQL as that of a value to be stored."""
    query = Job.objects.using(using).query
    resolved = expression.resolve_expression(query, allow_joins=False, for_save=True)
    sql, params = query.get_compiler(using).compile(resolved)
    return str(sql), params


def _joined(compiled: Sequence[tuple[str, Sequence[Any]]], rows: _Rows) -> list[Any]:
    return [*(param for _, params in compiled for param in params), *rows.params]
