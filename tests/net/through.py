#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""through.py raw BYTES | tunnel AUTHORITY BYTES | socks HOST PORT [COMMAND [TYPE]] | ws URL | dns NAME: what no usual client says
to the egress proxy, from inside a sandbox. BYTES with escapes as Python has them. Prints what comes back.

    raw     as it is
    tunnel  CONNECT first; what comes with its head at once
    socks   a request; prints the reply's code
    ws      a WebSocket: says hello, prints what comes back; http:// as an upgrade in absolute form, https:// by CONNECT
    dns     NAME: asks the resolver of resolv.conf, by hand
"""
import base64
import os
import socket
import ssl
import struct
import sys
import urllib.parse

PROXY = ("127.0.0.1", 28889)
SILENCE = 4  # an answer takes no tenth of it


def unescape(text):
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def receive(sock):
    sock.settimeout(SILENCE)
    out = b""
    try:
        while data := sock.recv(65536):
            out += data
    except (TimeoutError, ConnectionError):
        pass
    return out


def show(data):
    sys.stdout.write(data.decode("latin-1"))


def raw(text):
    with socket.create_connection(PROXY, SILENCE) as sock:
        sock.sendall(unescape(text))
        sock.shutdown(socket.SHUT_WR)  # it need not wait for more
        show(receive(sock))


def head(sock):
    out = b""
    while not out.endswith(b"\r\n\r\n"):
        data = sock.recv(1)
        if not data:
            break
        out += data
    return out


def tunnel(authority, text):
    with socket.create_connection(PROXY, SILENCE) as sock:
        sock.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode() + unescape(text))
        sock.shutdown(socket.SHUT_WR)
        show(receive(sock))


def socks(host, port, command="1", kind="3"):
    host = unescape(host)
    if kind == "1":
        host = socket.inet_aton(host.decode())
    elif kind == "4":
        host = socket.inet_pton(socket.AF_INET6, host.decode())
    else:
        host = bytes([len(host)]) + host
    with socket.create_connection(PROXY, SILENCE) as sock:
        sock.sendall(b"\x05\x01\x00")
        if sock.recv(2) != b"\x05\x00":
            print("greeting refused")
            return
        sock.sendall(bytes([5, int(command), 0, int(kind)]) + host + struct.pack(">H", int(port)))
        reply = sock.recv(10)
        print("reply", reply[1] if len(reply) > 1 else "none")
        if reply[1:2] == b"\0":
            sock.sendall(b"GET /socks HTTP/1.0\r\nHost: github.com\r\n\r\n")
            show(receive(sock))


def websocket(url):
    at = urllib.parse.urlsplit(url)
    sock = socket.create_connection(PROXY, SILENCE)
    where = url
    if at.scheme == "https":
        sock.sendall(f"CONNECT {at.hostname}:443 HTTP/1.1\r\nHost: {at.hostname}:443\r\n\r\n".encode())
        answer = head(sock)
        if b" 200 " not in answer:
            show(answer)
            return
        context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
        sock, where = context.wrap_socket(sock, server_hostname=at.hostname), at.path
    sock.sendall((f"GET {where} HTTP/1.1\r\nHost: {at.hostname}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(b'k' * 16).decode()}\r\n\r\n").encode())
    show(head(sock))
    for text in (b"hello", b"again"):
        sock.sendall(bytes([0x81, 0x80 | len(text)]) + b"\1\2\3\4" + bytes(b ^ (1 + i % 4) for i, b in enumerate(text)))
        size = sock.recv(2)[1]
        print(sock.recv(size).decode())
    sock.close()


def dns(name):
    with open("/etc/resolv.conf", encoding="utf-8") as f:
        server = [line.split()[1] for line in f if line.startswith("nameserver")][0]
    packet = struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0)
    packet += b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SILENCE)
        sock.sendto(packet, (server, 53))
        print(len(sock.recv(512)))


{"raw": raw, "tunnel": tunnel, "socks": socks, "ws": websocket, "dns": dns}[sys.argv[1]](*sys.argv[2:])
