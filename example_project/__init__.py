"""A Django project that uses django-claimq: a census of Python code."""
