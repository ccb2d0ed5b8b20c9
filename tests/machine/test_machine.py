"""The broker against a model of it, rule by rule, on every store.

``SKEP_EXAMPLES=2000 pytest tests/machine`` looks longer, and somewhere else each time. With
``SKEP_SHRINK=no`` a difference is reported as it was found, at once.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.consume_rules import ConsumingMachine
from tests.machine.crash_rules import CrashingMachine
from tests.machine.postgres_rules import PostgresMachine

EXAMPLES = int(os.environ.get("SKEP_EXAMPLES", "0"))
SHRINK = os.environ.get("SKEP_SHRINK") != "no"


def _settings(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
        report_multiple_bugs=SHRINK,
        suppress_health_check=list(HealthCheck),
    )


def test_the_broker_in_memory_does_what_the_model_does() -> None:
    run_state_machine_as_test(ConsumingMachine, settings=_settings(200))


def test_the_broker_on_disk_does_what_the_model_does_through_crashes() -> None:
    run_state_machine_as_test(CrashingMachine, settings=_settings(50))


@pytest.mark.postgres
def test_the_broker_on_a_server_does_what_the_model_does_through_lost_connections() -> None:
    run_state_machine_as_test(PostgresMachine, settings=_settings(25))
