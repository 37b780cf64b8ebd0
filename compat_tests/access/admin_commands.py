"""The commands of mqadmin about accounts, and what they print against Apache RocketMQ.

What a command prints is its lines, joined by `` | ``; of a failure the code and the text of the answer. A command
prints at least what is named here: a server may say after it what to do. ``{broker}`` is the broker's address.
"""

from __future__ import annotations

import re

from compat_tests.admin_tool import AdminTool

_VERSIONS = "#Cluster Name #Broker Name #Broker Addr #AclFilePath #AclConfigVersionNum #AclLastUpdateTime | "
_GOT = "get {}'s plain access config version success."
ACCOUNTS_OF_4: tuple[tuple[str, str], ...] = (
    (
        "updateAclConfig -b {broker} -a compat -s 12345678",
        "209 The accessKey=compat and secretKey=<secret> cannot be null and length should longer than 6",
    ),
    (
        "updateAclConfig -b {broker} -a newcomer -s short",
        "209 The accessKey=newcomer and secretKey=<secret> cannot be null and length should longer than 6",
    ),
    (
        "updateAclConfig -b {broker} -a newcomer -s secret-of-newcomer -i DENY -u SUB -t t=PUB,u=DENY -g g=SUB",
        "create or update plain access config to {broker} success.",
    ),
    (
        "updateAclConfig -b {broker} -a newcomer -s secret-of-newcomer -t PUB",
        "209 Parse Resource format error for PUB.",
    ),
    (
        "updateAclConfig -b {broker} -a newcomer -s secret-of-newcomer -w 10.1.*",
        "209 Netaddress examine scope Exception netaddress is 10.1.*",
    ),
    (
        "updateAclConfig -c DefaultCluster -a colleague -s secret-of-colleague -m true",
        "create or update plain access config to {broker} success.",
    ),
    (
        "updateGlobalWhiteAddr -b {broker} -g 192.0.2.8,192.0.2.9",
        "update global white remote addresses to {broker} success.",
    ),
    (
        "updateGlobalWhiteAddr -c DefaultCluster -g 192.0.2.7",
        "update global white remote addresses to {broker} success.",
    ),
    (
        "clusterAclConfigVersion -c DefaultCluster",
        f"{_VERSIONS}DefaultCluster broker-a {{broker}} <file> <number> <time> | {_GOT.format('cluster')}",
    ),
    (
        "deleteAclConfig -b {broker} -a newcomer",
        "delete plain access config account from {broker} success. | account's accesskey is:newcomer",
    ),
    (
        "deleteAclConfig -b {broker} -a newcomer",
        "210 The accesskey[newcomer] corresponding to accessConfig has been deleted failed.",
    ),
    (
        "deleteAclConfig -c DefaultCluster -a colleague",
        "delete plain access config account from {broker} success. | account's accesskey is:colleague",
    ),
    (
        "clusterAclConfigVersion -b {broker}",
        f"DefaultCluster broker-a {{broker}} <file> <number> <time> | {_GOT.format('broker')}",
    ),
)
_USERS = "#UserName #Password #UserType #UserStatus | "
_POLICIES = "#Subject #PolicyType #Resource #Actions #SourceIp #Decision | "
_ORDERS = "User:newcomer Custom Topic:orders [All] null Deny"
_ALL = (
    f"{_POLICIES}{_ORDERS} | User:newcomer Custom Topic:b* [Pub, Sub] [10.0.0.0/8, 192.168.1.7] Allow | "
    "User:newcomer Custom Group:* [Sub] null Allow"
)
USERS_OF_5: tuple[tuple[str, str], ...] = (
    ("createUser -b {broker} -u newcomer -p secret-of-newcomer", "create user to {broker} success."),
    (
        "createUser -c DefaultCluster -u colleague -p secret-of-colleague -t Super",
        "create user to {broker} success.",
    ),
    ("createUser -b {broker} -u newcomer -p again", "16 The user is existed"),
    ("updateUser -b {broker} -u newcomer -p changed-secret", "update user to {broker} success."),
    ("updateUser -b {broker} -u newcomer -s disable", "update user to {broker} success."),
    ("updateUser -c DefaultCluster -u newcomer -t Super", "update user to {broker} success."),
    ("updateUser -b {broker} -u nobody -s disable", "16 The user is not exist"),
    ("getUser -b {broker} -u newcomer", f"{_USERS}newcomer changed-secret Super disable"),
    ("getUser -c DefaultCluster -u newcomer", f"{_USERS}newcomer changed-secret Super disable"),
    ("getUser -b {broker} -u nobody", ""),
    (
        "listUser -b {broker} -f co",
        f"{_USERS}colleague secret-of-colleague Super enable | newcomer changed-secret Super disable",
    ),
    (
        "listUser -c DefaultCluster -f coll",
        f"{_USERS}colleague secret-of-colleague Super enable | get user from {{broker}} success.",
    ),
    (
        "createAcl -b {broker} -s User:newcomer -r Topic:orders,Topic:b* -a Pub,Sub -d Allow -i 10.0.0.0/8,192.168.1.7",
        "create acl to {broker} success.",
    ),
    (
        "createAcl -c DefaultCluster -s User:newcomer -r Group:* -a Sub -d ALLOW",
        "create acl to {broker} success.",
    ),
    (
        "createAcl -b {broker} -s User:nobody -r Topic:orders -a Pub -d Allow",
        "16 The subject of User:nobody is not exist.",
    ),
    ("createAcl -b {broker} -s User:newcomer -r Nothing:orders -a Pub -d Allow", "16 The resource is null."),
    ("createAcl -b {broker} -s User:newcomer -r Topic:orders -a Fly -d Allow", "16 The actions is empty."),
    ("createAcl -b {broker} -s User:newcomer -r Topic:orders -a Any -d Allow", "16 The actions can not be Any."),
    ("createAcl -b {broker} -s User:newcomer -r Topic:orders -a Pub -d Maybe", "16 The decision is null or illegal."),
    (
        "createAcl -b {broker} -s User:newcomer -r Topic:orders -a Pub -d Allow -i 10.0.0",
        "16 The source ip is invalid.",
    ),
    ("updateAcl -b {broker} -s User:newcomer -r Topic:orders -a All -d Deny", "update acl to {broker} success."),
    (
        "updateAcl -b {broker} -s User:nobody -r Topic:orders -a All -d Deny",
        "16 The subject of User:nobody is not exist.",
    ),
    ("getAcl -b {broker} -s User:newcomer", _ALL),
    ("getAcl -c DefaultCluster -s User:newcomer", _ALL),
    ("getAcl -b {broker} -s User:colleague", ""),
    ("getAcl -b {broker} -s User:nobody", "16 The subject is not exist."),
    ("listAcl -b {broker} -s newcomer", _ALL),
    ("listAcl -c DefaultCluster -s newcomer -r orders", f"{_POLICIES}{_ORDERS}"),
    ("copyUser -f {broker} -t {broker} -u newcomer", "copy user of newcomer from {broker} to {broker} success."),
    (
        "copyAcl -f {broker} -t {broker} -s User:newcomer",
        "copy acl of User:newcomer from {broker} to {broker} success.",
    ),
    ("getAcl -b {broker} -s User:newcomer", _ALL),
    ("deleteAcl -b {broker} -s User:newcomer -r Topic:orders", "delete acl to {broker} success."),
    ("deleteAcl -b {broker} -s User:newcomer -r Topic:missing", "delete acl to {broker} success."),
    ("listAcl -b {broker} -s newcomer -r orders", ""),
    ("deleteAcl -c DefaultCluster -s User:newcomer", "delete acl to {broker} success."),
    ("deleteAcl -b {broker} -s User:newcomer", "16 The acl is not exist."),
    ("deleteAcl -b {broker} -s User:nobody", "16 The subject is not exist."),
    ("deleteUser -b {broker} -u newcomer", "delete user to {broker} success."),
    ("deleteUser -b {broker} -u newcomer", "delete user to {broker} success."),
    ("deleteUser -c DefaultCluster -u colleague", "delete user to {broker} success."),
)


def printed(tool: AdminTool, broker: str, command: str) -> str:
    """Run a command, and return what it prints in the form of the lists above."""
    lines = tool.run(command.format(broker=broker))
    failed = re.search(r"CODE: (\d+)  DESC: (.*)", "\n".join(lines))
    if failed:
        return f"{failed.group(1)} {re.sub('secretKey=[^ ]+', 'secretKey=<secret>', failed.group(2))}"
    text = " | ".join(" ".join(line.split()) for line in lines)
    text = re.sub(r" \| org\.apache\.rocketmq\.common\.PlainAccessConfig@.*", "", text)
    text = re.sub(r"/\S*plain_acl\.yml", "<file>", text)
    text = re.sub(r"\d+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<number> <time>", text)
    return text.replace(broker, "{broker}")


def differences(tool: AdminTool, broker: str, commands: tuple[tuple[str, str], ...]) -> list[str]:
    """Run commands in their order, and return what they print otherwise than here."""
    said = [(command, wanted, printed(tool, broker, command)) for command, wanted in commands]
    return [
        f"{command}\n  {text}\n  instead of {wanted}" for command, wanted, text in said if not matches(text, wanted)
    ]


def matches(text: str, wanted: str) -> bool:
    """Compare what was printed; after a refusal's text may stand more."""
    return text.startswith(wanted) if wanted[:1].isdigit() else text == wanted
