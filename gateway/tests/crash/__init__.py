"""Crash enumeration: every state a crash may leave on the disk is recovered, and nothing promised may be missing.

    disk.recording  a disk in memory that logs every change
    disk.image      what a crash may leave of a log of changes
    small_broker    the real store, transactions and tables on such a disk
    ledger          what was promised up to a moment of the log
    oracle          recovers an image and compares it with the ledger
    workload        what may be done to a broker: steps and how often each comes
    stage           one life of a broker on such a disk, and the facts that steps make
    steps           the steps themselves
    run             plays a workload on a stage, drawn from a seed
    exploration     all of it together: images of a workload, judged one after the other
    planted.mutants planted bugs, which must be found
    disk.state_databases, planted.state_mutants   the same for the state stores of transactions

``python -m gateway.tests.crash`` runs it for as many images as asked.
"""
