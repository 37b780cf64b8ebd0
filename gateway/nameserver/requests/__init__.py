"""What brokers, clients and tools ask a name server, one file a kind; each class registers its methods on a
dispatch and turns headers and bodies into calls of the route table or the key-value configuration.
"""
