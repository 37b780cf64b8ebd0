"""The broker's name from the data directory, used if nobody set ``brokerName``."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import GatewayError
from gateway.metadata.saved.broker_name import KeptName, kept_name
from gateway.settings.files.load import Loaded

KEY = "brokerName"


def with_kept_name(loaded: Loaded) -> Loaded:
    """Return the settings with the name under which the directory was served.

    ``brokerName`` takes precedence, with a notice if the names differ.

    :raises GatewayError: the directory has an unreadable name, and ``brokerName`` is not set.
    """
    settings = loaded.settings
    if KEY in loaded.sources:
        kept = _readable(loaded)
        if kept is None or kept.name == settings.broker_name:
            return loaded
        return replace(loaded, notices=(*loaded.notices, _renamed(loaded, kept)))
    kept = kept_name(settings.store_path_root_dir)
    if kept is None:
        return loaded
    remarks = () if kept.name == settings.broker_name else (goes_on_as(kept, settings.broker_name),)
    return replace(
        loaded,
        settings=replace(settings, broker_name=kept.name),
        sources={**loaded.sources, KEY: str(kept.path)},
        remarks=(*loaded.remarks, *remarks),
    )


def goes_on_as(kept: KeptName, otherwise: str) -> str:
    """Return a sentence about a broker whose name differs from the name that its machine would give it."""
    return (
        f"the broker is called {kept.name}, as {kept.path} has it, and not {otherwise} after this machine; a copy of "
        "the directory that runs beside the original needs a brokerName of its own"
    )


def _renamed(loaded: Loaded, kept: KeptName) -> str:
    return (
        f"{KEY}={loaded.settings.broker_name} ({loaded.sources[KEY]}): {loaded.settings.store_path_root_dir} was "
        f"served as {kept.name} so far ({kept.path}), and what names that broker no longer fits: offsets that "
        f"consumers keep themselves, checkpoints of Spark, receipts, traces; set {KEY}={kept.name} to go on as before"
    )


def _readable(loaded: Loaded) -> KeptName | None:
    try:
        return kept_name(loaded.settings.store_path_root_dir)
    except GatewayError:  # the name that is set is written down in its place
        return None
