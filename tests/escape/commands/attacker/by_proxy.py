# SPDX-License-Identifier: Apache-2.0
"""by_proxy.py http|connect|socks|socks4|socks6 HOST PORT [TEXT]: a client that names a host as it likes. Where there is a
proxy it is asked in its own words; where there is none the host is connected to. For http TEXT stands in the place of
HOST in what the proxy is told, with Python's escapes.
"""
import os
import socket
import struct
import sys

how, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
text = (sys.argv[4] if len(sys.argv) > 4 else host).encode("latin-1").decode("unicode_escape").encode("latin-1")
where = b"%s:%d" % (text, port)
request = b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (where, where)
name = {"socks": b"\3%c%s" % (len(text), text)}
if "." in host and how == "socks4":
    name["socks4"] = b"\1" + socket.inet_aton(host)
if how == "socks6":
    name["socks6"] = b"\4" + socket.inet_pton(socket.AF_INET6, host)

if "http_proxy" not in os.environ:
    with socket.create_connection((host.strip("[]"), port), 3) as sock:
        sock.sendall(request)
    sys.exit()
with socket.create_connection(("127.0.0.1", int(os.environ["http_proxy"].rstrip("/").rpartition(":")[2])), 3) as sock:
    sock.settimeout(3)
    if how == "http":
        sock.sendall(request)
    elif how == "connect":
        sock.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (where, where) + request)
    else:
        sock.sendall(b"\5\1\0")
        sock.recv(2)
        sock.sendall(b"\5\1\0" + name[how] + struct.pack(">H", port) + request)
    print(sock.recv(4096))
