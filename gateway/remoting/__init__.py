"""Connections: the wire package's commands on Twisted transports, in both directions.

A *channel* is one open connection, a *request* one command that came in over it, *dispatch* finds the method
that answers a request code. The same channel carries our own calls to the other side; *pending* pairs their
answers. Nothing here knows what a request means.
"""
