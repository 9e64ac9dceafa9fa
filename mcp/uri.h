/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between file:// URIs and paths. Pure. */
#ifndef KODA_MCP_URI_H
#define KODA_MCP_URI_H

/* Returns the absolute path of a file:// URI of this host, to be freed; NULL: another kind of
 * URI, or one that encodes NUL. */
char *uri_to_path(const char *uri);
/* Returns the URI of an absolute path, to be freed. */
char *uri_of_path(const char *path);

#endif
