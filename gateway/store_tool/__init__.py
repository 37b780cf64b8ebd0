"""Work on a store directory that no server has open: look, verify, repair, dump, move to and from Apache RocketMQ.

    directory      the files of a store and who has it open         progress       how far a long walk is
    findings       what is wrong, where, and what would fix it      log_walk       the commit log, as fast as it goes
    *_check        one kind of file against the log                 verification   all of it, in several processes
    record_rows    records in bulk: record_shape, unit_columns    index_part     an index file; its index_chains
    sparse_map     a file as memory, without filling its holes     named_queue    what a person named, or meant
    inspection  repair_plan  repair  dump  transfer                 one command each

Reading never changes a directory. Only ``repair --apply``, the target of ``export`` and that of ``import`` are written.
Not here: serving, and what a server does itself when it opens a store (``gateway.store``).
"""
