/* SPDX-License-Identifier: Apache-2.0 */
#include "include/koda/sandbox.h"

const char *
koda_version(void)
{
	return KODA_VERSION; /* meson.build's */
}
