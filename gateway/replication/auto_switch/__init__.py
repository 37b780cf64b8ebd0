"""The protocol between members of a group with a controller, which decides who is the master (AutoSwitch).

    group          what a member of the controller gives to its side of replication
    master_side    the group as the master's role sees it; slave_side as the slave's does
    kept_epochs    the epochs in memory and on disk
    slave_talk     the bytes on a connection, for the master; master_talk has the same for the slave
    counting       which copies a sender waits for
    joining        what a slave does before its first byte: it goes on, or asks for a cut
    common_end     up to where two logs are equal, found by their records
    confirmed      what a slave shows

Connections, sending and receiving are those of ``master`` and ``slave``. Nothing here elects or talks to a controller.
"""
