"""The code of docs/howto/typed-arguments.md."""

# -- define
from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db import models

from django_claimq import task


class Channel(models.TextChoices):
    MAIL = "m", "Mail"
    SMS = "s", "Text message"


@task(typed=True)
def remind(user: User, amount: Decimal, due: date, channel: Channel = Channel.MAIL) -> str:
    return f"{channel.label} to {user.username}: {amount} was due {due:%d %B}"


# -- enqueue
def remind_of(user: User) -> Any:
    return remind.enqueue(user, Decimal("19.90"), due=date(2026, 3, 1))


# -- rows
@task(typed=True, on_missing="cancel")
def welcome(user: User) -> str:
    return f"Welcome, {user.username}"


@task(typed=True, on_missing="none")
def report(owner: User | None, members: list[User | None]) -> str:
    there = [user.username for user in members if user is not None]
    return f"{owner.username if owner else 'nobody'}: {', '.join(there)}"


# -- dataclass
@dataclass
class Parcel:
    weight: Decimal
    address: list[str]
    # Added later; jobs that are stored without it get the default.
    express: bool = False


@task(typed=True)
def ship(parcels: list[Parcel], within: timedelta) -> str:
    weight = sum(parcel.weight for parcel in parcels)
    return f"{weight} kg within {within.days} days"


# -- version
def upcast_pay(
    version: int, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    def pay_1(invoice: int, cents: int) -> tuple[list[Any], dict[str, Any]]:
        # As it is stored, so a Decimal is a text.
        return [invoice, str(Decimal(cents) / 100)], {}

    return pay_1(*args, **kwargs)


@task(typed=True, version=2, upcast=upcast_pay)
def pay(invoice: int, amount: Decimal) -> str:
    return f"invoice {invoice}: {amount}"


# -- sensitive
@task(sensitive=["password", "token"], max_attempts=1)
def sign_in(username: str, password: str, *, token: str = "") -> str:
    if not token:
        raise PermissionError(f"{username} cannot sign in with {password}")
    return f"{username} is in"
