"""Policies of users of 5.3 and later, as tools make, change, delete and read them.

Upstream: ``AdminBrokerProcessor``. Who may change policies may grant itself every right on topics and groups.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.access.policies.edits import acl_info, acl_of, delete_acl, merge_acl
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.rare.accounts.users import changed, kept_users
from gateway.remoting.declared import CLUSTER_GET, CLUSTER_UPDATE, SERVED, Size
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import item_text, list_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.access import AclInfo, PolicyInfo
from wire.bodies.fastjson import PreparedText
from wire.codes import RequestCode
from wire.headers.access import AclRequest, DeleteAclRequest, ListAclsRequest


class AccessListRequests(DeskRequests):
    """Requests about policies."""

    @answers(RequestCode.AUTH_CREATE_ACL, AclRequest, CLUSTER_UPDATE, slave=SERVED)
    @answers(RequestCode.AUTH_UPDATE_ACL, AclRequest, CLUSTER_UPDATE, slave=SERVED)
    async def merge(self, request: Request, header: AclRequest) -> Answer:
        """Add entries to a user's policies, in the place of those with their resources."""
        wanted = AclInfo.parse(request.command.body)
        subject = wanted.subject or header.subject
        granted = ";".join(
            f"{entry.resource} {entry.decision}" for policy in wanted.policies for entry in policy.entries
        )
        edit = partial(merge_acl, subject=header.subject, wanted=wanted)
        await changed(self._desk, request, subject, f"Update {granted}", edit)
        return Answer()

    @answers(RequestCode.AUTH_DELETE_ACL, DeleteAclRequest, CLUSTER_UPDATE, slave=SERVED)
    async def delete(self, request: Request, header: DeleteAclRequest) -> Answer:
        """Delete the entries of one resource, or all policies of a user."""
        edit = partial(delete_acl, subject=header.subject, kind=header.policy_type, resource=header.resource)
        await changed(self._desk, request, header.subject, f"Delete {header.resource or 'all entries'}", edit)
        return Answer()

    @answers_in_turns(RequestCode.AUTH_GET_ACL, AclRequest, CLUSTER_GET, Size.LIST, slave=SERVED)
    def policies(self, _request: Request, header: AclRequest) -> Work[Answer]:
        """Answer with the policies of a user, or without a body if it has none."""
        found = acl_of(kept_users(self._desk).users, header.subject)
        if found is None:
            return Answer()
        return Answer(body=(yield from _prepared(found)).build())

    @answers_in_turns(RequestCode.AUTH_LIST_ACL, ListAclsRequest, CLUSTER_GET, Size.LIST, slave=SERVED)
    def listed(self, _request: Request, header: ListAclsRequest) -> Work[Answer]:
        """Answer with the policies of all users, or without a body if nothing fits the filters."""
        users = kept_users(self._desk).users
        subjects = sorted(name for name in users if (header.subject_filter or "") in f"User:{name}")
        texts: list[PreparedText] = []
        for number, name in enumerate(subjects, start=1):
            found = acl_info(users[name], header.resource_filter)
            if found is not None:
                acl = yield from _prepared(found)
                texts.append(PreparedText(item_text(acl.to_json())))
            if number % ENTRIES_PER_TURN == 0:
                yield
        text = yield from list_text("policies", texts, advice="name a part of the subject or of the resource")
        return Answer(body=text.encode() if texts else b"")


def _prepared(acl: AclInfo) -> Work[AclInfo]:
    """Return policies whose entries are text already: a user may have many."""
    policies: list[PolicyInfo] = []
    for policy in acl.policies:
        entries: Any = yield from list_text("entries", (entry.to_json() for entry in policy.entries))
        policies.append(PolicyInfo(policy.policy_type, entries))
    return AclInfo(acl.subject, policies)
