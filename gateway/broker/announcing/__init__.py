"""What a broker says of itself: the addresses that it names, and its registration at name servers.

Routes are kept by ``gateway.nameserver``. Begin with ``registration``.
"""
