"""What a person says who pauses a queue."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

_RESUMED, _TIME = "resumed", "time"


class PauseForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        required=False,
        help_text=_("For others to see."),
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
    )
    until = forms.ChoiceField(
        label=_("Until"),
        choices=[
            (_RESUMED, _("somebody resumes it")),
            ("15", _("15 minutes from now")),
            ("60", _("1 hour from now")),
            ("480", _("8 hours from now")),
            (_TIME, _("the time below")),
        ],
        initial=_RESUMED,
        widget=forms.RadioSelect,
    )
    time = forms.DateTimeField(
        label=_("Time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = timezone.get_current_timezone_name()
        self.fields["time"].help_text = gettext("In the time zone %s.") % zone

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        until, time = cleaned.get("until"), cleaned.get("time")
        if until == _TIME and time is None and "time" not in self.errors:
            self.add_error("time", gettext("Say when, or choose another end."))
        if until != _TIME and time is not None:
            self.add_error("time", gettext("Choose “the time below” for it, or leave it empty."))
        if time is not None and time <= timezone.now():
            self.add_error("time", gettext("This time has passed."))
        return cleaned

    @property
    def end(self) -> datetime | timedelta | None:
        """When the queue goes on by itself, or so long from now."""
        until: str = self.cleaned_data["until"]
        if until == _TIME:
            time: datetime = self.cleaned_data["time"]
            return time
        return None if until == _RESUMED else timedelta(minutes=int(until))
