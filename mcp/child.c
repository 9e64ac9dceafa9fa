/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mcp/child_copy.h"
#include "mcp/connection.h"
#include "mcp/connection_slot.h"
#include "mcp/fault.h"
#include "mcp/memory.h"
#include "mcp/record.h"
#include "shared/base/clock.h"

/* Exit statuses of the program, as the command line defines them. */
#define STATUS_SETUP 88
#define STATUS_HOST  125

struct child_agent {
	struct child_agent *next;
	struct children *all;
	struct child_agent *parent; /* NULL: the server's own client opened it */
	uint64_t number;
	unsigned depth; /* from 1 */
	char name[CHILD_NAME_MAX + 1];
	char session[CONNECTION_NAME_SIZE];
	enum koda_mode mode;
	bool asks_hosts, narrowed, drafts, judged;
	char *root;
	int root_fd;
	struct koda_policy *policy;
	enum koda_workspace workspace;
	struct child_copy *copy; /* NULL: it works in the project, or in a draft */
	time_t until;            /* when its token expires */

	struct connection *conn; /* NULL: its client has not connected */
	int in, out, control;
	struct server_watch watch; /* of control */
	bool acted;                /* its client has requested an action */
	bool ending;
	const char *sentence; /* sent to its client at the end; static, or NULL */
	child_closed_fn *closed;
	void *data;
};

struct children {
	struct server *server;
	struct endpoint *ep;
	struct server_watch watch;
	const char *helper_dir;
	struct child_agent *first;
	uint64_t last_number;
};

/* ---- the end ---- */

static void
end_copy(struct child_agent *child, struct connection *conn)
{
	if (child->copy == NULL)
		return;
	child_copy_end(child->copy, &child->all->server->hub, child->session, conn);
	child->copy = NULL;
}

/* Its session has ended. If its client has only looked at what the server is, another one may come. */
static void
child_left(struct child_agent *child, struct connection *conn)
{
	if (child->ending || child->acted)
		end_copy(child, conn);
}

static void
free_child(struct child_agent *child)
{
	struct child_agent **at = &child->all->first;

	end_copy(child, NULL);
	while (*at != child)
		at = &(*at)->next;
	*at = child->next;
	if (child->root_fd >= 0)
		close(child->root_fd);
	koda_policy_free(child->policy);
	free(child->root);
	if (child->closed != NULL)
		child->closed(child->data);
	free(child);
}

static void
end(struct child_agent *child, const char *sentence)
{
	if (!child->ending)
		child->sentence = sentence;
	child->ending = true;
	if (child->conn != NULL) {
		server_end_connection(child->all->server, child->conn);
		return;
	}
	endpoint_revoke(child->all->ep, child->number);
	free_child(child);
}

/* Restarts from the beginning after each one, because ending it takes others out of the list. */
static void
end_below(const struct child_agent *parent)
{
	struct child_agent *c = parent->all->first;

	while (c != NULL) {
		bool is_below = c->parent == parent && !c->ending;

		if (is_below) {
			end_below(c);
			end(c, "the agent that opened this session has ended");
		}
		c = is_below ? parent->all->first : c->next;
	}
}

void
child_close(struct child_agent *child, child_closed_fn *closed, void *data)
{
	child->closed = closed;
	child->data = data;
	end_below(child);
	end(child, "the agent that opened this session has closed it");
}

void
child_closed_unheard(struct child_agent *child)
{
	child->closed = NULL;
}

static void
end_client(struct child_agent *child, uint8_t status, const char *sentence)
{
	server_unwatch(child->all->server, &child->watch);
	endpoint_end(child->control, status, sentence);
	close(child->in);
	close(child->out);
}

/* Called when its connection has been freed, and its session with it, or could not be created. */
static void
on_ended(void *data, const struct koda_error *why)
{
	struct child_agent *child = data;
	struct children *all = child->all;

	child->conn = NULL;
	if (why == NULL && !child->ending && !child->acted &&
	    endpoint_give_back(all->ep, child->number)) {
		end_client(child, 0, NULL);
		return;
	}
	endpoint_revoke(all->ep, child->number);
	child->ending = true;
	end_below(child);
	/* Its children with a connection end at the end of this turn; until then they have no
	 * parent. */
	for (struct child_agent *c = all->first; c != NULL; c = c->next)
		c->parent = c->parent == child ? NULL : c->parent;
	if (why != NULL)
		end_client(child, why->code == KODA_UNSUPPORTED ? STATUS_SETUP : STATUS_HOST,
		    why->message);
	else
		end_client(child, 0, child->sentence);
	free_child(child);
}

/* ---- the client connects ---- */

static struct child_agent *
by_number(const struct children *all, uint64_t number)
{
	struct child_agent *c = all->first;

	while (c != NULL && c->number != number)
		c = c->next;
	return c;
}

/* The program that the client started has died, or sends something without reason. */
static void
on_control(struct server_watch *watch, short revents)
{
	struct child_agent *child =
	    (struct child_agent *)((char *)watch - offsetof(struct child_agent, watch));
	char byte;

	if (recv(watch->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return;
	/* Its connection may still be in use for a while: do not report this again. */
	server_unwatch(child->all->server, watch);
	server_end_connection(child->all->server, child->conn);
}

/* Its client has requested an action: from here on its token counts as used. A client that
 * disconnects before that has only looked at what the server is, as some clients do, and may come
 * again. */
static void
child_acts(struct child_agent *child)
{
	if (!child->acted)
		endpoint_revoke(child->all->ep, child->number);
	child->acted = true;
}

/* Opens the session on the directory that was meant when the child was opened, wherever its path
 * leads now. */
static struct connection *
connect_child(struct child_agent *child, struct koda_error *err)
{
	char by[64];
	const struct connection_options options = {
		.name = child->session,
		.in = child->in,
		.out = child->out,
		.root = child->root,
		.root_by = by,
		.mode = child->mode,
		.policy = child->policy,
		.narrowed = child->narrowed,
		.drafts = child->drafts,
		.judged = child->judged,
		.asks_hosts = child->asks_hosts,
		.child = child,
		.acts = child_acts,
		.left = child_left,
		.helper_dir = child->all->helper_dir,
	};

	snprintf(by, sizeof(by), "/proc/self/fd/%d", child->root_fd);
	return connection_new(&child->all->server->hub, &options, err);
}

static void
on_child(void *data, uint64_t number, int in, int out, int control)
{
	struct children *all = data;
	struct child_agent *child = by_number(all, number);
	struct koda_error err = { 0 };

	if (child == NULL) {
		close(in);
		close(out);
		endpoint_end(control, STATUS_HOST, "the agent that opened this session has ended");
		return;
	}
	child->in = in;
	child->out = out;
	child->control = control;
	child->conn = connect_child(child, &err);
	if (child->conn == NULL) {
		on_ended(child, &err);
		return;
	}
	record_client(child->conn, "connected");
	server_add(all->server, child->conn, on_ended, child);
	child->watch =
	    (struct server_watch){ .fd = control, .events = POLLIN, .ready = on_control };
	server_watch(all->server, &child->watch);
}

static void
on_endpoint(struct server_watch *watch, short revents)
{
	struct children *all =
	    (struct children *)((char *)watch - offsetof(struct children, watch));

	endpoint_dispatch(all->ep);
}

/* ---- opening ---- */

/* Ends children whose tokens have expired: their clients can no longer connect. */
static void
drop_late(struct children *all)
{
	time_t now = (time_t)boottime_s();
	struct child_agent *c = all->first, *next;

	for (; c != NULL; c = next) {
		next = c->next;
		if (c->conn == NULL && !c->ending && c->until < now)
			end(c, NULL);
	}
}

static bool
is_name(const char *name)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = strspn(name, letters);

	return n > 0 && n <= CHILD_NAME_MAX && name[n] == '\0';
}

static bool
is_inside(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1)
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/*
 * A worker reported a directory below the parent's root at this path. A link may have changed the
 * path since, to a directory that was not judged: so the descriptor's own path must be this path.
 */
static int
open_root(const char *root, struct koda_error *err)
{
	char link[64], at[PATH_MAX];
	int fd = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return fault_set(err, KODA_IO, errno, "open '%s'", root);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, at, sizeof(at) - 1);
	if (n > 0 && (size_t)n == strlen(root) && memcmp(at, root, (size_t)n) == 0)
		return fd;
	close(fd);
	return fault_set(err, KODA_CONFLICT, 0, "'%s' was moved or replaced", root);
}

static int
check(const struct connection *parent, const struct child_wish *wish, struct koda_error *err)
{
	const struct children *all = parent->hub->children;
	size_t n = 0;

	if (!is_name(wish->name))
		return fault_set(err, KODA_INVALID, 0,
		    "name: must have 1 to %d characters, which are letters, digits, '.', '_' or '-'",
		    CHILD_NAME_MAX);
	if (child_find(parent, wish->name) != NULL)
		return fault_set(err, KODA_CONFLICT, 0,
		    "name: a child '%s' already exists; close it, or choose another name",
		    wish->name);
	if (wish->mode > parent->mode)
		return fault_set(err, KODA_POLICY_DENIED, 0,
		    "mode: a child's mode cannot be above its parent's");
	if (!is_inside(wish->root, parent->root))
		return fault_set(err, KODA_POLICY_DENIED, 0,
		    "subdirectory: '%.400s' is not below the root", wish->root);
	if (wish->workspace != KODA_WORKSPACE_DIRECT && wish->mode == KODA_PLAN)
		return fault_set(err, KODA_INVALID, 0,
		    "workspace: a child in plan mode changes nothing, so it needs none of its own");
	if (wish->workspace == KODA_WORKSPACE_WORKTREE && parent->drafts)
		return fault_set(err, KODA_POLICY_DENIED, 0,
		    "workspace: a worktree has its branch in the project, of which this session works in a draft: use draft or clone");
	if (parent->child != NULL && parent->child->depth >= CHILD_DEPTH_MAX)
		return fault_set(err, KODA_POLICY_DENIED, 0,
		    "this session is nested too deep to open a child");
	for (const struct child_agent *c = all->first; c != NULL; c = c->next)
		n++;
	if (n >= CHILDREN_MAX)
		return fault_set(err, KODA_TOO_LARGE, 0,
		    "%d children are open, which is the maximum: close one", CHILDREN_MAX);
	return 0;
}

/* While its slot and its copy were made, the parent may have been ended, and others opened. */
static int
check_again(struct connection *parent, struct child_agent *child, const struct child_wish *wish,
    struct koda_error *err)
{
	struct child_agent **at = &child->all->first;
	int r;

	if (parent->ending || (parent->child != NULL && parent->child->ending))
		return fault_set(err, KODA_WORKER, 0, "the session has ended");
	/* It does not count against itself. */
	*at = child->next;
	r = check(parent, wish, err);
	*at = child;
	return r;
}

static struct child_state
state_of(const struct child_agent *c)
{
	return (struct child_state){
		.name = c->name,
		.root = c->root,
		.mode = c->mode,
		.workspace = c->workspace,
		.connected = c->conn != NULL,
		.draft = c->conn != NULL ? c->conn->draft : NULL,
	};
}

static bool
is_copy(const struct child_wish *wish)
{
	return wish->workspace == KODA_WORKSPACE_WORKTREE ||
	    wish->workspace == KODA_WORKSPACE_CLONE;
}

static struct child_agent *
add_child(struct connection *parent, const struct child_wish *wish)
{
	struct children *all = parent->hub->children;
	struct child_agent *child = memory_zero(sizeof(*child));

	*child = (struct child_agent){
		.next = all->first,
		.all = all,
		.parent = parent->child,
		.number = ++all->last_number,
		.depth = parent->child != NULL ? parent->child->depth + 1 : 1,
		.mode = wish->mode,
		/* A child with fewer domains must not ask for the rest. */
		.asks_hosts = parent->asks_hosts && wish->network && !wish->has_domains,
		/* With the parent's root, commands get the same git directory as the parent's
		 * commands; in a worktree they need the one that it belongs to. */
		.narrowed = wish->workspace != KODA_WORKSPACE_WORKTREE &&
		    (strcmp(wish->root, parent->root) != 0 ||
			wish->workspace == KODA_WORKSPACE_CLONE ||
			(parent->child != NULL && parent->child->narrowed)),
		.workspace = wish->workspace != KODA_WORKSPACE_DIRECT ? wish->workspace
		    : parent->drafts && wish->mode != KODA_PLAN       ? KODA_WORKSPACE_DRAFT
								      : KODA_WORKSPACE_DIRECT,
		.judged = parent->judged,
		.root_fd = -1,
		.until = boottime_s() + TOKEN_SECONDS,
	};
	/* A draft of its own: two slots cannot work in one. */
	child->drafts = child->workspace == KODA_WORKSPACE_DRAFT;
	snprintf(child->name, sizeof(child->name), "%s", wish->name);
	snprintf(child->session, sizeof(child->session), "%.*s/%s",
	    (int)(sizeof(child->session) - sizeof(child->name) - 1), parent->name, wish->name);
	all->first = child;
	return child;
}

/* Finds the child's root and its policy there. Takes over the policy and the copy, which may be
 * NULL. */
static int
place_child(struct child_agent *child, const char *root, struct koda_policy *policy,
    struct child_copy *copy, struct koda_error *err)
{
	child->policy = policy;
	child->copy = copy;
	if (copy != NULL) {
		root = child_copy_root(copy);
		child->policy = child_copy_policy(copy, policy, err);
		koda_policy_free(policy);
	}
	child->root = memory_string(root);
	child->root_fd = child->policy != NULL ? open_root(root, err) : -1;
	return child->root_fd >= 0 ? 0 : -1;
}

int
child_open(struct connection *parent, const struct child_wish *wish, char ret[ENDPOINT_TOKEN_SIZE],
    struct child_state *state, struct koda_error *err)
{
	struct children *all = parent->hub->children;
	struct koda_policy *policy = NULL;
	struct child_copy *copy = NULL;
	struct koda_slot *slot = NULL;
	struct child_agent *child;

	if (all == NULL)
		return fault_set(err, KODA_UNSUPPORTED, 0,
		    "the server has no runtime directory, so no child could connect");
	drop_late(all);
	if (check(parent, wish, err) < 0)
		return -1;
	if (wish->mode != KODA_PLAN && (slot = connection_slot(parent, err)) == NULL)
		return -1;
	policy = child_policy(koda_session_policy(parent->ses), slot, wish, err);
	if (policy == NULL)
		return -1;
	if (is_copy(wish) && (copy = child_copy_new(parent, wish, policy, err)) == NULL) {
		koda_policy_free(policy);
		return -1;
	}
	child = add_child(parent, wish);
	if (place_child(child, wish->root, policy, copy, err) == 0 &&
	    check_again(parent, child, wish, err) == 0 &&
	    endpoint_open(all->ep, child->number, ret, err) == 0) {
		*state = state_of(child);
		return 0;
	}
	free_child(child);
	return -1;
}

struct child_agent *
child_find(const struct connection *parent, const char *name)
{
	struct child_agent *c = parent->hub->children != NULL ? parent->hub->children->first : NULL;

	while (c != NULL && (c->ending || c->parent != parent->child || strcmp(c->name, name) != 0))
		c = c->next;
	return c;
}

void
child_visit(const struct connection *parent, child_fn *fn, void *data)
{
	struct children *all = parent->hub->children;

	if (all == NULL)
		return;
	drop_late(all);
	for (const struct child_agent *c = all->first; c != NULL; c = c->next) {
		const struct child_state state = state_of(c);

		if (!c->ending && c->parent == parent->child)
			fn(data, &state);
	}
}

bool
child_works_in(const struct connection *conn, const char *draft)
{
	const struct children *all = conn->hub->children;
	const struct child_agent *c = all != NULL ? all->first : NULL;

	while (c != NULL &&
	    (c->conn == NULL || c->conn->draft == NULL || strcmp(c->conn->draft, draft) != 0))
		c = c->next;
	return c != NULL;
}

/* ---- all children ---- */

struct children *
children_new(struct server *server, struct runtime *rt, const char *helper_dir,
    struct koda_error *err)
{
	struct children *all = memory_zero(sizeof(*all));

	all->server = server;
	all->helper_dir = helper_dir;
	all->ep = endpoint_new(rt, on_child, all, err);
	if (all->ep == NULL) {
		free(all);
		return NULL;
	}
	all->watch = (struct server_watch){
		.fd = endpoint_fd(all->ep),
		.events = POLLIN,
		.ready = on_endpoint,
	};
	server_watch(server, &all->watch);
	return all;
}

void
children_free(struct children *all)
{
	if (all == NULL)
		return;
	/* The children whose clients never connected. */
	while (all->first != NULL)
		free_child(all->first);
	server_unwatch(all->server, &all->watch);
	endpoint_free(all->ep);
	free(all);
}

uint64_t
children_refusals(const struct children *all)
{
	return all != NULL ? endpoint_refusals(all->ep) : 0;
}
