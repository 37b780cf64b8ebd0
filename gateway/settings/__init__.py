"""Every setting of the gateway, declared once: key, type, default, unit, range and one sentence.

The groups (``broker``, ``store``, ``transaction``, ``name_server``, ``remoting``, ``timer``, ``pop``, ``lite``,
``tls``) are frozen dataclasses. ``tree.Settings`` has the attributes of all groups, so a part may ask for the group
that it needs and get all settings. ``files.load`` reads settings from files, environment and command line. The command
``config`` and the documentation are generated from the same declarations. No code here starts or opens anything.

The types are re-exported because nearly every part of the gateway takes one of them.
"""

from gateway.settings.addresses import Address as Address
from gateway.settings.addresses import Advertised as Advertised
from gateway.settings.broker import BrokerSettings as BrokerSettings
from gateway.settings.name_server import NameServerSettings as NameServerSettings
from gateway.settings.remoting import RemotingSettings as RemotingSettings
from gateway.settings.store import FlushDiskType as FlushDiskType
from gateway.settings.store import StoreSettings as StoreSettings
from gateway.settings.transaction import BrokerTransactionSettings as BrokerTransactionSettings
from gateway.settings.tree import LogLevel as LogLevel
from gateway.settings.tree import Settings as Settings
