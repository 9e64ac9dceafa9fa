/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into a worker that is built with AddressSanitizer: the leak check at exit clones and
 * traces its own process, which the worker's filter is there to prevent, and then waits for ever.
 */
const char *__asan_default_options(void);

/* Default visibility, because the runtime is a shared library and looks the function up in the
 * program. */
__attribute__((visibility("default"))) const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}
