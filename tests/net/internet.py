# SPDX-License-Identifier: Apache-2.0
"""internet.py internet|host RIG: the servers of the rig. As "internet" it is alone in its network namespace; as "host" it
is what listens on the host's own loopback. Says on standard output how far it is, and waits for a line to go on.

Each server notes who came to it and for what: that nobody did is what most tests want to know.
"""
import base64
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import threading

import world

ROLE, RIG = sys.argv[1], sys.argv[2]
LOG = open(f"{RIG}/log/{ROLE}", "a", encoding="utf-8")
LOG_LOCK = threading.Lock()
RECORD_MAX = 65536


def note(**what):
    with LOG_LOCK:
        LOG.write(json.dumps(what) + "\n")
        LOG.flush()


def run(*words, **options):
    return subprocess.run(words, check=True, **options)


# ---- HTTP ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rig", ""
    timeout = 120

    def setup(self):
        # Here and not in the thread that accepts: a client that is silent keeps nobody else waiting.
        if self.server.tls:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def note(self):
        note(what="http", method=self.command, path=self.path, host=self.headers.get("Host"), tls=bool(self.server.tls),
             at=self.request.getsockname()[0], port=self.request.getsockname()[1],
             sni=getattr(self.request, "rig_sni", None), headers=self.headers.items())

    def answer(self, body, status=200, kind="text/plain", **fields):
        if isinstance(body, str):
            body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            out = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                out += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return out
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_any(self):
        self.note()
        host = (self.headers.get("Host") or "").split(":")[0]
        path, _, query = self.path.partition("?")
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.websocket()
        elif ".git/" in path:
            self.git(path, query)
        elif path == "/echo":
            self.answer(self.body(), Saw=self.command)
        elif path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(100):
                self.wfile.write(b"%x\r\n%s\r\n" % (1000, b"%c" % (97 + i % 26) * 1000))
            self.wfile.write(b"0\r\n\r\n")
        elif path == "/switch":
            SWITCHED.add(host)
            self.answer("from now on this name leads elsewhere\n")
        elif path == "/big":
            self.answer(b"0123456789abcdef" * 262144)
        elif path == "/redirect":
            self.answer("", 302, Location=query)
        elif host.endswith(".npmjs.org"):
            self.npm(host, path)
        elif path.startswith(("/debian/", "/simple/", "/files/")):
            self.file(path)
        else:
            self.answer(f"hello from {host} at {self.request.getsockname()[0]}\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_any  # noqa: N815

    def do_CONNECT(self):  # noqa: N802
        """The user's own proxy, on port 3128."""
        self.note()
        host, _, port = self.path.rpartition(":")
        known = world.ZONE.get(host, ([], []))[0]
        try:
            there = socket.create_connection((known[0] if known else host, int(port)), 10)
        except OSError:
            self.answer("no", 502)
            return
        self.send_response(200)
        self.end_headers()
        back = threading.Thread(target=copy, args=(there, self.connection), daemon=True)
        back.start()
        copy(self.connection, there)
        back.join()
        self.close_connection = True

    def file(self, path):
        try:
            with open(RIG + "/www" + path.rstrip("/") + ("/index.html" if path.endswith("/") else ""), "rb") as f:
                self.answer(f.read(), kind="text/html" if path.endswith("/") else "application/octet-stream")
        except OSError:
            self.answer("no such file", 404)

    def npm(self, host, path):
        tarball = npm_tarball()
        if path == "/rig-package":
            version = {"name": "rig-package", "version": "1.2.3", "main": "index.js",
                       "dist": {"tarball": f"https://{host}/rig-package-1.2.3.tgz",
                                "shasum": hashlib.sha1(tarball).hexdigest(),
                                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()}}
            self.answer(json.dumps({"name": "rig-package", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}),
                        kind="application/json")
        elif path.endswith(".tgz"):
            self.answer(tarball, kind="application/octet-stream")
        else:
            self.body()
            self.answer("{}", 404, kind="application/json")

    def git(self, path, query):
        body = self.body()
        environ = {"GIT_PROJECT_ROOT": RIG + "/git", "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                   "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                   "CONTENT_LENGTH": str(len(body)), "REMOTE_USER": "user", "REMOTE_ADDR": "0.0.0.0", "PATH": os.environ["PATH"],
                   "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "HOME": RIG + "/git",
                   "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "SERVER_PROTOCOL": "HTTP/1.1"}
        out = subprocess.run(["git", "http-backend"], input=body, env=environ, stdout=subprocess.PIPE, check=False).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        status, kind = 200, "text/plain"
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            elif name == "Content-Type":
                kind = value
        self.answer(rest, status, kind, Cache_Control="no-cache")

    def websocket(self):
        """Frames of less than 126 bytes, masked, come back unmasked."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(6)) == 6:
            data = bytes(b ^ head[2 + i % 4] for i, b in enumerate(self.rfile.read(head[1] & 0x7f)))
            self.wfile.write(bytes([head[0], len(data)]) + data)
            if head[0] & 0xf == 8:
                break


def copy(source, target):
    try:
        while data := source.recv(RECORD_MAX):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, port, tls):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.tls = tls
        super().__init__((address, port), Handler)

    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Without looking its own name up.
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.server_address[:2]

    def get_request(self):
        conn, peer = super().get_request()
        note(what="accepted", at=conn.getsockname()[0], port=conn.getsockname()[1])
        return conn, peer

    def handle_error(self, request, client_address):
        note(what="failed", why=repr(sys.exc_info()[1]))


def told_name(sock, name, _):
    sock.rig_sni = name


def serve(address, port, secure):
    tls = None
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(RIG + "/server.pem", RIG + "/server.key")
        tls.set_alpn_protocols(["http/1.1"])
        tls.sni_callback = told_name
    threading.Thread(target=Server(address, port, tls).serve_forever, daemon=True).start()


# ---- names ----

SWITCHED = set()


def question_of(packet):
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("latin-1"))
        at += 1 + packet[at]
    return ".".join(labels).lower(), struct.unpack(">H", packet[at + 1:at + 3])[0], packet[12:at + 5]


def resolve(packet):
    name, kind, question = question_of(packet)
    note(what="dns", name=name, type=kind)
    known = world.ZONE.get(name)
    found = [] if known is None else known[0] if kind == 1 else known[1] if kind == 28 else []
    if found and isinstance(found[0], list):
        found = found[name in SWITCHED]
    family = socket.AF_INET if kind == 1 else socket.AF_INET6
    records = b""
    for text in found:
        data = socket.inet_pton(family, text)
        records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data
    flags = 0x8180 if known is not None else 0x8183
    return packet[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + question + records


def serve_names():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((world.GATEWAY, 53))

    def loop():
        while True:
            packet, peer = sock.recvfrom(4096)
            try:
                sock.sendto(resolve(packet), peer)
            except (IndexError, struct.error, OSError) as e:
                note(what="failed", why=repr(e))
    threading.Thread(target=loop, daemon=True).start()


# ---- ssh ----

def serve_ssh():
    """dropbear as an ordinary user, one for each connection, with the socket as standard input."""
    keys = RIG + "/home/.ssh"
    run("dropbearkey", "-t", "ed25519", "-f", RIG + "/ssh_host", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    public = run("dropbearkey", "-y", "-f", RIG + "/ssh_host", stdout=subprocess.PIPE, text=True).stdout
    line = [x for x in public.splitlines() if x.startswith("ssh-ed25519")][0].split()
    with open(keys + "/known_hosts", "w", encoding="utf-8") as f:
        f.write(f"github.com {line[0]} {line[1]}\n")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys + "/id_ed25519")
    os.makedirs(RIG + "/git/.ssh", mode=0o700)
    with open(keys + "/id_ed25519.pub", encoding="utf-8") as f, \
         open(RIG + "/git/.ssh/authorized_keys", "w", encoding="utf-8") as out:
        out.write(f.read())
    os.chmod(RIG + "/git/.ssh/authorized_keys", 0o600)
    run("mount", "--bind", RIG + "/etc/passwd.internet", "/etc/passwd")
    sock = socket.create_server((world.SITE, 22))

    def loop():
        while True:
            conn, _ = sock.accept()
            note(what="ssh", at=conn.getsockname()[0])
            subprocess.Popen(["unshare", "--user", "--map-user=1000", "--map-group=1000", "--", "dropbear", "-i", "-s",
                              "-r", RIG + "/ssh_host"], stdin=conn, stdout=conn, stderr=subprocess.DEVNULL)
            conn.close()
    threading.Thread(target=loop, daemon=True).start()


# ---- what there is to have ----

def repository():
    work = RIG + "/www/work"
    environ = os.environ | {"HOME": RIG + "/home"}
    run("git", "init", "-q", work, env=environ)
    with open(work + "/README", "w", encoding="utf-8") as f:
        f.write("cloned\n")
    run("git", "-C", work, "add", "README", env=environ)
    run("git", "-C", work, "commit", "-qm", "first", env=environ)
    run("git", "clone", "-q", "--bare", work, RIG + "/git/repo.git", env=environ)
    for key, value in (("http.receivepack", "true"), ("uploadpack.allowFilter", "true")):
        run("git", "-C", RIG + "/git/repo.git", "config", key, value, env=environ)
    with open(RIG + "/git/.gitconfig", "w", encoding="utf-8") as f:
        f.write("[safe]\n\tdirectory = *\n")


def npm_tarball():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in (("package.json", '{"name": "rig-package", "version": "1.2.3", "main": "index.js"}'),
                           ("index.js", "module.exports = 'from the registry'\n")):
            member = tarfile.TarInfo("package/" + name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    data = bytearray(out.getvalue())
    data[4:8] = b"\0\0\0\0"  # the time in gzip's head: what is served twice has one digest
    return bytes(data)


def packages():
    """A Debian archive with one package, and what pip looks for."""
    dists = RIG + "/www/debian/dists/stable"
    os.makedirs(dists + "/main/binary-all")
    entry = "Package: rig-package\nVersion: 1.2.3\nArchitecture: all\nMaintainer: Rig <rig@example.org>\n" \
            "Filename: pool/rig.deb\nSize: 1\nSHA256: " + "0" * 64 + "\nDescription: nothing\n\n"
    release = "Suite: stable\nCodename: stable\nArchitectures: all\nComponents: main\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n"
    with open(dists + "/main/binary-all/Packages", "w", encoding="utf-8") as f:
        f.write(entry)
    release += f" {hashlib.sha256(entry.encode()).hexdigest()} {len(entry)} main/binary-all/Packages\n"
    with open(dists + "/Release", "w", encoding="utf-8") as f:
        f.write(release)
    os.makedirs(RIG + "/www/simple/rig-package")
    os.makedirs(RIG + "/www/files")
    wheel()
    with open(RIG + "/www/simple/rig-package/index.html", "w", encoding="utf-8") as f:
        f.write('<a href="/files/rig_package-1.2.3-py3-none-any.whl">rig_package-1.2.3-py3-none-any.whl</a>')


def wheel():
    import zipfile  # pylint: disable=import-outside-toplevel
    info = "rig_package-1.2.3.dist-info/"
    with zipfile.ZipFile(RIG + "/www/files/rig_package-1.2.3-py3-none-any.whl", "w") as z:
        z.writestr("rig_package.py", "text = 'from the index'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: rig-package\nVersion: 1.2.3\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: rig\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "rig_package.py,,\n" + "".join(f"{info}{n},,\n" for n in ("METADATA", "WHEEL", "RECORD")))


def serve_http2():
    child = subprocess.Popen(["node", os.path.dirname(os.path.abspath(__file__)) + "/http2.js", RIG, world.HTTP2, world.HTTP2_6],
                             stdout=subprocess.PIPE, text=True)
    if child.stdout.readline().strip() != "serving":
        raise SystemExit("internet.py: no HTTP/2")


def links():
    run("ip", "link", "set", "lo", "up")
    for address in world.PUBLIC + (world.METADATA, world.METADATA_ALIAS, world.SHARED):
        run("ip", "address", "add", address + "/32", "dev", "lo")
    for address in world.PUBLIC6:
        run("ip", "address", "add", address + "/128", "dev", "lo", "nodad")
    run("ip", "address", "add", world.GATEWAY + "/24", "dev", "wan0")
    run("ip", "address", "add", world.GATEWAY6 + "/64", "dev", "wan0", "nodad")
    run("ip", "link", "set", "wan0", "up")


def say(word):
    print(word, flush=True)
    if not sys.stdin.readline():
        raise SystemExit(1)


def main():
    say("here")
    if ROLE == "host":
        # As a user's own services do; and on all addresses, as they should not.
        for address, port in (("0.0.0.0", 80), ("::", 80), ("0.0.0.0", 443), ("0.0.0.0", 8080)):
            serve(address, port, False)
    else:
        links()
        say("linked")
        repository()
        packages()
        serve_names()
        for address in world.SERVED:
            for port, secure in world.PORTS:
                serve(address, port, secure)
        if shutil.which("node"):
            serve_http2()
        serve_ssh()
    say("serving")


main()
