"""Everything public is documented."""

import re
from dataclasses import fields

import httpx
import pytest

import skep
from skep import errors
from skep.client.resources.async_dead_letters import AsyncDeadLettersResource
from skep.client.resources.async_groups import AsyncGroupsResource
from skep.client.resources.async_maintenance import AsyncMaintenanceResource
from skep.client.resources.async_messages import AsyncMessagesResource
from skep.client.resources.async_pipelines import AsyncPipelinesResource
from skep.client.resources.async_queues import AsyncQueuesResource
from skep.client.resources.async_traces import AsyncTracesResource
from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.group import Groups
from skep.core.admin.message import Messages
from skep.core.admin.pipeline_run import Pipelines
from skep.core.admin.queue import Queues
from skep.core.admin.trace import Traces
from skep.model.queue import QueueOptions
from skep.settings import Settings
from tests.docs.pages import DOCS, PAGES, ROOT
from tests.support.server_process import ServerProcess

TEXT = "\n".join(page.read_text() for page in PAGES)
SOURCE = "\n".join(
    path.read_text() for path in sorted(ROOT.glob("src/**/*")) if path.suffix in (".py", ".sql")
)


def reference(name: str) -> str:
    return (DOCS / "reference" / f"{name}.md").read_text()


@pytest.mark.parametrize("option", QueueOptions.__struct_fields__)
def test_every_option_of_a_queue_is_explained(option: str) -> None:
    assert f"`{option}`" in reference("queue-options")


@pytest.mark.parametrize(
    "name", sorted(name for name, value in vars(errors).items() if isinstance(value, type))
)
def test_every_error_is_explained(name: str) -> None:
    if name != "SkepError":
        assert f"`{name}`" in reference("errors")


@pytest.mark.parametrize("field", [field.name for field in fields(Settings)])
def test_every_setting_is_explained(field: str) -> None:
    assert f"`SKEP_{field.upper()}`" in reference("settings")


@pytest.mark.parametrize("name", skep.__all__)
def test_every_public_name_is_in_the_python_reference(name: str) -> None:
    if name != "errors":
        assert f"::: skep.{name}\n" in reference("python")


def test_every_metric_is_explained() -> None:
    page = reference("metrics")

    with ServerProcess("memory://") as server, skep.Client(server.url) as client:
        client.push("orders", [skep.Draft(b"1")])
        client.pop("orders", auto_ack=True)
        exposed = httpx.get(f"{server.url}/metrics/prometheus").text

    names = set(re.findall(r"^# TYPE (skep_\w+)", exposed, re.MULTILINE))
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_gauge_of_the_store_is_explained() -> None:
    gauges = re.findall(r'Gauge\(\s*"(\w+)"', SOURCE)

    assert gauges
    assert [name for name in gauges if f"`skep_{name}`" not in reference("metrics")] == []


def test_every_log_line_in_the_troubleshooting_guide_is_logged() -> None:
    page = (DOCS / "how-to/troubleshooting.md").read_text()
    # Literals that are continued on the next line are one text.
    source = re.sub(r'"\s*\n\s*f?"', "", SOURCE)
    rows = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)

    missing = [
        row
        for row in rows
        if not all(part.strip() in source for part in row.split("…") if part.strip(" :;"))
    ]

    assert len(rows) > 40
    assert missing == []


def test_every_code_name_in_the_glossary_exists() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}

    missing = {
        name
        for name in names
        if not (ROOT / "src/skep" / name).exists()
        and any(part not in SOURCE for part in re.findall(r"\w+", name))
    }

    assert missing == set()


@pytest.mark.parametrize(
    "part",
    [
        skep.AsyncClient,
        skep.AsyncConsumer,
        skep.AsyncWorker,
        skep.Worker,
        skep.AsyncProducer,
        AsyncDeadLettersResource,
        AsyncGroupsResource,
        AsyncMaintenanceResource,
        AsyncMessagesResource,
        AsyncPipelinesResource,
        AsyncQueuesResource,
        AsyncTracesResource,
        skep.Broker,
        skep.Client,
        skep.Consumer,
        DeadLetters,
        Groups,
        Messages,
        Pipelines,
        Queues,
        Traces,
    ],
)
def test_every_public_method_has_a_docstring(part: type) -> None:
    public = [
        name for name in vars(part) if not name.startswith("_") and callable(getattr(part, name))
    ]

    undocumented = [name for name in public if not getattr(part, name).__doc__]

    assert undocumented == []
