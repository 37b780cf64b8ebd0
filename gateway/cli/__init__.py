"""The command ``rocketmq-gateway``: one file per subcommand, ``main`` joins them.

    serving   the commands that run servers      clients   the commands that are clients of a cluster
    store, migrate_transactions   a directory that nobody serves      transactions   half messages of a running broker

Commands read settings, start servers and print; what a server does is elsewhere. Only ``serving.run`` touches
Twisted, and only when something is served: ``version`` and ``--help`` must answer at once.
"""
