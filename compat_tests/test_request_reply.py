"""Requests that wait for a reply: the stock Java producer's request() and a consumer that replies."""

from __future__ import annotations

from compat_tests.peers import CLUSTER
from compat_tests.scenarios import Scene

SYSTEM_ERROR = 1


def test_each_request_gets_its_own_reply(scene: Scene) -> None:
    topic = scene.topic()
    got = scene.run("request", topic=topic, group=f"g_{topic}", count=100, threads=8)
    assert (got["replied"], got["wrong"], got["timed_out"], got["failed"]) == (100, 0, 0, 0), str(got)


def test_large_replies_arrive_whole(scene: Scene) -> None:
    topic = scene.topic()
    got = scene.run("request", topic=topic, group=f"g_{topic}", count=5, body_bytes=500_000)
    assert (got["replied"], got["wrong"]) == (5, 0), str(got)


def test_a_request_that_nobody_answers_times_out(scene: Scene) -> None:
    topic = scene.topic()
    got = scene.run("request", topic=topic, group=f"g_{topic}", count=2, replies=False, ttl_ms=1000)
    assert (got["timed_out"], got["replied"]) == (2, 0), str(got)


def test_a_reply_that_cannot_be_passed_on_is_refused_with_the_reason(scene: Scene) -> None:
    nobody = scene.run("reply-to", cluster=CLUSTER)
    assert (nobody["code"], nobody.text("remark")) == (
        SYSTEM_ERROR,
        "reply message properties[REPLY_TO_CLIENT] is null",
    )
    gone = scene.run("reply-to", cluster=CLUSTER, client="10.0.0.9@gone")
    assert (gone["code"], gone.text("remark")) == (
        SYSTEM_ERROR,
        "push reply message fail, channel of <10.0.0.9@gone> not found.",
    )
