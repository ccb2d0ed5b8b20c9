"""The package: found by Spark, imported anywhere, and sent by value where it is not installed."""

import ast
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from struct import unpack
from typing import Any, cast
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.worker import lookup_data_sources

import pyspark_skep
from pyspark_skep import DefaultSource
from pyspark_skep.options import Options
from pyspark_skep.plan import plan_splits
from pyspark_skep.position import LaneSlice
from skep import Client
from tests.spark.conftest import Push

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pyspark_skep.__file__).parent
OPTIONS = {"url": "http://127.0.0.1:1", "queue": "orders"}


def dumps(value: object) -> bytes:
    return cast(bytes, cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def registered() -> bytes:
    """Return what ``register`` sends."""
    sent: list[bytes] = []

    class Session:
        class dataSource:  # noqa: N801
            @staticmethod
            def register(source: object) -> None:
                sent.append(dumps(source))

    pyspark_skep.register(cast(SparkSession, Session))
    return sent[0]


def run(program: str, content: bytes = b"") -> str:
    """Run a program in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], input=content, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode()


# Importing.


def test_spark_finds_the_source_by_the_name_of_the_package() -> None:
    out = io.BytesIO()

    lookup_data_sources._main(io.BytesIO(), out)

    count, length = unpack(">ii", out.getvalue()[:8])
    assert (count, out.getvalue()[8 : 8 + length]) == (1, b"skep")
    assert cloudpickle.loads(out.getvalue()[12 + length :]) is DefaultSource


def test_an_older_spark_can_look_for_sources() -> None:
    said = run(
        "import pyspark.sql.datasource as d; del d.DataSourceStreamArrowWriter\n"
        "import sys; sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "import pyspark_skep; source = pyspark_skep.DefaultSource({})\n"
        "try: source.streamWriter(source.schema(), False)\n"
        "except RuntimeError as error: print(error)\n"
    )

    assert "Spark 4.1" in said


def test_spark_can_look_for_sources_where_arrow_is_missing() -> None:
    said = run(
        "import sys; sys.modules['pyarrow'] = None; import pyspark_skep as p\n"
        "try: p.DefaultSource({}).schema()\n"
        "except RuntimeError as error: print(error)\n"
    )

    assert "pip install pyarrow" in said


def test_the_wheel_contains_the_package(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])

    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("pyspark_skep")}
    modules = {f"pyspark_skep/{file.name}" for file in PACKAGE.glob("*.py")}
    assert found == modules | {"pyspark_skep/py.typed"}


def types_of(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                yield name


def test_no_public_type_has_the_name_of_one_in_skep() -> None:
    ours = {name for file in PACKAGE.glob("*.py") for name in types_of(file)}
    theirs = {name for file in (ROOT / "src/skep").rglob("*.py") for name in types_of(file)}

    assert "LaneSlice" in ours
    assert ours & theirs == set()


# Pickling.


def test_a_plan_is_pickled_by_reference_and_small() -> None:
    source = DefaultSource(OPTIONS)
    schema = source.schema()
    splits = plan_splits([LaneSlice("orders", 1, 0, 0, 4_000_000)], Options())

    assert len(splits) == 16
    assert len(dumps(source.reader(schema))) < 1500
    assert len(dumps(source.streamReader(schema))) < 1500
    assert len(dumps(splits)) < 1500


def test_by_value_the_source_is_not_larger_than_its_code() -> None:
    code = sum(len(file.read_bytes()) for file in PACKAGE.glob("*.py"))

    assert len(registered()) < 3 * code


def test_no_function_imports_from_the_package() -> None:
    """Sent by value, it would fail where the package is not installed."""
    imports = re.compile(r"^[ ]+(from|import) pyspark_skep", re.MULTILINE)

    assert [file.name for file in PACKAGE.glob("*.py") if imports.search(file.read_text())] == []


def test_where_it_is_not_installed_it_comes_by_value() -> None:
    program = (
        "import sys; sys.modules['pyspark_skep'] = None\n"
        "from pyspark import cloudpickle\n"
        "source = cloudpickle.loads(sys.stdin.buffer.read())({'queue': 'a'})\n"
        "schema = source.schema()\n"
        "made = [source.reader(schema), source.streamReader(schema)]\n"
        "made += [source.writer(schema, False), source.streamWriter(schema, False)]\n"
        "view = type(source)({'view': 'stats'})\n"
        "made += [view.reader(view.schema())]\n"
        "for each in made: cloudpickle.loads(cloudpickle.dumps(each))\n"
        "print([name for name in sys.modules if name.startswith('pyspark_skep')])\n"
    )

    assert run(program, registered()) == "['pyspark_skep']\n"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package under a name that only this process can import, and no worker of Spark."""
    name = "skep_from_elsewhere"
    (tmp_path / name).mkdir()
    for file in PACKAGE.glob("*.py"):
        (tmp_path / name / file.name).write_text(file.read_text().replace("pyspark_skep", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module(name)
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]


@pytest.mark.xdist_group("spark")
def test_workers_without_the_package_read_write_and_stream(
    spark: SparkSession,
    url: str,
    queue: str,
    push: Push,
    client: Client,
    checkpoint: str,
    elsewhere: Any,
) -> None:
    push(5)
    for name in ("few", "copy"):
        client.queues.configure(f"{queue}-{name}")
    other = spark.newSession()

    elsewhere.register(other)

    options = {"url": url, "queue": queue, "startingOffsets": "earliest"}
    messages = other.read.format("skep").options(**options).load()
    assert messages.count() == 5
    assert other.read.format("skep").options(url=url, queue=queue, view="stats").load().count() == 1
    few = messages.limit(2).write.format("skep").mode("append")
    few.options(url=url, queue=f"{queue}-few").save()
    assert client.queues.stats(f"{queue}-few").messages == 2
    stream = other.readStream.format("skep").options(**options).load()
    writer = stream.writeStream.format("skep").options(url=url, queue=f"{queue}-copy")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert client.queues.stats(f"{queue}-copy").messages == 5
