"""Faults for real: a master and its slave on two machines (network namespaces), under the load of stock Java clients.

    python -m compat_tests.replica_faults --pair ours-java --faults 200 --seed 1 --out var/ours-java.json
    python -m compat_tests.replica_faults --table var/ours-java.json var/java-java.json

A pair names master and slave: `ours` is the gateway, `java` Apache RocketMQ 5.5.0. ``plan`` draws from the seed which
fault comes when, ``play`` does it, ``pair`` has the two brokers and their name server, ``members`` and ``disk`` are
what a broker and its disk are made of, ``logs`` compares the two logs byte by byte, ``verdict`` holds what the clients
were told against what is stored, ``table`` prints it. The load and its account are those of `compat_tests.soak`. Needs
root; ``test_replica_faults.py`` runs a few faults.
"""
