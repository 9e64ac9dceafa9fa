/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an address belong to this machine? A name with such an address leads to services that listen
 * for this machine only, however public the address looks. Asks the kernel.
 */
#ifndef KODA_PROXY_REACH_OWN_ADDRESS_H
#define KODA_PROXY_REACH_OWN_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* True also where the kernel cannot be asked, for want of descriptors. */
bool is_own_address(const struct sockaddr *sa);

#endif
