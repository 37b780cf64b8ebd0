"""The state of a replica for the gateway's own command line; Apache RocketMQ has nothing like it."""

from __future__ import annotations

from wire.bodies.declare import Body


class ReplicaState(Body, kw_only=True):
    """The role of a broker, and how far its log reaches.

    ``durable_end`` is where the log ends on disk, ``visible_end`` where it ends for consumers. A slave knows where the
    master's log ended when it said so last (``master_log_end``), how long ago that was (``master_log_end_age_ms``), and
    how long ago all tables were copied (``tables_age_ms``). ``master_role`` is the role that the master named last,
    empty if it named none. ``changes`` counts changes of the role since the start, also those that failed. Another
    ``process`` means that the broker was restarted.
    """

    broker_name: str
    cluster: str = ""
    role: str = ""
    broker_id: int = 0
    log_begin: int = 0
    log_end: int = 0
    durable_end: int = 0
    visible_end: int = 0
    is_changing: bool = False
    changes: int = 0
    master: str = ""
    master_log_end: int = -1
    tables_age_ms: int | None = None
    master_log_end_age_ms: int | None = None
    master_role: str = ""
    process: str = ""
