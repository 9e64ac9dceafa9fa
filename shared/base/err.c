/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[] = {
	[KODA_OK] = "ok",
	[KODA_INVALID] = "invalid",
	[KODA_POLICY_DENIED] = "policy_denied",
	[KODA_NOT_APPROVED] = "not_approved",
	[KODA_CONFLICT] = "conflict",
	[KODA_IO] = "io",
	[KODA_TOO_LARGE] = "too_large",
	[KODA_UNKNOWN] = "unknown",
	[KODA_TIMEOUT] = "timeout",
	[KODA_WORKER] = "worker",
	[KODA_PROTOCOL] = "protocol",
	[KODA_UNSUPPORTED] = "unsupported",
	[KODA_INTERNAL] = "internal",
};

const char *
koda_code_name(enum koda_code code)
{
	/* The value may come from the embedder and be none of the enum, even negative. */
	size_t i = (size_t)code;

	return i < sizeof(code_names) / sizeof(code_names[0]) ? code_names[i] : "internal";
}

/* Marks a message that was cut, so that a person sees it. Never cuts inside a UTF-8 character. */
static void
mark_cut(char *buf, size_t size)
{
	static const char dots[] = "...";
	size_t at;

	if (size < sizeof(dots))
		return;
	at = size - sizeof(dots);
	while (at > 0 && ((unsigned char)buf[at] & 0xc0) == 0x80)
		at--;
	memcpy(buf + at, dots, sizeof(dots));
}

/* Like vsnprintf(), but marks a cut. Returns the length of the text in buf. */
static size_t __attribute__((format(printf, 3, 0)))
put(char *buf, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(buf, size, fmt, ap);

	if (n < 0) {
		buf[0] = '\0';
		return 0;
	}
	if ((size_t)n < size)
		return (size_t)n;
	mark_cut(buf, size);
	return strlen(buf);
}

int
err_set(struct koda_error *err, enum koda_code code, int errnum, const char *fmt, ...)
{
	int saved = errno;
	const char *reason = NULL;
	size_t room, len;
	va_list ap;

	if (err == NULL)
		return -1;
	if (errnum != 0) {
		/* Unlike strerror(): static, and the same in every locale. */
		reason = strerrordesc_np(errnum);
		if (reason == NULL)
			reason = "unknown error";
	}
	err->code = code;
	err->errnum = errnum;
	err->rule[0] = '\0';
	err->path[0] = '\0';
	/* The reason is short and matters most: the rest is cut to make room for it. */
	room = sizeof(err->message) - (reason != NULL ? strlen(reason) + 2 : 0);
	va_start(ap, fmt);
	len = put(err->message, room, fmt, ap);
	va_end(ap);
	if (reason != NULL)
		snprintf(err->message + len, sizeof(err->message) - len, ": %s", reason);
	errno = saved;
	return -1;
}

int
err_wrap(struct koda_error *err, const char *fmt, ...)
{
	char old[sizeof(err->message)];
	int saved = errno, n;
	size_t len;
	va_list ap;

	if (err == NULL)
		return -1;
	memcpy(old, err->message, sizeof(old));
	va_start(ap, fmt);
	len = put(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	n = snprintf(err->message + len, sizeof(err->message) - len, ": %s", old);
	if (n < 0 || (size_t)n >= sizeof(err->message) - len)
		mark_cut(err->message, sizeof(err->message));
	errno = saved;
	return -1;
}

static void
copy_cut(char *buf, size_t size, const char *text)
{
	size_t len = text != NULL ? strlen(text) : 0;

	if (len >= size)
		len = size - 1;
	if (len > 0)
		memcpy(buf, text, len);
	buf[len] = '\0';
}

int
err_about(struct koda_error *err, const char *path, const char *rule)
{
	if (err == NULL)
		return -1;
	copy_cut(err->path, sizeof(err->path), path);
	copy_cut(err->rule, sizeof(err->rule), rule);
	return -1;
}

void
err_clear(struct koda_error *err)
{
	if (err == NULL)
		return;
	err->code = KODA_OK;
	err->errnum = 0;
	err->rule[0] = '\0';
	err->path[0] = '\0';
	err->message[0] = '\0';
}
