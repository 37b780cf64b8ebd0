"""The slave: what a broker does while its messages and tables are those of a master.

    refusals    which requests are refused instead, and how

What is received from a master is stored by ``gateway.store``. Nothing here decides who is the master.
"""
