"""The keys of access control where people write them: stock classes, contradictions, and values without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gateway.errors import SettingsError
from gateway.settings.access import codes
from gateway.settings.files.written import WrittenSetting
from gateway.settings.tree import Settings

_AUTH = "org.apache.rocketmq.auth"
STOCK_CLASSES: Mapping[str, frozenset[str]] = {
    f"{step}{role}": frozenset({"", *(f"{_AUTH}.{step}.{package}.{prefix}{step.title()}{role}" for prefix in prefixes)})
    for step in ("authentication", "authorization")
    for role, package, prefixes in (
        ("Provider", "provider", ("Default",)),
        ("MetadataProvider", "provider", ("Local",)),
        ("Strategy", "strategy", ("Stateless",)),
    )
}
"""The classes of Apache RocketMQ that do what a gateway does, by the key that names them."""
ACL_FILE, AUDITED = "gateway.aclFile", "gateway.auditFile"


def check_classes(entries: Iterable[WrittenSetting]) -> None:
    """Check that the classes of Apache RocketMQ that somebody named are those whose work is done here.

    :raises SettingsError: another class is named, so requests would not be judged as somebody expects.
    """
    for entry in entries:
        stock = STOCK_CLASSES.get(entry.key)
        if stock is not None and entry.text.strip() not in stock:
            raise SettingsError(
                f"{entry.key}={entry.text.strip()} ({entry.source}): this gateway loads no Java classes: "
                f"leave {entry.key} out, or set {max(stock)}"
            )


def check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    """Refuse values that contradict each other.

    :raises SettingsError: two values contradict.
    """
    if settings.authorization_enabled and not settings.authentication_enabled:
        raise SettingsError(
            f"authorizationEnabled=true ({sources.get('authorizationEnabled')}): without authenticationEnabled=true "
            "anybody could send any user's name; set both"
        )
    if settings.acl_enable and settings.authentication_enabled:
        raise SettingsError(
            f"aclEnable=true ({sources.get('aclEnable')}) and authenticationEnabled=true "
            f"({sources.get('authenticationEnabled')}): one kind of accounts at a time; with "
            "migrateAuthFromV1Enabled=true the accounts of ACL 1.0 become users, then set aclEnable=false"
        )


def beside_configuration(settings: Settings, file: Path | None) -> Path | None:
    """Return the file of accounts beside the configuration file, None if another place is meant or none is needed."""
    is_read = settings.acl_enable or settings.migrate_auth_from_v1_enabled
    if file is None or not is_read or settings.acl_file or settings.rocketmq_home:
        return None
    return file.absolute().with_name("plain_acl.yml")


def notices(settings: Settings, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about values that have no effect, because nothing is checked or because rights are."""
    if settings.is_guarded:
        if closed := sorted(codes(settings.authentication_whitelist) - settings.open_codes):
            yield (
                f"authenticationWhitelist ({sources.get('authenticationWhitelist')}): still needs a user, since rights "
                f"are judged: {', '.join(map(str, closed))}; add this to authorizationWhitelist as well"
            )
        return
    for key in (ACL_FILE, "initAuthenticationUser", "authenticationWhitelist", "authorizationWhitelist", AUDITED):
        if key in sources:
            yield f"{key} ({sources[key]}): has no effect without aclEnable=true or authenticationEnabled=true"
