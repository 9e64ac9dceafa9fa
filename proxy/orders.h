/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host orders: at the start the policy, its grants and the user's own proxy; later to
 * serve a slot or to drop it, and the user's answers. Checks each order and gives it to the part
 * that it concerns. Control reads the orders, and takes those that are answers to its own reports.
 */
#ifndef KODA_PROXY_ORDERS_H
#define KODA_PROXY_ORDERS_H

#include "proxy/control.h"

extern const struct control_handler orders_handler;

#endif
