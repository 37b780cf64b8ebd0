"""Every setting of the gateway, declared once: key, type, default, unit, range and one sentence.

The groups (``broker``, ``store``, ``transaction``, ``name_server``, ``remoting``, ``timer``, ``metrics``, ``pop``,
``lite``) are frozen dataclasses. ``tree.Settings`` has the attributes of all groups, so a part may ask for the group
that it needs and get all settings. ``files.load`` reads settings from files, environment and command line. The command
``config`` and the documentation are generated from the same declarations. No code here starts or opens anything.

The types are re-exported because nearly every part of the gateway takes one of them.
"""

from gateway.settings.addresses import Address, Advertised
from gateway.settings.broker import BrokerSettings
from gateway.settings.name_server import NameServerSettings
from gateway.settings.remoting import RemotingSettings
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.settings.transaction import BrokerTransactionSettings
from gateway.settings.tree import LogLevel, Settings

__all__ = [
    "Address",
    "Advertised",
    "BrokerSettings",
    "BrokerTransactionSettings",
    "FlushDiskType",
    "LogLevel",
    "NameServerSettings",
    "RemotingSettings",
    "Settings",
    "StoreSettings",
]
