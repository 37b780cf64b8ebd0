"""The command ``rocketmq-gateway``: one file per subcommand, ``main`` joins them.

Commands read settings, start servers and print; what a server does is elsewhere. Only ``run`` touches
Twisted, and only when something is served: ``version`` and ``--help`` must answer at once.
"""
