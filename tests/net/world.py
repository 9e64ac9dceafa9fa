# SPDX-License-Identifier: Apache-2.0
"""Who is who in the rig: names, addresses, what a look-up says."""

BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

# The host, and its gateway to the internet.
HOST, HOST6 = "10.99.0.2", "fd99::2"
GATEWAY, GATEWAY6 = "10.99.0.1", "fd99::1"

# Public, as far as anybody can tell.
SITE, SITE6 = "44.1.2.10", "2600:abcd::10"
HTTP2, HTTP2_6 = "44.1.2.20", "2600:abcd::20"  # speaks HTTP/2 and HTTP/1.1
EVIL, EVIL6 = "44.1.2.66", "2600:abcd::66"
CLOSED = "44.1.2.99"  # is there, and nobody listens
DARK, DARK6 = "44.1.2.98", "2600:abcd::98"  # nobody answers
METADATA, METADATA_ALIAS = "169.254.169.254", "100.100.100.200"
SHARED = "100.64.0.7"
PUBLIC = (SITE, HTTP2, EVIL, CLOSED)
PUBLIC6 = (SITE6, HTTP2_6, EVIL6)

# Where every kind of client is answered. The gateway, the metadata services and 100.64/10 answer too: that nobody
# comes there is what is tested.
SERVED = (SITE, SITE6, EVIL, EVIL6, GATEWAY, GATEWAY6, METADATA, METADATA_ALIAS, SHARED)
PORTS = ((80, False), (443, True), (8080, False), (8443, True), (3128, False))

WILD = "githubusercontent.com"
HOSTS = {"hosts." + WILD: SITE}  # /etc/hosts, and no resolver knows it

# name -> (A, AAAA); a list of two lists: the second is said after the name's /switch was asked for.
ZONE = {
    "github.com": ([SITE], [SITE6]),
    "codeload.github.com": ([SITE], []),
    "api.github.com": ([HTTP2], [HTTP2_6]),
    "raw." + WILD: ([SITE], [SITE6]),
    "six." + WILD: ([], [SITE6]),
    "closed." + WILD: ([CLOSED], []),
    "dark." + WILD: ([DARK], []),
    "eyeballs." + WILD: ([SITE], [DARK6]),
    "mirror.npmjs.org": ([SITE], []),
    "mirror.pypi.org": ([SITE], []),
    "deb.rig.example": ([SITE], []),
    "evil.example": ([EVIL], [EVIL6]),
    "github.com.evil.example": ([EVIL], []),
    "evilgithub.com": ([EVIL], []),
    "ask.example": ([SITE], []),
    # Allowed names that lead where nobody may go.
    "lan." + WILD: ([GATEWAY], []),
    "lan6." + WILD: ([], [GATEWAY6]),
    "own." + WILD: ([HOST], []),
    "loop." + WILD: (["127.0.0.1"], []),
    "loop6." + WILD: ([], ["::1"]),
    "zero." + WILD: (["0.0.0.0"], []),
    "metadata." + WILD: ([METADATA], []),
    "alibaba." + WILD: ([METADATA_ALIAS], []),
    "shared." + WILD: ([SHARED], []),
    "mapped." + WILD: ([], ["::ffff:" + GATEWAY]),
    "nat64." + WILD: ([], ["64:ff9b::" + GATEWAY]),
    "sixtofour." + WILD: ([], ["2002:0a63:0001::1"]),
    "both." + WILD: ([GATEWAY, SITE], []),
    "rebind." + WILD: ([[SITE], [GATEWAY]], []),
    "search.example": ([EVIL], []),
    "github.com.search.example": ([EVIL], []),
    "nowhere." + WILD + ".search.example": ([SITE], []),
}

CERTIFIED = ["github.com", "*.github.com", "*." + WILD, "*.npmjs.org", "*.pypi.org", "*.rig.example", "corp.example", "ask.example", "evil.example"]
