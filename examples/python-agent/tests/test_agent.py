"""Tests of the agent: it answers, and it keeps the protocol."""
import pytest


def test_it_repeats_what_it_is_told(acp_agent):
    turn = acp_agent.prompt("good morning")
    assert turn.stop_reason == "end_turn"
    assert turn.text.strip() == "You said: good morning"
    turn.assert_clean()


def test_it_keeps_the_protocol(assert_conformant):
    # Without `tests` the whole suite runs.
    assert_conformant(tests=["init.agent-info", "init.version-echo", "prompt.stop-reason"])


def test_the_suite_sees_the_faults_of_the_other_agent(assert_conformant):
    with pytest.raises(AssertionError, match="init.version-echo"):
        assert_conformant("python3 faulty_agent.py", tests=["init.version-echo"])
