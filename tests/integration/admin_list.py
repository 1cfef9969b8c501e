"""The list of jobs, as a person uses it in a browser."""

from __future__ import annotations

import html
import re

from django.test import Client

from tests.people import permissions

JOBS = "/admin/django_claimq/job/"
HOSTILE = '<script>alert("1")</script>\'"&\u202egpj.exe\u200b'


def staff_client(user_model, *codenames):
    """A client of a staff user who has only the permissions named."""
    user = user_model.objects.create_user(f"staff {' '.join(codenames)}", is_staff=True)
    user.user_permissions.set(permissions(*codenames) if codenames else ())
    client = Client()
    client.force_login(user)
    return client


def seen(client, address=JOBS, **params):
    """The page as text, and that it came without an error."""
    response = client.get(address, params)
    assert response.status_code == 200, response
    return response.content.decode()


def ids_in(page):
    """The ids in the list, in its order."""
    return re.findall(r'class="field-job"><a href="[^"]*/job/([^"/]+)/change/', page)


def found(client, **params):
    return ids_in(seen(client, **params))


def hidden_in(page):
    """The hidden fields of the form that asks, as it would send them."""
    form = page[page.index('class="claimq-confirm"') :]
    pairs = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(html.unescape(value))
    return fields


def act(client, name, *jobs, across=False, address=JOBS, **more):
    """Run an action on jobs that were ticked, or on the whole list; return the answer."""
    form = {
        "action": f"{name}_selected",
        "index": 0,
        "_selected_action": [str(getattr(job, "id", job)) for job in jobs],
        "select_across": int(across),
    }
    return client.post(address, form | more, follow=True)


def confirm(client, answer, address=JOBS, **values):
    """Send the form that an action asked with."""
    fields = hidden_in(answer.content.decode())
    fields.pop("csrfmiddlewaretoken", None)
    return client.post(address, fields | values, follow=True)


def told(answer):
    """The messages on a page."""
    listed = re.findall(
        r'<li class="(?:success|warning|error|info)">(.*?)</li>', answer.content.decode()
    )
    return [html.unescape(one) for one in listed]
