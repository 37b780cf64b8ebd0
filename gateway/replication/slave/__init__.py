"""The slave: what a broker does while its messages and tables are those of a master.

    refusals    which requests are refused, and how
    rounds      how the tables of the master are copied; pages puts their pages together

What is received from a master is stored by ``gateway.store``. Nothing here decides who is the master.
"""
