"""Changes of users and policies, as the requests 3001 to 3010 ask for them, with upstream's codes and texts.

Each function returns all users as they are after the change. Only a Super user makes, changes or deletes a Super user.
Words that upstream overlooks, such as a misspelt action, are refused.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from gateway.access.policies.policy import EntryError, PolicyEntry, PolicyType, W, word_of
from gateway.access.policies.resources import MAX_NAME, Resource
from gateway.access.policies.users import TooManyError, User, Users, UserStatus, UserType, password_fault
from gateway.errors import RequestRefused
from gateway.settings.declare import MASK
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from wire.codes import ResponseCode

SUBJECT = "user"
"""The only kind of subject, in small letters."""
_EXISTED = "The user is existed"
NOT_BY_SUPER = "The super user can only be update by super user"


class AlreadySoError(RequestRefused):
    """A change that somebody has made already.

    :param user: the name of the user that it is about.
    """

    def __init__(self, user: str, text: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, text)
        self.user = user


def create_user(users: Users, name: str | None, wanted: UserInfo, *, by_super: bool) -> Users:
    """Add a user.

    :raises AlreadySoError: there is this user, with this password, type and status.
    :raises RequestRefused: there is one of that name, a word is wrong, or only a Super user may add this one.
    """
    name = _present(name)
    kind = _word(UserType, wanted.user_type, "userType") or UserType.NORMAL
    status = _word(UserStatus, wanted.user_status, "userStatus") or UserStatus.ENABLE
    if kind is UserType.SUPER and not by_super:
        raise _refused("The super user can only be create by super user", ResponseCode.SYSTEM_ERROR)
    password = _password(wanted.password)
    if password is None:
        raise _refused("password can not be blank")
    user = User(name, password, kind, status)
    if name in users:
        is_equal = users[name].with_policies({}) == user
        raise AlreadySoError(name, _EXISTED) if is_equal else _refused(_EXISTED)
    fault = _name_fault(name)
    if fault is not None:
        raise _refused(f"The username {fault}", ResponseCode.INVALID_PARAMETER)
    return _with(users, user)


def update_user(users: Users, name: str | None, wanted: UserInfo, *, by_super: bool) -> Users:
    """Change what ``wanted`` names of a user.

    :raises RequestRefused: there is none, a word is wrong, or only a Super user may do this.
    """
    name = _present(name)
    kind = _word(UserType, wanted.user_type, "userType")
    status = _word(UserStatus, wanted.user_status, "userStatus")
    if kind is UserType.SUPER and not by_super:
        raise _refused(NOT_BY_SUPER, ResponseCode.SYSTEM_ERROR)
    password = _password(wanted.password)
    user = users.get(name)
    if user is None:
        raise _refused("The user is not exist")
    if user.is_admin and not by_super:
        raise _refused(NOT_BY_SUPER)
    changed = replace(user, password=password or user.password, type=kind or user.type, status=status or user.status)
    if not (changed.is_admin and changed.is_enabled):
        _keep_a_super_user(users, user)
    return users.with_user(changed)


def delete_user(users: Users, name: str | None, *, by_super: bool) -> Users:
    """Delete a user and its policies; a user that is not there is no error.

    :raises RequestRefused: only a Super user may delete this one.
    """
    user = users.get(name or "")
    if not (name or "").strip():
        raise _refused("username can not be blank")
    if user is None:
        return users
    if user.is_admin and not by_super:
        raise _refused(NOT_BY_SUPER)
    _keep_a_super_user(users, user)
    return users.without(user.name)


def merge_acl(users: Users, subject: str | None, wanted: AclInfo) -> Users:
    """Add entries to a user's policies; an entry takes the place of all that have its resource.

    :raises RequestRefused: the subject is no user, or an entry is wrong.
    """
    name = user_of(wanted.subject or subject)
    if not wanted.policies:
        raise _refused("The body of acl is null")
    wanted_entries = [(policy_type(policy.policy_type), _entries(policy)) for policy in wanted.policies]
    user = users.get(name)
    if user is None:
        raise _refused(f"The subject of User:{name} is not exist.")
    policies = dict(user.policies)
    for kind, entries in wanted_entries:
        policies[kind] = _merged(policies.get(kind, ()), entries)
    return _with(users, user.with_policies(policies))


def delete_acl(users: Users, subject: str | None, kind: str | None, resource: str | None) -> Users:
    """Delete the entries of one resource in one policy, or both policies of a user if no resource is named.

    :raises AlreadySoError: the user has no policies.
    :raises RequestRefused: the subject is no user.
    """
    user = _user(users, subject)
    if not user.policies:
        raise AlreadySoError(user.name, "The acl is not exist.")
    if not resource:
        return users.with_user(user.with_policies({}))
    named = Resource.parse(resource)
    if named is None:
        raise _refused(f"The resource is null. {resource[:64]!r} is not TYPE:NAME, TYPE:PREFIX*, TYPE:* or *")
    of = policy_type(kind)
    left = tuple(entry for entry in user.policies.get(of, ()) if entry.resource != named)
    return users.with_user(user.with_policies({**user.policies, of: left}))


def user_info(user: User, *, with_password: bool) -> UserInfo:
    """Return a user for an answer; the password is masked unless it was asked for."""
    password = user.password if with_password else MASK
    return UserInfo(username=user.name, password=password, user_type=user.type, user_status=user.status)


def acl_of(users: Users, subject: str | None) -> AclInfo | None:
    """Return the policies of a user for an answer, None if it has none.

    :raises RequestRefused: the subject is no user.
    """
    return acl_info(_user(users, subject))


def acl_info(user: User, resource_filter: str | None = None) -> AclInfo | None:
    """Return the policies of a user with the entries whose resource contains a text, None if there are none."""
    wanted = resource_filter or ""
    policies = [
        PolicyInfo(kind, entries)
        for kind, found in user.policies.items()
        if (entries := [_entry_info(entry) for entry in found if wanted in str(entry.resource)])
    ]
    return AclInfo(f"User:{user.name}", policies) if policies else None


def user_of(subject: str | None) -> str:
    """Return the name of the user in ``User:NAME``.

    :raises RequestRefused: the text names no user.
    """
    kind, _, name = (subject or "").partition(":")
    if not kind.strip():
        raise _refused("The subject is null.")
    if kind.lower() != SUBJECT or not name:
        text = "An system error occurred, please try again later."
        raise _refused(f"{text} The subject {kind[:64]!r} is not User:NAME", ResponseCode.SYSTEM_ERROR)
    return name


def policy_type(text: str | None) -> PolicyType:
    """Return the type of a policy; Custom if it is left out.

    :raises RequestRefused: the word is another.
    """
    return _word(PolicyType, text, "policyType") or PolicyType.CUSTOM


def _user(users: Users, subject: str | None) -> User:
    user = users.get(user_of(subject))
    if user is None:
        raise _refused("The subject is not exist.")
    return user


def _entries(policy: PolicyInfo) -> tuple[PolicyEntry, ...]:
    if not policy.entries:
        raise _refused("The policy entries is empty.")
    try:
        return tuple(
            PolicyEntry.of(info.resource, info.actions, info.source_ips, info.decision) for info in policy.entries
        )
    except EntryError as error:
        raise _refused(str(error)) from None


def _merged(before: tuple[PolicyEntry, ...], entries: tuple[PolicyEntry, ...]) -> tuple[PolicyEntry, ...]:
    """Return all entries by their resources, in the order in which these came first; the newer ones of each."""
    by_resource: dict[Resource, list[PolicyEntry]] = {entry.resource: [] for entry in (*before, *entries)}
    replaced = {entry.resource for entry in entries}
    for entry in (*(entry for entry in before if entry.resource not in replaced), *entries):
        by_resource[entry.resource].append(entry)
    return tuple(chain.from_iterable(by_resource.values()))


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(str(entry.resource), entry.actions, entry.sources or None, entry.decision)


def _with(users: Users, user: User) -> Users:
    try:
        return users.with_user(user)
    except TooManyError as error:
        raise _refused(str(error)) from None


def _keep_a_super_user(users: Users, user: User) -> None:
    """Refuse to take the last enabled Super user away: nobody could make another, and no server would start."""
    if not (user.is_admin and user.is_enabled):
        return
    if not users.without(user.name).has_administrator:
        raise _refused(f"User:{user.name} is the only enabled user of type Super and stays so: make another one first")


def _present(name: str | None) -> str:
    if not name or not name.strip():
        raise _refused("The username is blank", ResponseCode.INVALID_PARAMETER)
    return name


def _name_fault(name: str) -> str | None:
    """Return why no user is made with a name; users that a file has already may have other names."""
    if len(name) > MAX_NAME:
        return f"has {len(name)} characters, at most {MAX_NAME} are allowed"
    if name.lower().startswith(f"{SUBJECT}:"):
        return f"{name[:64]!r} is written without {name[: len(SUBJECT) + 1]!r} here"
    if " " in name or not name.isprintable():
        return f"{name[:64]!r} has a space or a character that cannot be seen; letters, digits and marks are allowed"
    return None


def _password(text: str | None) -> str | None:
    """Return a password, None if there is none."""
    if text is None or not text.strip():
        return None
    fault = password_fault(text)
    if fault is not None:
        raise _refused(fault)
    return text


def _word(words: type[W], text: str | None, member: str) -> W | None:
    if text is None or not text.strip():
        return None
    found = word_of(words, text)
    if found is None:
        raise _refused(f"{member} {text[:64]!r} is not {' or '.join(words)}", ResponseCode.INVALID_PARAMETER)
    return found


def _refused(text: str, code: ResponseCode = ResponseCode.NO_PERMISSION) -> RequestRefused:
    return RequestRefused(code, text)
