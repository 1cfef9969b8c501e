"""Sphinx configuration. Warnings fail the build (`sphinx-build -W` in tox.ini)."""

import os
import sys
from pathlib import Path

import django
from docutils import nodes

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()  # autodoc imports the models

import django_claimq  # noqa: E402

project = "django-claimq"
author = "the django-claimq contributors"
copyright = author
release = version = django_claimq.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"django-claimq {release}"


def setup(app):
    app.connect("doctree-read", trim)


def trim(app, doctree):
    """Drop the empty lines between a piece of included code and the marker behind it."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = text = block.astext().rstrip("\n")
        block[:] = [nodes.Text(text)]
