"""The things that the parts of a store share: its files and its state, each as one value."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.store.admission import Admission
from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.store_lock import StoreLock
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.figures import StoreFigures, StoreProgress
from gateway.store.index.index import KeyIndex
from gateway.store.log.commit_log import CommitLog
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.deleted_topics import DeletedTopics


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The files of one store, by kind: each kind has one object that reads and writes it."""

    layer: FileLayer
    """The layer through which every access to the disk goes."""
    paths: StorePaths
    lock: StoreLock
    log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex
    checkpoint: CheckpointFile
    deleted_topics: DeletedTopics


@dataclass(frozen=True, slots=True)
class StoreState:
    """The progress of one store, whether it takes messages, and its metrics."""

    progress: StoreProgress
    admission: Admission
    figures: StoreFigures
