"""Tests of what comes before joining a group."""

from __future__ import annotations

import pytest

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.group_consumer import check_subscription, first_routes
from gateway.client.consume.push.push_consumer import PushConsumer
from gateway.client.consume.settings.consumer_settings import PushSettings
from gateway.client.consume.subscriptions import Sql, subscription_of
from gateway.client.errors import BrokerError, ConfigurationError
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode, ResponseCode


def test_a_topic_that_does_not_exist_is_waited_for() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.unknown_topics = {"t"}
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await first_routes(instance, ["t", "u"])
            assert instance.known_route("u") is not None
            await check_subscription(instance, "g", subscription_of("t", Sql("a"), version_ms=1))
            await instance.close()

    run(scenario())


def test_only_sql_is_checked_by_the_broker() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await first_routes(instance, ["t"])
            await check_subscription(instance, "g", subscription_of("t", "a", version_ms=1))
            assert not broker.asked(RequestCode.CHECK_CLIENT_CONFIG)
            await check_subscription(instance, "g", subscription_of("t", Sql("a > 1"), version_ms=1))
            broker.answer(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SYSTEM_ERROR, "no SQL92 here")
            with pytest.raises(BrokerError, match="no SQL92 here"):
                await check_subscription(instance, "g", subscription_of("t", Sql("a > 1"), version_ms=1))
            await instance.close()

    run(scenario())


def test_without_name_servers_nothing_can_be_found() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="namesrv"):
            await first_routes(ClientInstance(ClientSettings()), ["t"])

    run(scenario())


def test_point_16_a_topic_that_does_not_exist_yet_is_one_short_line_until_it_exists(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often and by whatever part of a consumer it is asked for."""

    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.unknown_topics = {"orders", "%RETRY%g"}
            settings = PushSettings(namesrv=broker.address)
            async with PushConsumer("g", print, settings, subscriptions={"orders": "*"}) as consumer:
                parts = consumer._parts()
                for _ in range(3):
                    await parts.rebalancing.rebalance()
                warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
                assert warnings == [
                    f"no route for topic orders at {broker.address}: they do not know it. It is asked for again"
                ]
                broker.unknown_topics.clear()
                await parts.rebalancing.rebalance()
                assert "topic orders has a route now" in caplog.text

    caplog.set_level("INFO", "gateway.client")
    run(scenario())
