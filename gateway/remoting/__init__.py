"""Connections: the commands of the wire package on Twisted transports, in both directions.

A *channel* is an open connection, and a *request* is a command that came in over a channel. *Dispatch* finds the method
that answers a request code. A channel also carries our own calls to the peer; *pending* pairs answers with calls.
Nothing in this package knows what a request means. Open ``channel.py`` first.
"""
