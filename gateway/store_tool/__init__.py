"""Work on a store directory that no server has open: look, verify, repair, dump, move to and from Apache RocketMQ.

    files      the files of a store, who has it open, copies      checks     what is wrong, where, and what would fix it
    look       an overview, messages as lines of JSON             repair     the plan, and carrying it out
    progress   how far a long walk is                             transfer   to and from Apache RocketMQ
    errors     why a command cannot run

Reading never changes a directory. Only ``repair --apply`` and the targets of ``export`` and ``import`` are written. Not
here: serving, and what a server does itself when it opens a store (``gateway.store``).
"""
