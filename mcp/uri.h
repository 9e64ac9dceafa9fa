/* file:// URIs and the paths that they mean. Pure. */
#ifndef KODA_MCP_URI_H
#define KODA_MCP_URI_H

/* The absolute path of a file:// URI of this host, to be freed; NULL: it is something else, or says NUL. */
char *uri_to_path(const char *uri);
/* Of an absolute path; to be freed. */
char *uri_of_path(const char *path);

#endif
