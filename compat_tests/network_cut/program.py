"""The clients at the far end: they work until a line comes on standard input, then tell what they saw.

    python -m compat_tests.network_cut.program --namesrv HOST:PORT --per-second 50

Once a second a line of JSON goes to standard output; ``sent`` and ``received`` count up.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
from collections.abc import Sequence

from compat_tests.python_client_soak.account import Account
from compat_tests.python_client_soak.clients import READERS, Clients

_DRAIN_S = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the clients."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--per-second", type=float, required=True)
    options = parser.parse_args(arguments)
    accounts = {topic: Account(topic, readers) for topic, readers in READERS.items()}
    clients = Clients(options.namesrv, accounts, options.per_second)
    clients.start()
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        _tell(accounts, clients)
    clients.stop_sending()
    clients.drain(_DRAIN_S)
    clients.stop()
    for account in accounts.values():
        account.close()
    _tell(accounts, clients)


def _tell(accounts: dict[str, Account], clients: Clients) -> None:
    streams = {
        topic: {
            "sent": account.sent,
            "failed": account.failed,
            "received": dict(account.received),
            "lost": account.lost.total(),
            "doubled": account.doubled.total(),
            "flipped": account.flipped.total(),
        }
        for topic, account in accounts.items()
    }
    more = {"slowest_s": clients.slowest_s, "errors": clients.failures, "left_out": clients.left_out}
    print(json.dumps({"streams": streams, **more}), flush=True)


if __name__ == "__main__":
    main()
