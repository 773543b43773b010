"""The TCP connections between a job's pods, as the kernel of their node has them. For root on that node."""
import pathlib
import socket
import struct

LISTENS, STANDS = "0A", "01"  # states in /proc/net/tcp


def _rows(table):
    """(state, own address, own port, other address) of each line."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        own, other = ([part for part in fields[i].split(":")] for i in (1, 2))
        address = lambda text: socket.inet_ntoa(struct.pack("<I", int(text, 16)))
        yield fields[3], address(own[0]), int(own[1], 16), address(other[0])


def edges_of(tables, role_of):
    """{(from role, to role, port)} of connections that stand, seen from the side that listens. `tables`: the texts of
    /proc/net/tcp, one a network namespace. `role_of`: by address; others, such as the node, are left out."""
    found = set()
    for table in tables:
        rows = list(_rows(table))
        listened = {port for state, _, port, _ in rows if state == LISTENS}
        found |= {(role_of[other], role_of[own], port) for state, own, port, other in rows
                  if state == STANDS and port in listened and own in role_of and other in role_of}
    return found


def tables(program="/usr/bin/soapstone-"):
    """Of the namespaces of all processes whose program's path begins so."""
    by_space = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(program.encode()):
                by_space[(folder / "ns/net").readlink()] = (folder / "net/tcp").read_text()
        except OSError:
            continue  # it has ended
    return list(by_space.values())
