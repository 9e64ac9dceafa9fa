/* SPDX-License-Identifier: Apache-2.0 */
/* Lists whose elements have `prev` and `next`; `first` is the pointer to the first element. */
#ifndef KODA_PROXY_LIST_H
#define KODA_PROXY_LIST_H

#define list_add(first, e)                                                                         \
	do {                                                                                       \
		(e)->prev = NULL;                                                                  \
		(e)->next = (first);                                                               \
		if ((first) != NULL)                                                               \
			(first)->prev = (e);                                                       \
		(first) = (e);                                                                     \
	} while (0)

#define list_remove(first, e)                                                                      \
	do {                                                                                       \
		if ((e)->next != NULL)                                                             \
			(e)->next->prev = (e)->prev;                                               \
		if ((e)->prev != NULL)                                                             \
			(e)->prev->next = (e)->next;                                               \
		else                                                                               \
			(first) = (e)->next;                                                       \
	} while (0)

#endif
