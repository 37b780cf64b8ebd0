"""The role that an operator ordered, kept in the directory so that it holds after a restart.

The file ``gateway-role`` has the ordered role and the role of the configuration at that time. As long as the
configuration stays as it was, the order holds. When the configuration says what was ordered, the file has done its work
and is removed. Any other change of the configuration contradicts the order: two brokers could be masters, so the start
is refused (docs/decisions/0031).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from gateway.errors import SettingsError
from gateway.metadata.saved.config_disk import ConfigDisk, replace_file
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole

FILE_NAME = "gateway-role"
"""The name of the file. Never change: it is on disk."""
MAX_FILE_BYTES = 1_024


class RoleAndId(NamedTuple):
    """A role and the broker's id in it."""

    role: BrokerRole
    broker_id: int

    def __str__(self) -> str:
        return f"brokerRole={self.role.value} brokerId={self.broker_id}"


class _Kept(msgspec.Struct, rename="camel"):
    broker_role: BrokerRole
    broker_id: int
    configured_role: BrokerRole
    configured_id: int


def role_of(settings: Settings) -> RoleAndId:
    """Return the role in the settings."""
    return RoleAndId(settings.broker_role, settings.broker_id)


def keep_role(settings: Settings, role: BrokerRole, broker_id: int, disk: ConfigDisk | None = None) -> None:
    """Write the ordered role to the disk; blocks.

    :param settings: the settings of the broker that stopped, with the role that it had.
    :raises OSError: the file cannot be written.
    """
    disk = ConfigDisk() if disk is None else disk
    root = settings.store_path_root_dir
    path, before = root / FILE_NAME, _read(root)
    configured = role_of(settings) if before is None else RoleAndId(before.configured_role, before.configured_id)
    replace_file(disk, path, msgspec.json.encode(_Kept(role, broker_id, *configured)) + b"\n")


def ordered_role(settings: Settings) -> RoleAndId | None:
    """Return the role that was ordered, None if the configuration decides.

    :raises SettingsError: the file cannot be read, or the configuration contradicts it.
    """
    root = settings.store_path_root_dir
    kept = _read(root)
    if kept is None:
        return None
    now, ordered = role_of(settings), RoleAndId(kept.broker_role, kept.broker_id)
    configured = RoleAndId(kept.configured_role, kept.configured_id)
    if now == ordered:
        (root / FILE_NAME).unlink(missing_ok=True)
        return None
    if now != configured:
        raise SettingsError(
            f"the configuration has {now}, but {root / FILE_NAME} says that {ordered} was ordered while it had "
            f"{configured}: make sure which broker is the master, then set {ordered}, or remove the file"
        )
    return ordered


def _read(root: Path) -> _Kept | None:
    path = root / FILE_NAME
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_FILE_BYTES), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise SettingsError(
            f"{path} cannot be read ({error}): it says whether this broker is master or slave; find out which broker "
            "is the master, set brokerRole and brokerId, and remove the file"
        ) from error
