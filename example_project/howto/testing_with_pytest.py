import pytest
from django.contrib.auth.models import User

from example_project.howto.testing import register, welcome


@pytest.mark.django_db
def test_a_new_user_is_welcomed(claimq):
    user = register("ann")
    claimq.assert_enqueued(welcome, args=["ann"])
    claimq.run_jobs()
    assert user.groups.filter(name="welcomed").exists()


@pytest.mark.django_db
@pytest.mark.claimq("immediate")
def test_the_result_is_there_at_once():
    User.objects.create(username="ann")
    assert welcome.enqueue("ann").return_value == "Welcome, ann"
