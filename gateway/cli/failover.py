"""The command ``rocketmq-gateway failover``: which broker of a name is the master, and the change of the master."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.broker_option import AskedBroker
from gateway.cli.options import gathered
from gateway.cli.output import say, say_table
from gateway.cli.tls_options import TlsOptions, tls_options
from gateway.errors import GatewayError

if TYPE_CHECKING:
    from wire.bodies.tools.failover import ReplicaState

MASTER_ID = 0
ASYNC_MASTER, SYNC_MASTER = MASTER_ROLES = "ASYNC_MASTER", "SYNC_MASTER"
MEANINGS = {
    ASYNC_MASTER: "SEND_OK means that a message is on this broker, and no slave has to have it",
    SYNC_MASTER: "consumers see what it stores from now on when enough slaves have it (inSyncReplicas)",
}
"""The meaning of each role for those who send and read."""
PATIENCE_S = 60.0
"""The seconds that a change of a role may take, with the start of the broker."""
CATCH_UP_S = 30.0
"""The seconds within which a slave must have nearly everything of its master before the master is stopped."""
LAST_BYTES_S = 5.0
"""The seconds after the stop of a master within which its slave has stored what it received."""
LOOK_EVERY_S = 0.1
NEAR_BYTES = 1_048_576
"""The most bytes that a slave may lack when its master stops: they are copied while the master stops."""


class RoleUnclear(GatewayError):  # noqa: N818 (a fact about a broker)
    """A broker was ordered to change its role, and whether it did, or will, is not known."""


class Replica(NamedTuple):
    """A broker of the name: its address, and its state; None if it is not reached."""

    address: str
    state: ReplicaState | None
    problem: str = ""


class Reached(NamedTuple):
    """A broker that answered: its address, and its state."""

    address: str
    state: ReplicaState


class Loss(NamedTuple):
    """The options of a promotion without the master."""

    lost: bool
    with_less: bool
    yes: bool


class Group(NamedTuple):
    """The brokers of one name, as a name server knows them."""

    nameserver: str
    tls: TlsOptions

    def at(self, address: str) -> AskedBroker:
        """Return the way to a server."""
        return AskedBroker(address, self.tls)

    def members(self, name: str) -> Mapping[int, Replica]:
        """Return the brokers of a name by their ids, each asked for its state."""
        from wire.bodies.route import ClusterInfo  # with the decoder, which no other command needs
        from wire.codes import RequestCode
        from wire.headers.declare import Header

        with self.at(self.nameserver).calling() as call:
            info = ClusterInfo.parse(call.ask(RequestCode.GET_BROKER_CLUSTER_INFO, Header()))
        known = info.broker_addr_table.get(name)
        if known is None:
            raise GatewayError(f"the name server {self.nameserver} knows no broker {name}")
        return {number: self.member(at) for number, at in sorted(known.broker_addrs.items())}

    def member(self, address: str) -> Replica:
        """Ask a broker for its state."""
        from gateway.cli.broker_call import BrokerRefused, BrokerUnreachable
        from wire.bodies.tools.failover import ReplicaState
        from wire.codes import RequestCode
        from wire.headers.declare import Header

        try:
            with self.at(address).calling() as call:
                return Replica(address, ReplicaState.parse(call.ask(RequestCode.GATEWAY_REPLICA_STATE, Header())))
        except (BrokerUnreachable, BrokerRefused) as error:
            return Replica(address, None, str(error))

    def change(self, address: str, state: ReplicaState, role: str, broker_id: int, **more: Any) -> ReplicaState:
        """Change a role, and return the state of the broker after its start.

        :raises RoleUnclear: the order may have been taken, and its result is not known.
        :raises GatewayError: the broker is not reached, refused the change, or came back in another role.
        """
        from gateway.cli.broker_call import BrokerUnreachable
        from wire.bodies.tools.failover import ReplicaState
        from wire.codes import RequestCode
        from wire.headers.admin import ChangeRoleRequest

        header = ChangeRoleRequest(broker_name=state.broker_name, broker_role=role, broker_id=broker_id, **more)
        with self.at(address).calling() as call:
            try:
                answer = call.ask(RequestCode.GATEWAY_CHANGE_ROLE, header)
            except BrokerUnreachable as error:
                raise RoleUnclear(f"{address} may be {role} or not: {error}") from error
        taken = ReplicaState.parse(answer) if answer else state  # earlier builds answer nothing
        try:
            found = self.wait(
                address,
                lambda now: (now.process != taken.process or now.changes > taken.changes) and not now.is_changing,
            )
        except GatewayError as error:
            raise RoleUnclear(f"{address} took the order to be {role}, and is not back: {error}") from error
        if (found.role, found.broker_id) != (role, broker_id):
            restarted = "" if found.process == taken.process else "was restarted meanwhile, and "
            raise GatewayError(f"{address} {restarted}stayed {found.role} with id {found.broker_id}; its log says why")
        return found

    def wait(
        self, address: str, is_there: Callable[[ReplicaState], bool], patience_s: float = PATIENCE_S
    ) -> ReplicaState:
        """Return the state of a broker as soon as it is as wanted.

        :raises GatewayError: it is not, within ``patience_s``.
        """
        ends = time.monotonic() + patience_s
        while True:
            member = self.member(address)
            if member.state is not None and is_there(member.state):
                return member.state
            if time.monotonic() > ends:
                raise GatewayError(f"{address} is not ready after {patience_s:g} s: {member.problem or 'see its log'}")
            Event().wait(LOOK_EVERY_S)


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the name of the brokers, the name server and the options of TLS."""
    command = tls_options(gathered("group", Group)(command))
    command = click.option(
        "-n", "--nameserver", metavar="HOST:PORT", default="127.0.0.1:9876", show_default=True, help="A name server."
    )(command)
    return click.argument("name", metavar="BROKER_NAME")(command)


@click.group()
def failover() -> None:
    """Show the brokers of one name, and change which one is the master."""


@failover.command()
@group_options
def status(name: str, group: Group) -> None:
    """Show role, log and tables of every broker of a name."""
    members = group.members(name)
    master = members.get(MASTER_ID)
    end = None if master is None or master.state is None else master.state.log_end
    rows = []
    for number, (address, state, problem) in members.items():
        if state is None:
            rows.append((str(number), address, "?", "", "", "", "", problem))
            continue
        lag = "" if end is None or number == MASTER_ID else str(end - state.durable_end)
        age = "" if state.tables_age_ms is None else f"{state.tables_age_ms / 1000:.1f} s"
        note = "its role changes" if state.is_changing else ""
        place = str(state.log_begin), str(state.log_end)
        rows.append((str(number), address, state.role, *place, lag, age, note))
    say_table(("id", "address", "role", "log begins", "log ends", "behind", "tables", ""), rows)
    if master is None:
        say("no broker is registered as the master")


@failover.command()
@group_options
@click.option("--id", "broker_id", type=click.IntRange(1), required=True, help="The id of the slave to promote.")
@click.option("--role", type=click.Choice(MASTER_ROLES), help="Its role as the master (default: the old master's).")
@click.option("--lost", is_flag=True, help="The master is lost: promote the slave without it.")
@click.option("--with-less", is_flag=True, help="With --lost: promote the slave although another one has more.")
@click.option("--yes", is_flag=True, help="With --lost: do not ask.")
@gathered("loss", Loss)
def promote(name: str, group: Group, broker_id: int, role: str | None, loss: Loss) -> None:
    """Make a slave the master, and the master a slave.

    Without --lost nothing is lost: the master stops, its log and the slave's are equal, the tables are copied, and only
    then the slave becomes the master. Otherwise the old master goes on.
    """
    members = group.members(name)
    target, master = members.get(broker_id), members.get(MASTER_ID)
    if target is None or target.state is None:
        problem = "is not registered" if target is None else target.problem
        raise GatewayError(f"the slave with id {broker_id} cannot be promoted: {problem}")
    if loss.lost:
        if master is not None and master.state is not None:
            raise GatewayError(f"the master at {master.address} answers: leave --lost out, or stop it first")
        others = {number: one for number, one in members.items() if number not in (MASTER_ID, broker_id)}
        _promote_alone(group, Reached(target.address, target.state), others, role, loss)
    elif master is None or master.state is None:
        problem = "no master is registered" if master is None else f"{master.address}: {master.problem}"
        raise GatewayError(f"{problem}; if the master is lost for good, add --lost")
    else:
        new_id = next(number for number in range(1, len(members) + 2) if number not in members)
        _switch(group, Reached(target.address, target.state), Reached(master.address, master.state), role, new_id)


def _switch(group: Group, slave: Reached, master: Reached, role: str | None, new_id: int) -> None:
    to, at, name, had = slave.address, master.address, master.state.broker_name, master.state.role
    group.wait(to, lambda now: now.durable_end >= group_end(group, at) - NEAR_BYTES, CATCH_UP_S)
    say(f"{at} stops and becomes the slave with id {new_id}")
    try:
        stopped = group.change(at, master.state, "SLAVE", new_id)
        _follow(group, slave, Reached(at, stopped), role or had, had)
    except (RoleUnclear, KeyboardInterrupt) as error:  # another master beside one would be worse than none
        raise RoleUnclear(
            f"{str(error) or 'interrupted'}. See with `failover status {name}` who is the master. If nobody is or will "
            f"be, make {at} the master again: `failover promote {name} --id {new_id} --role {had} --lost`; "
            f"if {at} does not come back, promote {to} with `--role {role or had} --lost`"
        ) from error
    say(f"{to} is the master, {at} is its slave with id {new_id}")


def _follow(group: Group, slave: Reached, former: Reached, role: str, former_role: str) -> None:
    """Make a slave the master after a master that has become a slave; otherwise the former one is the master again.

    :raises RoleUnclear: who is the master, or will be, is not known.
    :raises GatewayError: the former master is the master again.
    """
    to, at, end = slave.address, former.address, former.state.log_end
    try:
        group.wait(to, lambda now: now.durable_end == end, LAST_BYTES_S)
        say(f"both logs end at {end}; {to} copies the tables and becomes the master")
        group.change(to, slave.state, role, MASTER_ID, log_end=end, tables_of=at)
    except RoleUnclear:
        raise
    except GatewayError as error:
        say(f"{to} cannot go on where {at} ended, so {at} becomes the master again", err=True)
        try:
            group.change(at, former.state, former_role, MASTER_ID)
        except GatewayError as again:
            raise RoleUnclear(f"{error}; {again}") from again
        raise GatewayError(f"the master stays {at}: {error}") from error


def group_end(group: Group, address: str) -> int:
    """Return where the log of a broker ends.

    :raises GatewayError: the broker is not reached.
    """
    member = group.member(address)
    if member.state is None:
        raise GatewayError(member.problem)
    return member.state.log_end


def _promote_alone(group: Group, slave: Reached, others: Mapping[int, Replica], role: str | None, loss: Loss) -> None:
    to, state = slave
    role = role or state.master_role
    if role not in MASTER_ROLES:
        raise GatewayError(
            f"{to} does not know the role of the old master: add --role SYNC_MASTER if it was one, so that SEND_OK "
            "still means that slaves have the message, or --role ASYNC_MASTER"
        )
    say(f"{to}: the log of this slave ends at {state.durable_end}")
    for line in (*lines_of_loss(state), *lines_of_others(state.durable_end, others, with_less=loss.with_less)):
        say(line)
    say(f"it becomes {role}: {MEANINGS[role]}")
    say("see to it that the old master does not come back as a master: its directory has another log")
    if not loss.yes:
        click.confirm("Make this slave the master?", abort=True)
    group.change(to, state, role, MASTER_ID)
    say(f"{to} is the master")


def lines_of_loss(slave: ReplicaState) -> list[str]:
    """Return what a slave knows of its lost master's log, when it learned that, and what nobody knows."""
    if slave.master_log_end < 0:
        return ["it never learnt where its master's log ended: how much it lacks is not known"]
    age, behind = slave.master_log_end_age_ms, slave.master_log_end - slave.durable_end
    when = "at a time that it does not tell" if age is None else f"{age / 1000:.1f} s ago"
    has = "all of that" if behind <= 0 else f"all of that but the last {behind} bytes"
    return [
        f"its master said last {when} that its own log ends at {slave.master_log_end}: the slave has {has}",
        "how much the master stored since then, and the slave lacks, is not known",
    ]


def lines_of_others(end: int, others: Mapping[int, Replica], *, with_less: bool) -> list[str]:
    """Return what the other slaves may have that a slave lacks whose log ends at ``end`` on its disk.

    :param with_less: whether another slave may have more.
    :raises GatewayError: another slave has more; the text names the one that has most.
    """
    lines = []
    most, most_text = end, ""
    for number, (address, state, problem) in others.items():
        text = f"the slave with id {number} at {address}"
        if state is None:
            lines.append(f"{text} may have more: {problem}")
        elif state.durable_end > most:
            most, most_text = state.durable_end, f"{text} has {state.durable_end - end} bytes more"
    if most_text and not with_less:
        raise GatewayError(
            f"{most_text}, perhaps messages that were answered SEND_OK: promote that one, or add --with-less, for "
            "example if its log is an old master's (docs/failover.md)"
        )
    if most_text:
        lines.append(most_text)
    return lines or [
        "no slave has more: if these are all slaves, it has every message that a SYNC_MASTER answered with SEND_OK"
    ]


@failover.command()
@group_options
@click.option("--address", metavar="HOST:PORT", required=True, help="The broker that becomes a slave.")
@click.option("--id", "broker_id", type=click.IntRange(1), required=True, help="Its id as a slave.")
def demote(name: str, group: Group, address: str, broker_id: int) -> None:
    """Make a broker a slave, for example an old master that came back."""
    member = group.member(address)
    if member.state is None:
        raise GatewayError(f"{address}: {member.problem}")
    if member.state.broker_name != name:
        raise GatewayError(f"{address} is {member.state.broker_name}, not {name}")
    group.change(address, member.state, "SLAVE", broker_id)
    say(f"{address} is a slave with id {broker_id}")
