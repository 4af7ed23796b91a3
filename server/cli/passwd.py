"""``quorate passwd``: the users of a file and their passwords."""

import sys
from pathlib import Path

import click

from ...services.passwords import UserEntry, hash_password, read_users, write_users
from ...text_files import reason

__all__ = ["command"]

MAX_PASSWORD = 1024


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("user", metavar="[USER]", required=False)
@click.option("--group", "groups", metavar="NAME", multiple=True, help="A group of the user; repeatable.")
@click.option("--remove", is_flag=True, help="Remove the user.")
def command(file: Path, user: str | None, groups: tuple[str, ...], remove: bool) -> None:
    """Set the password of USER in FILE, which holds hashes; without USER, list the users.

    The password is asked for twice, or is the first line of the standard input. The file is named by the
    property users_file of a configuration; running servers read it again by themselves. A user keeps the
    former groups unless --group is given.
    """
    users = _read(file)
    if user is None:
        if groups or remove:
            raise click.UsageError("Name the user.")
        for name, entry in sorted(users.items()):
            click.echo(" ".join((name, *entry.groups)))
        return
    for word in (user, *groups):
        if not word or word.startswith("#") or len(word.split()) != 1 or not word.isprintable():
            raise click.UsageError(f"{word!r} is not a name: use characters without spaces, and no # first.")
    if remove:
        if groups:
            raise click.UsageError("--remove takes no groups.")
        if user not in users:
            raise click.ClickException(f"{file} has no user {user}.")
        del users[user]
    else:
        former = users.get(user)
        kept = groups or (former.groups if former is not None else ())
        users[user] = UserEntry(hash_password(_password(user)), kept)
    try:
        write_users(file, users)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {reason(error)}.") from None
    click.echo(f"{file}: {user} {'removed' if remove else 'set'}, {len(users)} users.")


def _read(file: Path) -> dict[str, UserEntry]:
    try:
        return read_users(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {reason(error)}.") from None
    except ValueError as error:
        raise click.ClickException(f"{file} is no file of users: {error}.") from None


def _password(user: str) -> str:
    if sys.stdin.isatty():
        password = str(click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True))
    else:
        password = sys.stdin.readline().removesuffix("\n")
    if not password:
        raise click.ClickException("No password was given.")
    if len(password) > MAX_PASSWORD:
        raise click.ClickException(f"A password has at most {MAX_PASSWORD} characters.")
    return password
