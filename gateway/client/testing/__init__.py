"""Servers for the tests of programs that use RocketMQ: a gateway that starts in less than a second, and a container.

``plugin`` is a pytest plugin with the fixture ``rocketmq_gateway``. ``server`` starts and stops the process of the
fixture, and works without pytest, too. ``container`` starts a gateway for testcontainers, a package that only this
module imports.
"""
