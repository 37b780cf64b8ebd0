"""For the tests of programs that use RocketMQ: a gateway that starts in less than a second, and one in a container.

``plugin`` is a pytest plugin with the fixture ``rocketmq_gateway``; ``server`` starts and stops the process behind it
and is of use without pytest; ``container`` is the same for testcontainers, which is imported only there.
"""
