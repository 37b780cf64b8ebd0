"""Bodies about users and policies, as mqadmin of Apache RocketMQ 5.5.0 writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, texts

optional = st.none() | texts
entries = st.builds(PolicyEntryInfo, optional, st.none() | st.tuples(texts), st.none() | st.tuples(texts), optional)


def test_a_user_is_read() -> None:
    body = '{"password":"12345678","userType":"Super","username":"anna"}'

    assert UserInfo.parse(body) == UserInfo("anna", "12345678", "Super")


def test_policies_are_read() -> None:
    body = (
        '{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:T*",'
        '"sourceIps":["10.0.0.0/8"]},{"actions":["Get"],"decision":"Deny","resource":"*"}]}],"subject":"User:anna"}'
    )

    assert AclInfo.parse(body) == AclInfo(
        "User:anna",
        (
            PolicyInfo(
                None,
                (
                    PolicyEntryInfo("Topic:T*", ("Pub", "Sub"), ("10.0.0.0/8",), "Allow"),
                    PolicyEntryInfo("*", ("Get",), None, "Deny"),
                ),
            ),
        ),
    )


def test_a_user_is_written_without_what_it_lacks() -> None:
    assert UserInfo("anna", user_type="Normal").build() == b'{"userType":"Normal","username":"anna"}'


@given(st.builds(UserInfo, optional, optional, optional, optional))
def test_users_come_back(user: UserInfo) -> None:
    assert_comes_back(user)


@given(st.builds(AclInfo, optional, st.tuples(st.builds(PolicyInfo, optional, st.lists(entries).map(tuple)))))
def test_policies_come_back(acl: AclInfo) -> None:
    assert_comes_back(acl)


@pytest.mark.parametrize("body", ["[]", "1", '{"policies":1}', '{"policies":[{"entries":[1]}]}', "{", ""])
def test_another_text_is_a_body_error(body: str) -> None:
    with pytest.raises(BodyError):
        AclInfo.parse(body)
