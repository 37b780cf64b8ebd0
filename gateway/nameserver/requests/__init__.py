"""The requests of brokers, clients and tools to a name server, one file for each kind.

Each class registers its methods on a dispatch, and turns headers and bodies into calls of the route table or of the
key-value configuration.
"""
