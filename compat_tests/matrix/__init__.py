"""The compatibility matrix: every stock client with every feature, against the gateway and against Apache RocketMQ.

    python -m compat_tests.matrix                                   all cells, and docs/compatibility.md anew
    python -m compat_tests.matrix --client java-5.5.0 --feature sql92 --peer gateway-host
    python -m compat_tests.matrix --secured                         some features with TLS, with accounts, with both
    python -m compat_tests.matrix --page                            only the page, from what earlier runs found

A cell is one feature with one client against one server. What was found is kept in docs/compatibility.json, where a run
replaces the cells it has executed. The exit code is 1 when the gateway fails where Apache RocketMQ passes.
"""
