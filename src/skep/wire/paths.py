"""The paths of the API, once for both ends: templates for the server's routes, and functions that
fill them for clients."""

from urllib.parse import quote
from uuid import UUID

DEFAULT_URL = "http://127.0.0.1:6632"
"""The address of a server with default settings."""
API = "/api/v1"
STREAMS = "/streams/v1"

# Messages

PUSH = API + "/push"
POP = API + "/pop"
POP_QUEUE = POP + "/queue/{queue}"
POP_PARTITION = POP_QUEUE + "/partition/{partition}"
ACK = API + "/ack"
ACK_BATCH = ACK + "/batch"
SETTLE = API + "/lease/{leaseId}/settle"
EXTEND = API + "/lease/{leaseId}/extend"
TRANSACTION = API + "/transaction"
MESSAGES = API + "/messages"
MESSAGE = MESSAGES + "/{partitionId}/{transactionId}"
RETRY_MESSAGE = MESSAGE + "/retry"
GIVE_UP_MESSAGE = MESSAGE + "/dlq"
DEAD_LETTERS = API + "/dlq"
QUEUE_DEAD_LETTERS = DEAD_LETTERS + "/{queue}"
DEAD_LETTER = QUEUE_DEAD_LETTERS + "/{number}"
REPLAY = QUEUE_DEAD_LETTERS + "/replay"
TRACES = API + "/traces"
TRACE_NAMES = TRACES + "/names"
TRACES_BY_NAME = TRACES + "/by-name/{name}"
TRACES_BY_ID = TRACES + "/id/{traceId}"
MESSAGE_TRACES = TRACES + "/{partitionId}/{transactionId}"
STREAM_QUERIES = STREAMS + "/queries"
STREAM_STATE = STREAMS + "/state/get"
STREAM_CYCLE = STREAMS + "/cycle"

# Administration

CONFIGURE = API + "/configure"
CLEAR = API + "/queues/{queue}/clear"
REMOVALS = API + "/queues/{queue}/removals"
GROUPS = API + "/consumer-groups"
LAGGING_GROUPS = GROUPS + "/lagging"
GROUP = GROUPS + "/{group}"
GROUP_SUBSCRIPTION = GROUP + "/subscription"
GROUP_IN_QUEUE = GROUP + "/queues/{queue}"
SEEK_QUEUE = GROUP_IN_QUEUE + "/seek"
SEEK_PARTITION = GROUP_IN_QUEUE + "/partitions/{partition}/seek"
PIPELINES = API + "/pipelines"
PIPELINE = PIPELINES + "/{id}"
MAINTENANCE = API + "/system/maintenance"
MAINTENANCE_OF_POPS = MAINTENANCE + "/pop"
SHARED_STATE = API + "/system/shared-state"
BACKUP = API + "/system/backup"

# Statistics

RESOURCES = API + "/resources"
OVERVIEW = RESOURCES + "/overview"
NAMESPACES = RESOURCES + "/namespaces"
TASKS = RESOURCES + "/tasks"
PARTITIONS = RESOURCES + "/partitions"
QUEUES = RESOURCES + "/queues"
QUEUE = QUEUES + "/{queue}"
QUEUE_DEPTH = QUEUE + "/depth"
STATUS = API + "/status"
STATUS_BUFFERS = STATUS + "/buffers"
STATUS_QUEUES = STATUS + "/queues"
STATUS_QUEUE = STATUS_QUEUES + "/{queue}"
STATUS_MESSAGES = STATUS_QUEUE + "/messages"
STATUS_ANALYTICS = STATUS + "/analytics"
REFRESH = API + "/stats/refresh"
ANALYTICS = API + "/analytics"
SYSTEM_METRICS = ANALYTICS + "/system-metrics"
WORKER_METRICS = ANALYTICS + "/worker-metrics"
POSTGRES_STATS = ANALYTICS + "/postgres-stats"
QUEUE_OPERATIONS = ANALYTICS + "/queue-ops"
QUEUE_LAG = ANALYTICS + "/queue-lag"
LATENCIES = ANALYTICS + "/latencies"
PARKED = ANALYTICS + "/queue-parked-replicas"
RETENTION = ANALYTICS + "/retention"

# Journal and sink

JOURNAL = API + "/journal"
JOURNAL_HEADS = JOURNAL + "/heads"
JOURNAL_READ = JOURNAL + "/read"
JOURNAL_GROUP = JOURNAL + "/groups/{group}"
JOURNAL_POSITION = JOURNAL_GROUP + "/position"
SINK_STAGE = JOURNAL + "/stage"
SINK_COMMIT = JOURNAL + "/commit"
SINK_ABORT = JOURNAL + "/abort"
SINK_APP = JOURNAL + "/apps/{app}"

# The server itself

HEALTH = "/health"
LIVE = HEALTH + "/live"
READY = HEALTH + "/ready"
METRICS = "/metrics"
PROMETHEUS = METRICS + "/prometheus"
OPENAPI = "/openapi.json"
DOCS = "/docs"
DOCS_STYLE = "/docs.css"


def segment(name: str) -> str:
    """A name as one segment of a path."""
    if name in (".", ".."):
        # Unquoted they would mean this segment and the one above.
        return name.replace(".", "%2E")
    return quote(name, safe="")


def fill(template: str, **values: object) -> str:
    """A template with its parameters replaced by quoted values."""
    return template.format(**{name: segment(str(value)) for name, value in values.items()})


def pop(queue: str | None, partition: str | None) -> str:
    if queue is None:
        return POP
    if partition is None:
        return fill(POP_QUEUE, queue=queue)
    return fill(POP_PARTITION, queue=queue, partition=partition)


def settle(lease_id: str) -> str:
    return SETTLE.format(leaseId=lease_id)


def extend(lease_id: str) -> str:
    return EXTEND.format(leaseId=lease_id)


def queue(name: str) -> str:
    return fill(QUEUE, queue=name)


def application(name: str) -> str:
    return fill(SINK_APP, app=name)


def journal_group(name: str) -> str:
    return fill(JOURNAL_GROUP, group=name)


def clear(queue: str) -> str:
    return fill(CLEAR, queue=queue)


def removals(queue: str) -> str:
    return fill(REMOVALS, queue=queue)


def group(name: str) -> str:
    return fill(GROUP, group=name)


def group_in_queue(name: str, queue: str) -> str:
    return fill(GROUP_IN_QUEUE, group=name, queue=queue)


def subscription(name: str) -> str:
    return fill(GROUP_SUBSCRIPTION, group=name)


def seek(name: str, queue: str, partition: str | None) -> str:
    if partition is None:
        return fill(SEEK_QUEUE, group=name, queue=queue)
    return fill(SEEK_PARTITION, group=name, queue=queue, partition=partition)


def message(partition_id: UUID, transaction_id: str) -> str:
    return fill(MESSAGE, partitionId=partition_id, transactionId=transaction_id)


def give_up(partition_id: UUID, transaction_id: str) -> str:
    return fill(GIVE_UP_MESSAGE, partitionId=partition_id, transactionId=transaction_id)


def dead_letters(queue: str) -> str:
    return fill(QUEUE_DEAD_LETTERS, queue=queue)


def dead_letter(queue: str, number: int) -> str:
    return fill(DEAD_LETTER, queue=queue, number=number)


def replay(queue: str) -> str:
    return fill(REPLAY, queue=queue)


def pipeline(identity: str) -> str:
    return fill(PIPELINE, id=identity)


def traced(trace_id: UUID) -> str:
    return fill(TRACES_BY_ID, traceId=trace_id)


def trace_events(partition_id: UUID, transaction_id: str) -> str:
    return fill(MESSAGE_TRACES, partitionId=partition_id, transactionId=transaction_id)


def named_events(name: str) -> str:
    return fill(TRACES_BY_NAME, name=name)
