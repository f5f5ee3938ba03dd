#!/usr/bin/env python3
"""What ssh and sshd are to test hosts: commands on another host, through the hosts' network alone, so that it fails and hangs as ssh
does where a link is cut.

  agent.py HOST COMMAND...   runs the command, its words joined by blanks, in a shell on that host; 255 where the host cannot be reached
  agent.py serve             answers on this host
"""
import contextlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading

PORT = 22
FRAME = struct.Struct("!cI")  # whose it is ("1" stdout, "2" stderr, "x" the exit status), and how many bytes follow


def receive(connection, size):
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("Connection closed by remote host")
        parts += part
    return parts


def pass_output(stream, kind, connection, lock):
    """A stream of the command, until its end, or until nobody is there to read it."""
    while part := os.read(stream.fileno(), 1 << 16):
        try:
            with lock:
                connection.sendall(FRAME.pack(kind, len(part)) + part)
        except OSError:
            break
    stream.close()


def pass_input(connection, stream):
    """Until the client says no more. What the command does not take is read all the same: else the client would lose its last words."""
    with contextlib.suppress(OSError):  # the client has gone
        while part := connection.recv(1 << 16):
            with contextlib.suppress(OSError):  # the command has gone
                stream.write(part)
    with contextlib.suppress(OSError):
        stream.close()


def answer(connection):
    """Runs one command. As under sshd it goes on where its client disappears; it only loses its streams."""
    with connection:
        size, = struct.unpack("!I", receive(connection, 4))
        command = json.loads(receive(connection, size))
        environment = {"HOME": "/root", "USER": "root", "SHELL": "/bin/bash", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        process = subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   bufsize=0, cwd="/", env=environment, start_new_session=True)
        lock = threading.Lock()
        outputs = [threading.Thread(target=pass_output, args=(stream, kind, connection, lock))
                   for stream, kind in ((process.stdout, b"1"), (process.stderr, b"2"))]
        for thread in outputs:
            thread.start()
        taking = threading.Thread(target=pass_input, args=(connection, process.stdin), daemon=True)
        taking.start()
        for thread in outputs:
            thread.join()
        status = process.wait()
        with contextlib.suppress(OSError):
            connection.sendall(FRAME.pack(b"x", 4) + struct.pack("!i", status if status >= 0 else 255))
            connection.shutdown(socket.SHUT_WR)
        taking.join()


def serve():
    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def run(host, command):
    with socket.create_connection((host, PORT)) as connection, selectors.SelectSelector() as ready:
        text = json.dumps(command).encode()
        connection.sendall(struct.pack("!I", len(text)) + text)
        ready.register(connection, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj == 0:
                    part = os.read(0, 1 << 16)
                    with contextlib.suppress(OSError):  # the command's last words tell why
                        connection.sendall(part) if part else connection.shutdown(socket.SHUT_WR)
                    if not part:
                        ready.unregister(0)
                    continue
                kind, size = FRAME.unpack(receive(connection, FRAME.size))
                part = receive(connection, size)
                if kind == b"x":
                    return struct.unpack("!i", part)[0]
                os.write(int(kind), part)


def main(words):
    if words == ["serve"]:
        serve()
    host, *command = words
    try:
        return run(host, " ".join(command))
    except OSError as error:
        print(f"agent: connect to host {host} port {PORT}: {error.strerror or error}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
