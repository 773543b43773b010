"""A stranger to a job: raw sockets, no job file, nothing of ours but what docs/wire.md says."""
import collections
import os
import random
import socket
import struct
import threading
import time
import zlib

SCHEDULER, SERVER, WORKER = 1, 2, 3
HELLO, WELCOME, REFUSE, SHUTDOWN, PULL = 1, 2, 3, 16, 22
TEMPORARY = 2**31
MORE, LONG = 1, 2
FRAME = b"SOAP\x02\x00\x00\x00"  # magic, version (wire/frame.h), flags

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32


def ready(identity=b""):
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    if identity:
        body += b"\x08Identity" + struct.pack(">I", len(identity)) + identity
    return b"\x04" + bytes([len(body)]) + body


def frame(body, more=False):
    if len(body) < 256:
        return bytes([MORE if more else 0, len(body)]) + body
    return bytes([LONG | (MORE if more else 0)]) + struct.pack(">Q", len(body)) + body


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A protobuf field: an int as varint, bytes with their length, ("fixed64", n)."""
    if isinstance(value, tuple):
        return varint(number << 3 | 1) + struct.pack("<Q", value[1])
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def message(kind, sender, to=(0, 0), session=0, body=b"", epoch=0):
    """Frame 0 of docs/wire.md."""
    header = (field(1, kind) + field(2, sender[0]) + field(3, sender[1]) + field(4, to[0]) +
              field(5, to[1]) + field(6, sender[0]) + field(7, sender[1]) +
              field(8, ("fixed64", session)) + field(9, epoch) + body)
    return FRAME + struct.pack("<II", len(header), zlib.crc32(header)) + header


def hello(role, nonce, digest, wanted=-1, endpoint=b""):
    zigzag = wanted * 2 if wanted >= 0 else -wanted * 2 - 1
    body = (field(1, role) + field(2, zigzag) + field(3, endpoint) +
            field(4, ("fixed64", nonce)) + field(5, ("fixed64", digest)))
    return message(HELLO, (role, TEMPORARY | nonce & (TEMPORARY - 1)), body=field(21, body))


def shutdown(sender=(SCHEDULER, 0), to=(0, 0), session=0, code=0):
    return message(SHUTDOWN, sender, to, session,
                   field(27, field(1, code) + field(2, b"a stranger says so")))


def numbered(body, number, incarnation):
    """Frame 0 with the trailer of a session (docs/wire.md, Sessions)."""
    return body + b"STRL" + struct.pack("<IQQQQ", 1, number, incarnation, 0, 0)


class Peer:
    """A connection to a node that listens, as a DEALER."""

    def __init__(self, port, identity=b"", patience=5):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience)
        self.buffer = b""
        self.incarnation = random.getrandbits(64) | 1
        self.number = 0
        self.socket.sendall(GREETING)
        self.take(64)
        self.socket.sendall(ready(identity))

    def send(self, *frames):
        """A message, as the next of this connection's session."""
        self.number += 1
        first = numbered(frames[0], self.number, self.incarnation)
        for i, body in enumerate([first, *frames[1:]]):
            self.socket.sendall(frame(body, i + 1 < len(frames)))

    def take(self, size):
        while len(self.buffer) < size:
            came = self.socket.recv(65536)
            if not came:
                raise ConnectionError("ended")
            self.buffer += came
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def answer(self):
        """The next message's frame 0; None: nothing came, or it ended."""
        try:
            while True:
                flags = self.take(1)[0]
                size = struct.unpack(">Q", self.take(8))[0] if flags & LONG else self.take(1)[0]
                body = self.take(size)
                if not flags & 4 and body[:4] != b"SSES":  # no command, no note of sessions
                    return body[:-40]
        except OSError:
            return None

    def close(self):
        self.socket.close()


# ---- At the port for streams, and at the sockets of shared memory (docs/wire.md).

def stream_hello(connection=1):
    """Of a stream whose token is not known."""
    return struct.pack("<4sHHII16sQQQ", b"STRM", 2, 0, connection, random.getrandbits(32), os.urandom(16), 7, 0, 0)


def link_sockets(pid):
    """Names of the sockets at which a process takes links through shared memory."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    with open("/proc/net/unix") as table:
        rows = [line.split() for line in list(table)[1:]]
    return [row[7] for row in rows if len(row) > 7 and row[7].startswith("@soapstone/") and row[3] == "00010000" and
            f"socket:[{row[6]}]" in inodes]


class Link:
    """A connection to such a socket, and what it is told first."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect("\0" + name[1:])
        self.nonce = self.socket.recv(1000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def all_that_comes(self):
        """(bytes, descriptors) up to the end."""
        told, descriptors = b"", []
        try:
            while True:
                came, fds, _, _ = socket.recv_fds(self.socket, 1000, 10)
                told, descriptors = told + came, descriptors + fds
                if not came:
                    return told, descriptors
        except ConnectionError:
            return told, descriptors


def link_hello(link):
    """Memory and bells, without a proof."""
    fds = [os.memfd_create("stranger") for _ in range(3)]
    socket.send_fds(link.socket, [struct.pack("<4sIIIQQ", b"SLNK", 2, 1, 0, 1, 4096)], fds)
    for fd in fds:
        os.close(fd)


def link_claim(link):
    """Of a worker, with a proof that is none."""
    link.socket.send(struct.pack("<4sIII32s16s", b"SPRF", 1, 2, 2, os.urandom(32), os.urandom(16)))


def link_echo(link):
    link.socket.send(link.nonce)


# ---- Floods: what each connection begins with, and says then again and again.

def whole_messages(_):
    return GREETING + ready(), frame(b"of no job" * 2) * 4000


def endless_message(_):
    return GREETING + ready(), bytes([MORE, 0]) * 32768


def half_open(_):
    return GREETING[:20], b""


def large_frames(_):
    return GREETING + ready(), bytes([LONG]) + struct.pack(">Q", 2**30) + b"x" * 65536


def allowed_frames(_):
    """Frames of the size in SOAPSTONE_FRAME: libzmq makes room for what is announced."""
    size = int(os.environ.get("SOAPSTONE_FRAME", 60_000))
    return GREETING + ready(), bytes([LONG]) + struct.pack(">Q", size) + b"x" * size


def hellos(rng):
    return GREETING + ready(), b"".join(
        frame(numbered(hello(WORKER, rng.getrandbits(63) + 1, rng.getrandbits(64)), i + 1, 9))
        for i in range(500))


FLOODS = [whole_messages, endless_message, half_open, large_frames, allowed_frames, hellos]


def flood(ports, stop, connections, kind, seed=0):
    """Keeps `connections` connections to the ports at it, until stop() is true; bytes said, ended."""
    rng = random.Random(seed)
    begin, again = kind(rng)
    held = {}  # socket: what it says next
    said = ended = 0
    while not stop():
        while len(held) < connections:
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", ports[rng.randrange(len(ports))]))
            held[peer] = begin
        moved = False
        for peer, left in list(held.items()):
            try:
                if left:
                    sent = peer.send(left)
                    said += sent
                    moved = True
                    held[peer] = left[sent:] or again
                elif not peer.recv(4096):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno == 107 and left is begin:  # not connected yet
                    continue
                ended += 1
                peer.close()
                del held[peer]
        if not moved:
            time.sleep(0.001)
    for peer in held:
        peer.close()
    return said, ended


def greet(port, stop, a_second):
    """So many connections a second, each of which says a greeting and nothing more; the last 1,000 stay."""
    there = collections.deque()
    began = time.monotonic()
    made = 0
    while not stop.is_set():
        there.append(socket.socket())
        there[-1].settimeout(0.3)
        try:
            there[-1].connect(("127.0.0.1", port))
            there[-1].sendall(GREETING.replace(b"NULL\0", b"CURVE"))
        except OSError:
            pass
        if len(there) > 1000:
            there.popleft().close()
        made += 1
        stop.wait(max(0, began + made / a_second - time.monotonic()))
    for peer in there:
        peer.close()
    return made


class Sink:
    """Listens, greets as a ROUTER would, and throws away what comes: for a comparison."""

    def __init__(self):
        self.stay = 10  # seconds for which a connection that said enough is held before it is ended
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.threads = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.drain, args=(peer,), daemon=True).start()

    def drain(self, peer):
        """As a job does: so many bytes, then no more, and after a while the end."""
        left = 16384
        with peer:
            try:
                while left > 0:
                    came = len(peer.recv(65536))
                    if not came:
                        return
                    left -= came
                time.sleep(self.stay)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def memory_of(pid):
    """(resident now, most ever) in bytes."""
    now = most = 0
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                now = int(line.split()[1]) << 10
            elif line.startswith("VmHWM:"):
                most = int(line.split()[1]) << 10
    return now, most


def cpu_of(pid):
    """Seconds of processors so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":  # stranger.py KIND CONNECTIONS SECONDS PORT...: a flooder, nice 19
    import sys
    os.nice(19)
    until = time.monotonic() + float(sys.argv[3])
    print(*flood([int(p) for p in sys.argv[4:]], lambda: time.monotonic() > until,
                 int(sys.argv[2]), FLOODS[int(sys.argv[1])], int(sys.argv[1])))
