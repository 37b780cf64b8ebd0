"""The command ``rocketmq-gateway``: its subcommands, joined by ``main``.

    serving                       commands that run servers
    clients                       commands that connect to a cluster as clients
    store, migrate_transactions   commands for the directory of a stopped server
    transactions                  commands for the half messages of a running broker

Commands read settings, start servers and print; the work of a server is in other packages. Only ``serving.run`` imports
Twisted, and only to run a server, because ``version`` and ``--help`` must answer at once.
"""
