"""The pytest plugin, in test runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = "django_claimq.testing.pytest_plugin"
# Where the package was installed before it had the entry point.
LOADED = [] if entry_points(group="pytest11", name="claimq") else ["-p", PLUGIN]

SETTINGS = """
    import django
    SECRET_KEY = "x"
    USE_TZ = True
    INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_claimq"]
    if django.VERSION < (6, 0):
        INSTALLED_APPS.append("django_tasks")
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    TASKS = {"default": {"BACKEND": "django_claimq.backend.ClaimqBackend"}}
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""
SHOP = """
    from django.contrib.auth.models import Group
    from django_claimq import task

    @task
    def create_group(name):
        return Group.objects.create(name=name).name
"""


def run_pytest(folder, *options, settings="", **files):
    """Run pytest in a folder that has these modules; return its output."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTEST_", "DATABASE_"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT)])
    if settings:
        environment["DJANGO_SETTINGS_MODULE"] = settings
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(
        [*command, *LOADED, "--strict-markers", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_the_package_names_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"claimq": PLUGIN}


def test_the_fixture_has_the_helpers_and_the_marker_swaps_the_backend(tmp_path):
    tests = """
        import pytest
        from django.test import TestCase
        from django_claimq.compat import task_backends
        from shop import create_group

        pytestmark = pytest.mark.django_db

        def test_helpers(claimq):
            create_group.enqueue("a")
            assert claimq.assert_enqueued(create_group).args == ["a"]
            claimq.refute_enqueued(create_group, args=["b"])
            assert len(claimq.run_jobs()) == 1

        @pytest.mark.claimq("immediate")
        def test_immediate():
            assert create_group.enqueue("a").return_value == "a"

        @pytest.mark.claimq("dummy")
        class TestDummy:
            def test_dummy(self):
                create_group.enqueue("a")
                assert len(task_backends["default"].results) == 1

            def test_dummy_again(self):
                assert task_backends["default"].results == []

            @pytest.mark.claimq("immediate")
            def test_the_nearest_marker_counts(self):
                assert create_group.enqueue("a").is_finished

        @pytest.mark.claimq("immediate")
        class Tests(TestCase):
            def test_in_a_test_case(self):
                assert create_group.enqueue("a").is_finished

        def test_afterwards_all_is_as_it_was():
            assert not create_group.enqueue("a").is_finished
    """
    said = run_pytest(
        tmp_path, settings="shop_settings", shop_settings=SETTINGS, shop=SHOP, test_shop=tests
    )
    assert "7 passed" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["", '"eager"', '"dummy", "immediate"', 'backend="dummy"'])
def test_a_marker_that_says_nothing_known_is_an_error(tmp_path, arguments):
    tests = f"""
        import pytest

        @pytest.mark.claimq({arguments})
        def test_nothing(): ...
    """
    said = run_pytest(tmp_path, settings="shop_settings", shop_settings=SETTINGS, test_shop=tests)
    assert "1 error" in said, said
    assert '"immediate" or "dummy"' in said


def test_without_django_s_settings_it_does_nothing(tmp_path):
    tests = """
        def test_nothing_is_set_up():
            from django.conf import settings
            assert not settings.configured
    """
    said = run_pytest(tmp_path, "-p", "no:django", test_plain=tests)
    assert "1 passed" in said, said


@pytest.mark.parametrize("backend", ["ImmediateBackend", "DummyBackend"])
def test_a_backend_for_tests_can_be_made_while_the_apps_load(tmp_path, backend):
    settings = SETTINGS.replace("backend.ClaimqBackend", f"testing.{backend}")
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "__init__.py").write_text("import shop")
    early = settings.replace('["django.contrib', '["early", "django.contrib')
    tests = """
        from shop import create_group

        def test_it_is_there(db):
            assert create_group.enqueue("a").args == ["a"]
    """
    shop = """
        from django_claimq import task

        @task
        def create_group(name):
            return name
    """
    files = {"shop_settings": early, "shop": shop, "test_shop": tests}
    assert "1 passed" in run_pytest(tmp_path, settings="shop_settings", **files)


def test_the_marker_is_told_of(tmp_path):
    said = run_pytest(tmp_path, "--markers", "-p", "no:django")
    assert "@pytest.mark.claimq(backend)" in said
