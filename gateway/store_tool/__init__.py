"""Work on a store directory that no server has open: look, verify, repair, dump, move to and from Apache RocketMQ.

    files      the files of a store, who has it open, copies      records    many records at a time, in columns
    checks     what is wrong, where, and what would fix it        repair     the plan, and carrying it out
    look       an overview, messages as lines of JSON             transfer   to and from Apache RocketMQ
    progress   how far a long walk is                             errors     why a command cannot run

Reading never changes a directory. Only ``repair --apply``, the target of ``export`` and that of ``import`` are written.
Not here: serving, and what a server does itself when it opens a store (``gateway.store``).
"""
