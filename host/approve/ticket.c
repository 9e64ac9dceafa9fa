/* SPDX-License-Identifier: Apache-2.0 */
#include "host/approve/ticket.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define BOOK_TICKETS 64

/* A place is taken by setting its number. Only the thread that uses the question's session knows
 * that number, so no other thread reads `asked`. */
struct ticket_place {
	atomic_uintptr_t number; /* 0: free */
	struct asked *asked;
};

/* Books are added and never freed, so they can be searched without a lock, also in a child that
 * was forked at any moment. There are as many as the most questions open at once need. */
struct book {
	struct book *next;
	struct ticket_place place[BOOK_TICKETS];
};

static struct book *_Atomic books;
static atomic_uintptr_t last_number;

static uintptr_t
next_number(void)
{
	uintptr_t number = 0;

	while (number == 0)
		number = atomic_fetch_add(&last_number, 1) + 1;
	return number;
}

static struct ticket_place *
find_place(uintptr_t number)
{
	for (struct book *b = atomic_load(&books); b != NULL; b = b->next)
		for (size_t i = 0; i < BOOK_TICKETS; i++)
			if (atomic_load(&b->place[i].number) == number)
				return &b->place[i];
	return NULL;
}

static bool
add_book(void)
{
	struct book *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return false;
	b->next = atomic_load(&books);
	while (!atomic_compare_exchange_weak(&books, &b->next, b))
		;
	return true;
}

struct koda_approval *
ticket_issue(struct asked *a)
{
	const uintptr_t number = next_number();

	for (;;) {
		struct ticket_place *place = find_place(0);
		uintptr_t none = 0;

		if (place == NULL && !add_book())
			return NULL;
		if (place == NULL || !atomic_compare_exchange_strong(&place->number, &none, number))
			continue; /* another thread may have taken it */
		place->asked = a;
		return (struct koda_approval *)number;
	}
}

struct asked *
ticket_find(const struct koda_approval *ticket)
{
	const struct ticket_place *place = ticket != NULL ? find_place((uintptr_t)ticket) : NULL;

	return place != NULL ? place->asked : NULL;
}

void
ticket_end(const struct koda_approval *ticket)
{
	struct ticket_place *place = ticket != NULL ? find_place((uintptr_t)ticket) : NULL;

	if (place != NULL)
		atomic_store(&place->number, 0);
}
