"""Pages over HTTP: a few texts for GET and HEAD on a port of their own, for monitors and load balancers.

``head`` reads requests, and ``connection`` is one connection. ``port`` is the port with its limits. What the pages say
is not decided here. Open ``port`` first.
"""
