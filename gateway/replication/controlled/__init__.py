"""The member of a controller: Apache RocketMQ's controller elects the master, and each broker of a name follows it.

    machine     what a member does next, from what it is told (pure)
    sync_set    the members that must have a message before its send is answered (pure)
    identity    the broker id in the directory

Nothing here elects, and nothing here sends the log.
"""
