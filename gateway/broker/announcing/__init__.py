"""The announcements of a broker: the addresses that it names, and its registration with name servers.

``gateway.nameserver`` keeps the routes. Open ``registration`` first.
"""
