/* SPDX-License-Identifier: Apache-2.0 */
/* The home directory of this process's user. */
#ifndef KODA_HOST_MACHINE_HOME_H
#define KODA_HOST_MACHINE_HOME_H

/* Returns HOME or, without it, the home directory in the user database; canonical if it exists, ""
 * if there is none. The caller frees it. NULL when memory is short. */
char *home_find(void);

#endif
