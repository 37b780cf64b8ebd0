"""The commands that run servers, ``serve``, ``broker`` and ``nameserver``, and what a process of servers needs.

Open ``run`` first: reactor, start, ready line, signals, stop, exit code. Not here: what the servers do.
"""
