from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.access.policies import users as limits
from gateway.access.policies.access_file import AccessFileError, build_users, parse_users
from gateway.access.policies.edits import (
    acl_info,
    acl_of,
    create_user,
    delete_acl,
    delete_user,
    merge_acl,
    update_user,
    user_info,
)
from gateway.access.policies.policy import PolicyType
from gateway.access.policies.users import User, Users, UserStatus, UserType
from gateway.errors import RequestRefused
from gateway.tests.access.policies.sample_users import user
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

ROOT = User("root", "root-password", UserType.SUPER)
ANNA = user("Topic:orders Pub Allow", "Topic:ord* Sub Allow", default=("Topic:* Sub Deny",))
EVERYBODY = Users({"root": ROOT, "anna": ANNA})


def acl(*lines: str, kind: str | None = None, subject: str | None = "User:anna") -> AclInfo:
    """The body of a request with these entries: ``RESOURCE ACTIONS DECISION``."""
    entries = [
        PolicyEntryInfo(resource, actions.split(","), None, decision)
        for resource, actions, decision in map(str.split, lines)
    ]
    return AclInfo(subject, [PolicyInfo(kind, entries)])


def lines_of(users: Users, kind: PolicyType = PolicyType.CUSTOM) -> list[str]:
    """The entries of anna's policy."""
    return [str(found) for found in users["anna"].policies.get(kind, ())]


def test_a_user_is_made() -> None:
    made = create_user(EVERYBODY, "bert", UserInfo(password="abc"), by_super=False)

    assert made["bert"] == User("bert", "abc", UserType.NORMAL, UserStatus.ENABLE)
    assert "bert" not in EVERYBODY


@pytest.mark.parametrize(("word", "kind"), [("super", UserType.SUPER), ("NORMAL", UserType.NORMAL)])
def test_words_of_a_user_may_be_in_any_case(word: str, kind: UserType) -> None:
    wanted = UserInfo(password="abc", user_type=word, user_status="Disable")
    made = create_user(EVERYBODY, "bert", wanted, by_super=True)

    assert (made["bert"].type, made["bert"].is_enabled) == (kind, False)


def test_an_update_changes_what_it_names() -> None:
    changed = update_user(EVERYBODY, "anna", UserInfo(user_status="disable"), by_super=False)["anna"]
    assert (changed.password, changed.is_enabled, changed.policies) == (ANNA.password, False, ANNA.policies)

    again = update_user(EVERYBODY, "anna", UserInfo(password="new", user_type="Super"), by_super=True)["anna"]
    assert (again.secret, again.is_admin, again.is_enabled) == (b"new", True, True)


def test_a_deleted_user_loses_its_policies() -> None:
    gone = delete_user(EVERYBODY, "anna", by_super=False)

    assert list(gone) == ["root"]
    assert delete_user(gone, "anna", by_super=False) is gone


def test_entries_take_the_place_of_those_with_their_resource() -> None:
    merged = merge_acl(EVERYBODY, None, acl("topic:new Sub Allow", "Topic:orders Pub,Get Deny"))

    assert lines_of(merged) == ["Topic:orders Deny Pub,Get", "Topic:ord* Allow Sub", "Topic:new Allow Sub"]
    assert lines_of(merged, PolicyType.DEFAULT) == ["Topic:* Deny Sub"]


def test_entries_of_the_default_policy_are_merged_and_deleted() -> None:
    merged = merge_acl(EVERYBODY, "User:anna", acl("Group:* Sub Allow", kind="default", subject=None))
    assert lines_of(merged, PolicyType.DEFAULT) == ["Topic:* Deny Sub", "Group:* Allow Sub"]

    left = delete_acl(merged, "User:anna", "Default", "Topic:*")
    assert lines_of(left, PolicyType.DEFAULT) == ["Group:* Allow Sub"]
    assert PolicyType.DEFAULT not in delete_acl(left, "User:anna", "Default", "Group:*")["anna"].policies


def test_a_deny_and_an_allow_of_the_same_resource_may_come_together() -> None:
    merged = merge_acl(EVERYBODY, None, acl("Topic:x Pub Allow", "Topic:x Sub Deny"))

    assert lines_of(merged)[-2:] == ["Topic:x Allow Pub", "Topic:x Deny Sub"]


def test_a_resource_without_entries_is_deleted_without_an_error() -> None:
    assert lines_of(delete_acl(EVERYBODY, "User:anna", None, "Topic:none")) == lines_of(EVERYBODY)


def test_all_policies_of_a_user_are_deleted_if_no_resource_is_named() -> None:
    assert acl_of(delete_acl(EVERYBODY, "User:anna", None, None), "User:anna") is None


def test_policies_are_shown_as_they_came() -> None:
    shown = acl_of(EVERYBODY, "User:anna")

    assert shown is not None
    assert shown.build(java_form=False) == (
        b'{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:orders"},'
        b'{"actions":["Sub"],"decision":"Allow","resource":"Topic:ord*"}],"policyType":"Custom"},'
        b'{"entries":[{"actions":["Sub"],"decision":"Deny","resource":"Topic:*"}],"policyType":"Default"}],'
        b'"subject":"User:anna"}'
    )


@pytest.mark.parametrize(("text", "count"), [("ord", 2), ("Topic", 3), ("zzz", 0), ("", 3), (None, 3)])
def test_entries_are_filtered_by_their_resource(text: str | None, count: int) -> None:
    shown = acl_info(ANNA, text)

    assert sum(len(policy.entries) for policy in (shown.policies if shown else ())) == count


def test_a_password_is_masked() -> None:
    assert user_info(ANNA, with_password=False).password == "******"
    assert user_info(ANNA, with_password=True).password == ANNA.password
    assert ANNA.password not in repr(ANNA)


PASSWORD = UserInfo(password="abc")


@pytest.mark.parametrize(
    ("edit", "code", "text"),
    [
        (lambda: create_user(EVERYBODY, None, PASSWORD, by_super=True), 29, "The username is blank"),
        (lambda: create_user(EVERYBODY, " ", PASSWORD, by_super=True), 29, "The username is blank"),
        (lambda: create_user(EVERYBODY, "a\nb", PASSWORD, by_super=True), 29, "The username 'a\\nb' has a space or"),
        (lambda: create_user(EVERYBODY, "a b", PASSWORD, by_super=True), 29, "The username 'a b' has a space or"),
        (lambda: create_user(EVERYBODY, " a", PASSWORD, by_super=True), 29, "The username ' a' has a space or"),
        (lambda: create_user(EVERYBODY, "a\u200bb", PASSWORD, by_super=True), 29, "The username 'a\\u200bb' has a"),
        (
            lambda: create_user(EVERYBODY, "x" * 256, PASSWORD, by_super=True),
            29,
            "The username has 256 characters, at m",
        ),
        (
            lambda: create_user(EVERYBODY, "User:x", PASSWORD, by_super=True),
            29,
            "The username 'User:x' is written with",
        ),
        (lambda: create_user(EVERYBODY, "user:", PASSWORD, by_super=True), 29, "The username 'user:' is written with"),
        (lambda: create_user(EVERYBODY, "anna", PASSWORD, by_super=True), 16, "The user is existed"),
        (lambda: create_user(EVERYBODY, "b", UserInfo(), by_super=True), 16, "password can not be blank"),
        (lambda: create_user(EVERYBODY, "b", UserInfo(password="******"), by_super=True), 16, "****** stands for"),
        (lambda: create_user(EVERYBODY, "b", UserInfo(password="x" * 1025), by_super=True), 16, "the password is"),
        (
            lambda: create_user(EVERYBODY, "b", UserInfo(password="a", user_type="Super"), by_super=False),
            1,
            "The super user can only be create by super user",
        ),
        (
            lambda: create_user(EVERYBODY, "b", UserInfo(user_type="Admin"), by_super=True),
            29,
            "userType 'Admin' is not",
        ),
        (lambda: update_user(EVERYBODY, "b", PASSWORD, by_super=True), 16, "The user is not exist"),
        (lambda: update_user(EVERYBODY, "", PASSWORD, by_super=True), 29, "The username is blank"),
        (lambda: update_user(EVERYBODY, "anna", UserInfo(user_status="off"), by_super=True), 29, "userStatus 'off'"),
        (
            lambda: update_user(EVERYBODY, "anna", UserInfo(user_type="Super"), by_super=False),
            1,
            "The super user can only be update by super user",
        ),
        (
            lambda: update_user(EVERYBODY, "root", PASSWORD, by_super=False),
            16,
            "The super user can only be update by super user",
        ),
        (lambda: delete_user(EVERYBODY, "root", by_super=False), 16, "The super user can only be update by super"),
        (lambda: delete_user(EVERYBODY, None, by_super=True), 16, "username can not be blank"),
        (lambda: merge_acl(EVERYBODY, "User:b", acl("* All Allow", subject=None)), 16, "The subject of User:b is not"),
        (lambda: merge_acl(EVERYBODY, "Role:b", acl("* All Allow", subject=None)), 1, "An system error occurred, pl"),
        (lambda: merge_acl(EVERYBODY, None, acl("* All Allow", subject=None)), 16, "The subject is null."),
        (lambda: merge_acl(EVERYBODY, "User:anna", AclInfo()), 16, "The body of acl is null"),
        (lambda: merge_acl(EVERYBODY, "User:anna", acl()), 16, "The policy entries is empty."),
        (lambda: merge_acl(EVERYBODY, "User:anna", acl("* Any Allow")), 16, "The actions can not be Any."),
        (lambda: merge_acl(EVERYBODY, "User:anna", acl("* All Allow", kind="Own")), 29, "policyType 'Own' is not"),
        (lambda: delete_acl(EVERYBODY, "User:b", None, None), 16, "The subject is not exist."),
        (lambda: delete_acl(EVERYBODY, "User:root", None, None), 16, "The acl is not exist."),
        (lambda: delete_acl(EVERYBODY, "User:anna", None, "orders"), 16, "The resource is null."),
        (lambda: acl_of(EVERYBODY, "User:b"), 16, "The subject is not exist."),
    ],
)
def test_a_refusal_has_the_code_and_the_words_of_the_reference(edit: Callable[[], Any], code: int, text: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        edit()

    assert caught.value.code == code
    assert caught.value.remark.startswith(text)


def test_users_and_entries_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_USERS", 2)
    monkeypatch.setattr(limits, "MAX_ENTRIES", 4)
    with pytest.raises(RequestRefused, match="more than 2 users"):
        create_user(EVERYBODY, "b", PASSWORD, by_super=True)
    with pytest.raises(RequestRefused, match="more than 4 entries"):
        merge_acl(EVERYBODY, None, acl("Topic:x Pub Allow", "Topic:y Pub Allow"))

    fewer = delete_acl(EVERYBODY, "User:anna", None, None)
    assert len(lines_of(merge_acl(fewer, None, acl(*(f"Topic:{n} Pub Allow" for n in range(4)))))) == 4


def test_the_entries_of_one_user_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_USER_ENTRIES", 4)
    many = acl(*(f"Topic:{number} Pub Allow" for number in range(5)))
    fewer = delete_acl(EVERYBODY, "User:anna", None, None)
    with pytest.raises(RequestRefused, match="user anna has more than 4 entries"):
        merge_acl(fewer, None, many)
    full = merge_acl(fewer, None, acl(*(f"Topic:{number} Pub Allow" for number in range(4))))
    monkeypatch.setattr(limits, "MAX_USER_ENTRIES", 3)
    with pytest.raises(AccessFileError, match="user anna has more than 3 entries"):
        parse_users(build_users(full))
