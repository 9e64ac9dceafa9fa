/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/caches/cache_project.h"
#include "host/machine/home.h"
#include "host/machine/state.h"
#include "host/sandbox/cache_boot.h"
#include "host/sandbox/sandbox_input.h"
#include "shared/base/cleanup.h"

int
sandbox_arguments(const struct sandbox *sb, const struct bwrap_writable *writable,
    size_t n_writable, const struct cache_fds *fds, int draft_fd, struct bwrap_arguments *ret,
    struct koda_error *err)
{
	/* Files named in the environment of commands have to be visible wherever they are. */
	const char *const files[] = { egress_connect_path(sb->ses),
		koda_policy_get(sb->policy)->ca_bundle,
		/* The library's own commands may run it as a program (host/copy/clone_copy). */
		sb->ses->own_commands ? sb->ses->worker_path : NULL };
	cleanup_free const char **shown =
	    calloc(sb->view.n_shown + N_ELEMENTS(files), sizeof(*shown));
	struct bwrap_input in = { .writable = writable,
		.n_writable = n_writable,
		.shown = shown,
		.caches = cache_boot_any(sb) ? sb->ses->home : NULL,
		.layers = cache_boot_any(sb) ? sb->layers.path : NULL,
		.caches_fd = fds->caches,
		.layers_fd = fds->layers,
		.draft = draft_fd >= 0 ? "" : NULL,
		.draft_fd = draft_fd,
		.certificates = egress_certificates(&sb->egress),
		.stage2_fd = FD_STAGE2,
		.uid = (unsigned)getuid() };

	if (shown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox arguments");
	for (size_t i = 0; i < sb->view.n_shown; i++)
		shown[in.n_shown++] = sb->view.shown[i];
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		if (files[i] != NULL && files[i][0] == '/' && access(files[i], F_OK) == 0)
			shown[in.n_shown++] = files[i];
	return bwrap_arguments(&in, ret, err);
}

int
sandbox_arguments_file(const struct bwrap_arguments *a, struct koda_error *err)
{
	cleanup_close int fd = memfd_create("koda-bwrap", MFD_CLOEXEC);
	cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *f = fd < 0 ? NULL : open_memstream(&text, &len);

	for (size_t i = 0; f != NULL && i < a->n_options; i++)
		fwrite(a->v[i], strlen(a->v[i]) + 1, 1, f);
	if (f == NULL || fclose(f) != 0 || write(fd, text, len) != (ssize_t)len ||
	    lseek(fd, 0, SEEK_SET) < 0) {
		err_set(err, KODA_INTERNAL, errno, "sandbox arguments");
		return -1;
	}
	return take_fd(&fd);
}

int
koda_sandbox_arguments(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    koda_argument_fn *fn, void *data, struct koda_error *err)
{
	cleanup(bwrap_arguments_done) struct bwrap_arguments arguments = { 0 };
	struct koda_session ses = { .root = (char *)(uintptr_t)root, .mode = mode };
	struct sandbox sb = { .draft = { .fd = -1 },
		.ses = &ses,
		.policy = (struct koda_policy *)(uintptr_t)policy };
	const struct cache_fds none = { -1, -1 };
	struct bwrap_writable *writable = NULL;
	size_t n_writable = 0;
	int r = -1;

	if (policy == NULL || !koda_policy_frozen(policy))
		return err_set(err, KODA_INVALID, 0, "the policy is not frozen");
	ses.home = home_find();
	if (ses.home == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "sandbox");
	ses.state = state_path(ses.home);
	sb.layers.path = cache_project_path(ses.root, ses.home, err);
	if (sb.layers.path != NULL && sandbox_find_caches(&sb, err) == 0 &&
	    sandbox_plan(&sb, err) == 0 &&
	    (writable = calloc(sb.view.n_writable + 1, sizeof(*writable))) != NULL) {
		for (size_t i = 0; i < sb.view.n_writable; i++)
			if (view_binds(&sb.view, sb.view.writable[i]))
				writable[n_writable++] =
				    (struct bwrap_writable){ sb.view.writable[i], -1, false };
		r = sandbox_arguments(&sb, writable, n_writable, &none, -1, &arguments, err);
		for (size_t i = 0; r == 0 && i < arguments.n; i++)
			r = fn(data, arguments.v[i], arguments.comment[i]);
	}
	free(writable);
	view_done(&sb.view);
	free(sb.cache);
	caches_done(&sb.caches);
	free(sb.git_dir);
	free(sb.layers.path);
	free(ses.state);
	free(ses.home);
	return r;
}
