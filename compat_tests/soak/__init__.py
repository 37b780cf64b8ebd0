"""The soak: stock Java clients work without a pause while their broker is killed, stopped and starved of its disk.

    python -m compat_tests.soak --minutes 10 --seed 7 --faults kill,stop,disk-full,read-only,eio

``streams`` says what the clients do, ``plan`` draws from the seed what happens to the broker and when, ``faults``
does it, ``account`` holds what the clients were told against what is stored, ``soak`` goes round. Not a test
module: ``test_soak.py`` runs a short soak, ``test_soak_account.py`` shows that the accounts notice losses.
"""
