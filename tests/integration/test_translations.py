"""The German texts are complete, compiled, and shown."""

from __future__ import annotations

import re
import shutil
import subprocess
from gettext import GNUTranslations
from pathlib import Path

import pytest
from django.contrib import admin
from django.core.management import call_command
from django.utils.translation import override

import django_claimq
from tests.integration.admin_pages import get_pages, make_rows

PACKAGE = Path(django_claimq.__file__).parent
GERMAN = Path("locale", "de", "LC_MESSAGES", "django.po")

needs_gettext = pytest.mark.skipif(
    not all(map(shutil.which, ("xgettext", "msgfmt", "msgattrib"))),
    reason="the programs of GNU gettext are not installed",
)


def entries(po, *options):
    """Those entries of a catalogue that msgattrib selects, without the header and comments."""
    command = ["msgattrib", "--no-obsolete", "--no-location", "--no-wrap", *options, str(po)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    blocks = re.split(r"\n\n+", re.sub(r"^#.*\n", "", found, flags=re.MULTILINE).strip())
    return [one for one in blocks if one and not one.startswith('msgid ""\nmsgstr')]


def catalogue(mo):
    with mo.open("rb") as file:
        texts = dict(GNUTranslations(file)._catalog)
    texts.pop("")
    return texts


@needs_gettext
def test_every_text_of_the_package_has_a_german_one(tmp_path, monkeypatch):
    copy = tmp_path / "django_claimq"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(copy)
    before = set(entries(GERMAN))
    call_command("makemessages", locale=["de"], no_wrap=True, no_obsolete=True, verbosity=0)
    assert entries(GERMAN, "--untranslated") == []
    assert entries(GERMAN, "--only-fuzzy") == []
    assert set(entries(GERMAN)) == before


@needs_gettext
def test_what_is_compiled_is_what_is_written(tmp_path):
    compiled = tmp_path / "django.mo"
    source = PACKAGE / GERMAN
    subprocess.run(["msgfmt", "--check", "-o", compiled, source], check=True)
    assert catalogue(compiled) == catalogue(source.with_suffix(".mo"))


@pytest.mark.django_db
def test_pages_in_german_show_german_alone(admin_client):
    texts = catalogue((PACKAGE / GERMAN).with_suffix(".mo"))
    german = {begun(text) for text in texts.values()}
    # A key is a text, one with its context, or one with a number of its plural.
    keys = (key[0] if isinstance(key, tuple) else key for key in texts)
    english = {begun(key.rpartition("\x04")[2]) for key in keys} - german
    rows = make_rows()
    with override("de"):
        pages = dict(get_pages(admin_client, admin.site, rows))
    seen = {
        name: {begun(text) for text in re.findall(r">([^<>]+)<", page.content.decode())}
        for name, page in pages.items()
    }
    assert {"Übersicht", "Warteschlangen", "Zeitleiste"} <= set().union(*seen.values())
    assert {name: found for name, words in seen.items() if (found := words & english)} == {}


def begun(text):
    """As it stands at the beginning of a label."""
    text = text.strip()
    return text[:1].upper() + text[1:]
