from __future__ import annotations

import time

import pytest

from gateway.access.policies import access_file
from gateway.access.policies.access_file import AccessFileError, build_users, parse_users
from gateway.access.policies.users import User, Users, UserStatus, UserType
from gateway.tests.access.policies.sample_users import user

WRITTEN = b"""{
  "users": [
    {
      "username": "anna",
      "password": "secret-of-anna",
      "userType": "Normal",
      "userStatus": "enable",
      "policies": [
        {
          "entries": [
            {
              "resource": "Topic:orders",
              "actions": [
                "Pub"
              ],
              "decision": "Allow",
              "sourceIps": [
                "10.0.0.0/8"
              ]
            }
          ],
          "policyType": "Custom"
        }
      ]
    }
  ]
}
"""


def test_users_are_written_for_people_and_come_back() -> None:
    users = Users({"anna": user("Topic:orders Pub Allow 10.0.0.0/8")})

    assert build_users(users) == WRITTEN
    assert parse_users(WRITTEN) == users
    assert build_users(Users()) == b'{\n  "users": []\n}\n'


def test_what_is_left_out_means_what_it_means_in_a_request() -> None:
    root = '{"username":"r","password":"ü","userType":"SUPER","userStatus":"Disable"}'
    text = f'{{"users":[{{"username":"a","password":"p"}},{root}]}}'

    assert dict(parse_users(text.encode())) == {
        "a": User("a", "p"),
        "r": User("r", "ü", UserType.SUPER, UserStatus.DISABLE),
    }


USER = b'{"users": [\n{"username": "a", "password": "secret"},\n{"username": "b",\n"password": "secret"%s\n}]}'
POLICY = USER % b',\n"policies": [{"entries": [\n{"resource": "*", "actions": ["All"],\n"decision": "Allow"%s}]}%s]'


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"", 1, "Input data was truncated"),
        (b"[]", 1, "Expected `object`, got `array`"),
        (b"{}", 1, "Object missing required field `users`"),
        (b'{"users":\n1}', 2, "Expected `array`, got `int`"),
        (b'{"users":\n[],\n"version":1}', 1, "Object contains unknown field `version`"),
        (b'{"users":[{"username":"\xff"}]}', 1, "the text is not UTF-8"),
        (b'{"users":' + b"[" * 100_000, 1, "the text is nested too deeply"),
        (USER % b",", 5, "JSON is malformed"),
        (USER % b"]", 4, "JSON is malformed"),
        (USER.replace(b'"secret"%s', b'"******"'), 4, "user b: ****** stands for a password"),
        (USER.replace(b'"secret"%s', b'" "'), 4, "user b: password can not be blank"),
        (USER % b',\n"password": 12345', 5, "Expected `str`, got `int`"),
        (USER % b', "username": "a"', 4, "user a is there twice"),
        (USER % b', "username": " "', 4, "a username is blank"),
        (USER % b',\n"usertype": "Super"', 3, "Object contains unknown field `usertype`"),
        (USER % b',\n"userType": "Admin"', 5, "'Admin' is not Super or Normal"),
        (USER % b',\n"userStatus": "on"', 5, "'on' is not enable or disable"),
        (USER % b',\n\n"policies": [{}]', 6, "Object missing required field `entries`"),
        (POLICY % (b', "sourceIp": ["10.0.0.1"]', b""), 6, "Object contains unknown field `sourceIp`"),
        (POLICY % (b', "sourceIps": ["*"]', b""), 6, "The source ip is invalid. '*'"),
        (
            POLICY % (b', "sourceIps": [' + b'"::",' * 256 + b'"::"]', b""),
            6,
            "The source ip is invalid. An entry has 257",
        ),
        (POLICY % (b"", b',\n{"policyType": "Own", "entries": []}'), 8, "'Own' is not Custom or Default"),
        (POLICY % (b"", b',\n{"entries": []}'), 8, "user b has two Custom policies"),
    ],
)
def test_a_wrong_text_names_its_line_and_the_reason_and_no_password(text: bytes, line: int, reason: str) -> None:
    with pytest.raises(AccessFileError) as caught:
        parse_users(text)

    assert (caught.value.line, caught.value.reason[: len(reason)]) == (line, reason)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_ten_thousand_users_are_read_and_written_within_a_second() -> None:
    entries = ("Topic:orders Pub Allow 10.0.0.0/8", "Group:orders* Sub Allow")
    one = user(*entries)
    users = Users({str(number): User(str(number), "password", policies=one.policies) for number in range(10_000)})
    begun = time.process_time()

    text = build_users(users)
    assert parse_users(text) == users

    assert time.process_time() - begun < 2  # 0.3 s


def test_more_users_than_a_server_keeps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.access.policies import users

    monkeypatch.setattr(users, "MAX_USERS", 0)
    with pytest.raises(AccessFileError, match="line 1: more than 0 users"):
        access_file.parse_users(WRITTEN)
