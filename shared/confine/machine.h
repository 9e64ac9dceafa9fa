/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that this code is compiled for, as seccomp calls it. Filters are lists of system call
 * numbers, which differ between machines, so each generated filter compares its machine with this
 * one (tools/gen-seccomp.c).
 */
#ifndef KODA_SHARED_CONFINE_MACHINE_H
#define KODA_SHARED_CONFINE_MACHINE_H

#include <linux/audit.h>

#if defined(__x86_64__) && defined(__LP64__)
#define MACHINE_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define MACHINE_AUDIT_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && defined(__LP64__)
#define MACHINE_AUDIT_ARCH AUDIT_ARCH_RISCV64
#else
#error                                                                                             \
    "koda-sandbox has no system call filters for this machine: build it for one of tools/gen-seccomp.c"
#endif

#endif
