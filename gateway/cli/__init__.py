"""The command ``rocketmq-gateway``: its subcommands, joined by ``main``.

    serving   the commands that run servers      clients   the commands that are clients of a cluster
    store, migrate_transactions   a directory that nobody serves      transactions   half messages of a running broker

Commands read settings, start servers and print; the work of a server is elsewhere. Only ``serving.run`` touches
Twisted, and only if a server runs: ``version`` and ``--help`` must answer at once.
"""
