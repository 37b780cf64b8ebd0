"""The broker's role from the data directory, if an operator ordered one with ``rocketmq-gateway failover``."""

from __future__ import annotations

from dataclasses import replace

from gateway.broker.kept_role import FILE_NAME, ordered_role, role_of
from gateway.settings.files.load import Loaded


def with_ordered_role(loaded: Loaded) -> Loaded:
    """Return the settings with the role that was ordered.

    :raises GatewayError: the order cannot be read, or the configuration contradicts it.
    """
    settings = loaded.settings
    ordered = ordered_role(settings)
    if ordered is None:
        return loaded
    path = settings.store_path_root_dir / FILE_NAME
    notice = f"the broker starts with {ordered}, which was ordered ({path}), and not with {role_of(settings)}"
    return replace(
        loaded,
        settings=replace(settings, broker_role=ordered.role, broker_id=ordered.broker_id),
        sources={**loaded.sources, "brokerRole": str(path), "brokerId": str(path)},
        notices=(*loaded.notices, notice),
    )
