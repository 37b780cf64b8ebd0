"""The network between the Python clients and the gateway is cut for a while, in a network namespace; needs root.

    python -m compat_tests.network_cut --seconds 60

``cable`` is the network, ``program`` the clients on its far end (those of ``python_client_soak``), ``command`` cuts.
"""
