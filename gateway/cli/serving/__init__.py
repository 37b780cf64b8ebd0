"""The commands that run servers, ``serve``, ``broker`` and ``nameserver``, and the needs of a process with servers.

Open ``run`` first: reactor, start, ready line, signals, stop, exit code. The work of the servers is elsewhere.
"""
