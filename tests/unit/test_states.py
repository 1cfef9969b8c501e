from django_claimq.states import FINISHED, UNCLAIMED, State


def test_a_state_is_unclaimed_running_or_finished():
    assert {*UNCLAIMED, State.RUNNING, *FINISHED} == set(State)
    assert len(UNCLAIMED) + 1 + len(FINISHED) == len(State)


def test_the_states_are_those_of_the_contract():
    assert set(State.values) == {
        "SCHEDULED",
        "READY",
        "RUNNING",
        "SUCCESSFUL",
        "FAILED",
        "CANCELLED",
        "WAITING",
    }


def test_each_has_a_name_for_people():
    assert [str(state.label) for state in State] == [state.value.capitalize() for state in State]
