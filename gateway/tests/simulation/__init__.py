"""Deterministic simulation: brokers that replicate, their clocks, network and disks in one thread, from one seed.

    world        the order of everything that happens: events, and time that passes only between them
    network      connections and calls between machines: delays, losses, partitions, pieces
    machine      a disk with power failures, and a clock that may jump
    process      one life of a whole broker on a machine: its parts, requests, role, jobs and threads
    names        the name servers
    chance       what brokers draw and read for themselves, from the seed
    ledger       what was promised; every broken promise raises ``Violation``
    clients      steps of producers and consumers
    operator     steps of people: promotion, return of an old master, an emptied disk
    faults       steps of machines, networks and strangers
    history      all of it together: a number of steps, then everything heals and is compared
    campaign     many seeds in several processes
    popping      histories in which a group pops besides
    controlled   histories in which a controller decides who is the master
    planted      bugs that must be found

``python -m gateway.tests.simulation`` plays as many seeds as asked.
"""
