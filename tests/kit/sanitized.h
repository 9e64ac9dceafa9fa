/* SPDX-License-Identifier: Apache-2.0 */
/* Reports whether this is a build with AddressSanitizer. Its shadow memory and the freed memory
 * that it keeps count as memory of the program, and its runtime makes system calls of its own. */
#ifndef KODA_TESTS_KIT_SANITIZED_H
#define KODA_TESTS_KIT_SANITIZED_H

#include <stdbool.h>

#ifdef __has_feature
#define SANITIZED_BY_CLANG __has_feature(address_sanitizer)
#else
#define SANITIZED_BY_CLANG 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZED_BY_CLANG
#define SANITIZED true
#else
#define SANITIZED false
#endif

#endif
