"""The slave: what a broker does while its messages and tables are those of a master.

    receiver    the connection to the master, made again and again
    beginning   the comparison of both logs before it, and where an empty log begins
    joining     when the two logs are compared
    line        the connection, whose bytes talk knows
    intake      what arrives, on its way into the log
    refusals    which requests are refused, and how
    rounds      how the tables of the master are copied; pages puts their pages together

What is received from a master is stored by ``gateway.store``. Nothing here decides who is the master.
"""
