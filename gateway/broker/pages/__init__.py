"""Pages over HTTP: a few texts for GET and HEAD on a port of their own, for monitors and load balancers.

Here live the reading of requests (``head``), one connection (``connection``), the port with its limits (``port``) and
the page of the figures (``figures``). What the pages say is not decided here. Begin with ``port``.
"""
