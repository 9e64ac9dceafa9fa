/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tool_table.h"

#include "mcp/tool_change.h"
#include "mcp/tool_child.h"
#include "mcp/tool_command.h"
#include "mcp/tool_draft.h"
#include "mcp/tool_history.h"
#include "mcp/tool_read.h"
#include "mcp/tool_search.h"

#define DIGEST_IN                                                                                  \
	"\"if_digest\":{\"type\":\"string\",\"minLength\":64,\"maxLength\":64,\"description\":"    \
	"\"only if the file still has this digest\"}"
#define CHANGED                                                                                    \
	"\"path\":{\"type\":\"string\"},\"created\":{\"type\":\"boolean\"},\"size\":{\"type\":"    \
	"\"integer\"},\"digest\":{\"type\":\"string\"},\"recovered\":{\"type\":\"boolean\"}"

#define ID_IN "\"id\":{\"type\":\"string\",\"minLength\":1}"
/* The state of a command. */
#define STATE                                                                                      \
	"\"running\":{\"type\":\"boolean\"},\"exit_code\":{\"type\":\"integer\"},"                 \
	"\"signal\":{\"type\":\"integer\"},\"limit\":{\"type\":\"string\",\"description\":"        \
	"\"the limit that it ran into\"},\"left_behind\":{\"type\":\"integer\",\"description\":"   \
	"\"processes that were ended with it\"},\"duration_ms\":{\"type\":\"integer\"},"           \
	"\"error\":{\"type\":\"string\",\"description\":\"why it is unknown how it ended\"},"      \
	"\"code\":{\"type\":\"string\"}"
#define STREAM(more)                                                                               \
	"{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"                     \
	"\"left_out\":{\"type\":\"integer\",\"description\":\"bytes between text and tail\"},"     \
	"\"tail\":{\"type\":\"string\"}" more "},\"required\":[\"text\"]}"
#define VIOLATIONS                                                                                                                \
	"\"violations\":{\"type\":\"array\",\"description\":\"what the sandbox refused or took away; kind note: only reported\"," \
	"\"items\":{\"type\":\"object\",\"properties\":{\"kind\":{\"type\":\"string\"},"                                          \
	"\"target\":{\"type\":\"string\"},\"rule\":{\"type\":\"string\"},\"detail\":{\"type\":"                                   \
	"\"string\"},\"certain\":{\"type\":\"boolean\"}},\"required\":[\"kind\",\"target\"]}}"
#define NEXT ",\"next_offset\":{\"type\":\"integer\"},\"more\":{\"type\":\"boolean\"}"
#define OUTPUT                                                                                     \
	"{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"}," STATE "," VIOLATIONS  \
	",\"stdout\":" STREAM(NEXT) ",\"stderr\":" STREAM(                                         \
	    NEXT) "},\"required\":[\"id\","                                                        \
		  "\"running\",\"duration_ms\",\"stdout\",\"stderr\"]}"

/* For a draft. */
#define DRAFT_IN                                                                                   \
	"\"draft\":{\"type\":\"string\",\"minLength\":1,\"description\":\"its id; default: this "  \
	"session's\"}"
#define PATHS_IN                                                                                    \
	"\"paths\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"type\":"       \
	"\"string\",\"minLength\":1},\"description\":\"only these: paths, with all below them, or " \
	"globs\"}"
#define CHANGES                                                                                    \
	"\"changes\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"          \
	"\"path\":{\"type\":\"string\"},\"kind\":{\"type\":\"string\"},\"outcome\":{\"type\":"     \
	"\"string\"},\"size\":{\"type\":\"integer\"},\"rule\":{\"type\":\"string\"},"              \
	"\"merge\":{\"type\":\"string\"},\"merged\":{\"type\":\"boolean\"}},\"required\":["        \
	"\"path\",\"kind\",\"outcome\"]}},\"total\":{\"type\":\"integer\"},\"applied\":{\"type\":" \
	"\"integer\"},\"refused\":{\"type\":\"integer\"},\"conflicts\":{\"type\":\"integer\"}"     \
	",\"unlisted\":{\"type\":\"boolean\",\"description\":\"the draft has more names, or "      \
	"deeper ones, than are listed: these stay in it\"},"                                       \
	"\"notes\":{\"type\":\"array\",\"description\":\"what git hides afterwards\",\"items\":{"  \
	"\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"text\":{\"type\":"   \
	"\"string\"}},\"required\":[\"path\",\"text\"]}}"

#define CHILD_LEFT                                                                                 \
	"\"drafts\":{\"type\":\"array\",\"description\":\"what children changed and is not "       \
	"decided on yet: for draft_diff, draft_apply and draft_discard\",\"items\":{\"type\":"     \
	"\"object\",\"properties\":{\"draft\":{\"type\":\"string\"},\"child\":{\"type\":"          \
	"\"string\"}},\"required\":[\"draft\",\"child\"]}},"                                       \
	"\"copies\":{\"type\":\"array\",\"description\":\"worktrees and branches that children "   \
	"left; hint: commands to review, merge and discard\",\"items\":{\"type\":\"object\","      \
	"\"properties\":{\"id\":{\"type\":\"string\"},\"child\":{\"type\":\"string\"},"            \
	"\"path\":{\"type\":\"string\"},\"branch\":{\"type\":\"string\"},\"reason\":{\"type\":"    \
	"\"string\"},\"hint\":{\"type\":\"string\"}},\"required\":[\"id\",\"child\",\"path\","     \
	"\"branch\",\"reason\",\"hint\"]}}"

/* For a search: where, what to look at, how much. */
#define SEARCH_IN                                                                                    \
	"\"path\":{\"type\":\"string\",\"minLength\":1,\"default\":\".\"},"                          \
	"\"hidden\":{\"type\":\"boolean\",\"description\":\"include names that begin with a dot\"}," \
	"\"ignored\":{\"type\":\"boolean\",\"description\":\"include what ignore files name\"},"     \
	"\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000}"
#define FOUND                                                                                      \
	"\"found\":{\"type\":\"integer\"},\"more\":{\"type\":\"boolean\"},"                        \
	"\"hidden\":{\"type\":\"integer\",\"description\":\"by the policy\"},"                     \
	"\"troubles\":{\"type\":\"array\",\"description\":\"what could not be read\","             \
	"\"items\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"           \
	"\"reason\":{\"type\":\"string\"}},\"required\":[\"path\",\"reason\"]}}"

/* The size of an answer without content. */
#define OWED_SMALL (8u << 10)
/* Commands run long, and a large amount owed for them would stop the reading of other requests:
 * so this is what most of them print. */
#define OWED_COMMAND (32u << 10)
#define OWED_SEARCH  (32u << 10)
#define OWED_LIST    (256u << 10)
#define OWED_READ    (512u << 10)

/* clang-format off */
const struct tool tools[] = {
	{ "read_file", "Read a file", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "Read a file: text by lines, or bytes; an image as image. A later edit_file or write_file of it is refused if "
	    "it has changed meanwhile.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1},"
	    "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"first line (from 1) or byte (from 0)\"},"
	    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"the maximum; default 2000 lines or 65536 bytes\"},"
	    "\"unit\":{\"type\":\"string\",\"enum\":[\"lines\",\"bytes\"],\"default\":\"lines\"},"
	    "\"numbered\":{\"type\":\"boolean\",\"description\":\"a number before each line\"}},"
	    "\"required\":[\"path\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"},"
	    "\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"utf-8-lossy\",\"base64\",\"image\"]},"
	    "\"size\":{\"type\":\"integer\"},\"digest\":{\"type\":\"string\",\"description\":\"BLAKE2b-256 of the whole file\"},"
	    "\"offset\":{\"type\":\"integer\"},\"count\":{\"type\":\"integer\",\"description\":\"lines or bytes returned\"},"
	    "\"more\":{\"type\":\"boolean\"},\"next_offset\":{\"type\":\"integer\"},\"mime_type\":{\"type\":\"string\"}},"
	    "\"required\":[\"path\",\"encoding\",\"size\",\"digest\"]}",
	    OWED_READ, tool_read_file },
	{ "write_file", "Write a file", TOOL_MUTATES | TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
	    "Create or replace a file atomically; missing directories are created.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1},\"content\":{\"type\":\"string\"},"
	    DIGEST_IN ",\"if_absent\":{\"type\":\"boolean\",\"description\":\"fail if the file exists\"}},"
	    "\"required\":[\"path\",\"content\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{" CHANGED "},\"required\":[\"path\",\"created\",\"size\"]}",
	    OWED_SMALL, tool_write_file },
	{ "edit_file", "Edit a file", TOOL_MUTATES | TOOL_DESTRUCTIVE,
	    "Replace text in a file: all edits happen, in order, or none. old must occur exactly once, unless all is set.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1},"
	    "\"edits\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"old\":{\"type\":\"string\",\"minLength\":1},\"new\":{\"type\":\"string\"},"
	    "\"all\":{\"type\":\"boolean\",\"description\":\"each occurrence\"}},"
	    "\"required\":[\"old\",\"new\"],\"additionalProperties\":false}},"
	    DIGEST_IN "},\"required\":[\"path\",\"edits\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{" CHANGED ",\"replacements\":{\"type\":\"integer\"}},"
	    "\"required\":[\"path\",\"size\",\"digest\",\"replacements\"]}",
	    OWED_SMALL, tool_edit_file },
	{ "list_directory", "List a directory", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "The names in a directory, sorted. What the policy hides is counted, not listed.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1,\"default\":\".\"},"
	    "\"offset\":{\"type\":\"integer\",\"minimum\":0},"
	    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":1000},"
	    "\"sizes\":{\"type\":\"boolean\",\"description\":\"sizes of files, too\"}},"
	    "\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
	    "\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
	    "\"type\":{\"type\":\"string\",\"enum\":[\"regular\",\"directory\",\"symlink\",\"other\",\"none\"]},"
	    "\"size\":{\"type\":\"integer\"}},\"required\":[\"name\",\"type\"]}},"
	    "\"total\":{\"type\":\"integer\"},\"hidden\":{\"type\":\"integer\"},\"more\":{\"type\":\"boolean\"}},"
	    "\"required\":[\"path\",\"entries\",\"total\",\"hidden\",\"more\"]}",
	    OWED_LIST, tool_list_directory },
	{ "move", "Move or rename", TOOL_MUTATES | TOOL_DESTRUCTIVE,
	    "Rename or move a file or directory. to is the new name itself, even if it is an existing directory.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"from\":{\"type\":\"string\",\"minLength\":1},\"to\":{\"type\":\"string\",\"minLength\":1},"
	    "\"overwrite\":{\"type\":\"boolean\",\"description\":\"replace what is there\"}},"
	    "\"required\":[\"from\",\"to\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"to\":{\"type\":\"string\"},"
	    "\"type\":{\"type\":\"string\"},\"recovered\":{\"type\":\"boolean\"}},\"required\":[\"path\",\"to\",\"type\"]}",
	    OWED_SMALL, tool_move },
	{ "remove", "Remove", TOOL_MUTATES | TOOL_DESTRUCTIVE,
	    "Remove a file, a link (not its target) or a directory.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1},"
	    "\"recursive\":{\"type\":\"boolean\",\"description\":\"remove a directory with everything below it\"},"
	    DIGEST_IN "},\"required\":[\"path\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
	    "\"removed\":{\"type\":\"integer\"},\"recovered\":{\"type\":\"boolean\"}},\"required\":[\"path\",\"type\",\"removed\"]}",
	    OWED_SMALL, tool_remove },
	{ "explain_access", "Explain access", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "Explain whether a path may be read or written, or a host reached, and which rule decides. Changes nothing.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\",\"minLength\":1},"
	    "\"access\":{\"type\":\"string\",\"enum\":[\"read\",\"write\"],\"default\":\"read\"},"
	    "\"host\":{\"type\":\"string\",\"minLength\":1,\"description\":\"instead of path: name or address, with optional :port\"}},"
	    "\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"host\":{\"type\":\"string\"},"
	    "\"port\":{\"type\":\"integer\"},\"access\":{\"type\":\"string\"},\"allowed\":{\"type\":\"boolean\"},"
	    "\"asks\":{\"type\":\"boolean\",\"description\":\"the user is asked first\"},\"rule\":{\"type\":\"string\"},"
	    "\"reason\":{\"type\":\"string\"},\"links\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
	    "\"command\":{\"type\":\"object\",\"description\":\"what commands may do there\",\"properties\":{"
	    "\"allowed\":{\"type\":\"boolean\"},\"rule\":{\"type\":\"string\"}}}},"
	    "\"required\":[\"allowed\",\"rule\",\"reason\"]}",
	    OWED_SMALL, tool_explain_access },
	{ "glob", "Find files", TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_APART,
	    "Find files by name: * and ? within a name, ** any directories, {a,b}, [a-z]. A pattern without a slash matches at "
	    "any depth.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"pattern\":{\"type\":\"string\",\"minLength\":1}," SEARCH_IN ","
	    "\"case_insensitive\":{\"type\":\"boolean\"},"
	    "\"newest\":{\"type\":\"boolean\",\"description\":\"newest first, instead of by path\"}},"
	    "\"required\":[\"pattern\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"files\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}," FOUND "},"
	    "\"required\":[\"files\",\"found\",\"more\",\"hidden\"]}",
	    OWED_SEARCH, tool_glob },
	{ "grep", "Search in files", TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_APART,
	    "Search the content of files, as ripgrep does: a Perl regular expression, by lines; binary files are skipped.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"pattern\":{\"type\":\"string\",\"minLength\":1}," SEARCH_IN ","
	    "\"glob\":{\"type\":\"string\",\"minLength\":1,\"description\":\"only files that match; with ! before it, only others\"},"
	    "\"type\":{\"type\":\"string\",\"minLength\":1,\"description\":\"only files of this type: c, py, rust ...\"},"
	    "\"case_insensitive\":{\"type\":\"boolean\"},\"word\":{\"type\":\"boolean\"},"
	    "\"fixed\":{\"type\":\"boolean\",\"description\":\"pattern is plain text\"},"
	    "\"multiline\":{\"type\":\"boolean\",\"description\":\"a match may span lines\"},"
	    "\"context\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100,\"description\":\"lines before and after\"},"
	    "\"before\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100},"
	    "\"after\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100},"
	    "\"output_mode\":{\"type\":\"string\",\"enum\":[\"content\",\"files_with_matches\",\"count\"],\"default\":\"content\"}},"
	    "\"required\":[\"pattern\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"matches\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\"},\"count\":{\"type\":\"integer\",\"description\":\"lines that match\"},"
	    "\"binary\":{\"type\":\"boolean\"},\"lines\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"line\":{\"type\":\"integer\"},\"text\":{\"type\":\"string\"},\"context\":{\"type\":\"boolean\"},"
	    "\"cut\":{\"type\":\"boolean\",\"description\":\"text is only part of the line\"}},\"required\":[\"line\",\"text\"]}}},"
	    "\"required\":[\"path\"]}}," FOUND "},\"required\":[\"matches\",\"found\",\"more\",\"hidden\"]}",
	    OWED_SEARCH, tool_grep },
	{ "tree", "List a tree", TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_APART,
	    "List a directory and everything below it, with sizes and, for directories, the number of files.",
	    "{\"type\":\"object\",\"properties\":{" SEARCH_IN ","
	    "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":256,\"default\":3},"
	    "\"glob\":{\"type\":\"string\",\"minLength\":1,\"description\":\"only files that match\"}},"
	    "\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"path\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},"
	    "\"files\":{\"type\":\"integer\"}},\"required\":[\"path\",\"type\",\"size\"]}}," FOUND "},"
	    "\"required\":[\"entries\",\"found\",\"more\",\"hidden\"]}",
	    OWED_SEARCH, tool_tree },
	{ "run_command", "Run a command", TOOL_RUNS | TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD,
	    "Run a shell command in the sandbox, in the project. It can read, write and reach only what the policy allows; "
	    "refusals are listed after its output. Every process that it started ends with it.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"command\":{\"type\":\"string\",\"minLength\":1,\"description\":\"for sh -c\"},"
	    "\"cwd\":{\"type\":\"string\",\"minLength\":1,\"description\":\"a directory below the root\"},"
	    "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"seconds; at most the policy's, which is the default; in the background: none\"},"
	    "\"background\":{\"type\":\"boolean\",\"description\":\"answer at once, with an id for command_output; runs until it ends, is stopped, or the session ends\"},"
	    "\"draft\":{\"type\":\"boolean\",\"description\":\"hold its changes back: the result lists them, and draft_apply applies them\"}},"
	    "\"required\":[\"command\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"}," STATE "," VIOLATIONS
	    ",\"stdout\":" STREAM("") ",\"stderr\":" STREAM("") ",\"draft\":{\"type\":\"string\"},"
	    "\"undo\":{\"type\":\"string\"},\"discarded\":{\"type\":\"boolean\"}," CHANGES "},\"required\":[\"running\",\"duration_ms\"]}",
	    OWED_COMMAND, tool_run_command },
	{ "command_output", "Output of a background command", TOOL_READ_ONLY,
	    "What a background command has printed since the last call, and whether it is still running.",
	    "{\"type\":\"object\",\"properties\":{" ID_IN ","
	    "\"stdout_offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"first byte to return\"},"
	    "\"stderr_offset\":{\"type\":\"integer\",\"minimum\":0}},"
	    "\"required\":[\"id\"],\"additionalProperties\":false}",
	    OUTPUT, OWED_COMMAND, tool_command_output },
	{ "command_stop", "Stop a background command", TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
	    "End a background command and all that it started, and get the rest of its output.",
	    "{\"type\":\"object\",\"properties\":{" ID_IN "},\"required\":[\"id\"],\"additionalProperties\":false}",
	    OUTPUT, OWED_COMMAND, tool_command_stop },
	{ "command_list", "List background commands", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "The background commands, running and ended ones, newest first.",
	    "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"commands\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
	    "\"properties\":{\"id\":{\"type\":\"string\"},\"command\":{\"type\":\"string\"}," STATE "},"
	    "\"required\":[\"id\",\"command\",\"running\"]}}},\"required\":[\"commands\"]}",
	    OWED_SMALL, tool_command_list },
	{ "draft_diff", "Changes of a draft", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "What a draft changes: a list of at most 200 changes, with what the policy refuses and what is in conflict with "
	    "the project, and diffs of texts. A draft's changes are not in the project until draft_apply.",
	    "{\"type\":\"object\",\"properties\":{" DRAFT_IN "," PATHS_IN ","
	    "\"diff\":{\"type\":\"boolean\",\"default\":true,\"description\":\"with diffs\"}},"
	    "\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"draft\":{\"type\":\"string\"}," CHANGES ","
	    "\"diff\":{\"type\":\"string\"},\"diff_cut\":{\"type\":\"boolean\",\"description\":\"not all is shown\"}},"
	    "\"required\":[\"draft\",\"changes\",\"total\"]}",
	    OWED_LIST, tool_draft_diff },
	{ "draft_apply", "Apply a draft", TOOL_MUTATES | TOOL_DESTRUCTIVE,
	    "Apply a draft, or some of its changes, to the project. What the policy refuses stays in the draft, and what "
	    "changed in the project since, too, unless take says what wins: merge applies both sides' changes where they do "
	    "not overlap. undo takes it back.",
	    "{\"type\":\"object\",\"properties\":{" DRAFT_IN "," PATHS_IN ","
	    "\"take\":{\"type\":\"string\",\"enum\":[\"draft\",\"project\",\"merge\"],\"description\":\"what wins where both changed\"}},"
	    "\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"draft\":{\"type\":\"string\"},"
	    "\"kept\":{\"type\":\"boolean\",\"description\":\"something is left in the draft\"},"
	    "\"undo\":{\"type\":\"string\",\"description\":\"the id for undo\"}," CHANGES "},"
	    "\"required\":[\"draft\",\"kept\",\"changes\",\"total\"]}",
	    OWED_LIST, tool_draft_apply },
	{ "draft_discard", "Discard a draft", TOOL_DESTRUCTIVE,
	    "Discard a draft, or some of its changes. The project stays as it is.",
	    "{\"type\":\"object\",\"properties\":{" DRAFT_IN "," PATHS_IN "},\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"draft\":{\"type\":\"string\"},"
	    "\"kept\":{\"type\":\"boolean\",\"description\":\"something is left in the draft\"}},"
	    "\"required\":[\"draft\",\"kept\"]}",
	    OWED_SMALL, tool_draft_discard },
	{ "history", "What was changed", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "The drafts that were applied to this project and what file operations changed in it, newest first: undo takes it back.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":20}},\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"id\":{\"type\":\"string\"},\"time\":{\"type\":\"string\"},\"changes\":{\"type\":\"integer\"},"
	    "\"undone\":{\"type\":\"integer\"},\"draft\":{\"type\":\"string\"},\"unfinished\":{\"type\":\"boolean\"}},"
	    "\"required\":[\"id\",\"changes\",\"undone\"]}},\"total\":{\"type\":\"integer\"}},\"required\":[\"entries\",\"total\"]}",
	    OWED_LIST, tool_history },
	{ "undo", "Take back", TOOL_MUTATES | TOOL_DESTRUCTIVE,
	    "Take back in the project what history lists: the newest entry, or the one with the id. What changed since stays "
	    "as it is.",
	    "{\"type\":\"object\",\"properties\":{" ID_IN "," PATHS_IN ","
	    "\"redo\":{\"type\":\"boolean\",\"description\":\"do again what was taken back\"},"
	    "\"force\":{\"type\":\"boolean\",\"description\":\"also what changed since\"}},\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"}," CHANGES "},"
	    "\"required\":[\"id\",\"changes\",\"total\"]}",
	    OWED_LIST, tool_undo },
	{ "open_child", "Open a child session", 0,
	    "Make a narrower session for another agent: returns the command line that its MCP client starts; it works "
	    "once. The child can never do more than this session, and ends with it. Agents that share files can still plant "
	    "things for each other: subdirectory keeps them apart, and a workspace of its own hides its unfinished work from the others.",
	    "{\"type\":\"object\",\"properties\":{"
	    "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":32,\"description\":\"letters, digits, '.', '_', '-'\"},"
	    "\"mode\":{\"type\":\"string\",\"enum\":[\"plan\",\"safe\",\"auto\"],\"description\":\"default: this session's, and never above it\"},"
	    "\"subdirectory\":{\"type\":\"string\",\"minLength\":1,\"description\":\"its root; default: this session's\"},"
	    "\"workspace\":{\"type\":\"string\",\"enum\":[\"draft\",\"worktree\",\"clone\"],\"description\":\"draft, clone: its changes are held back for draft_diff and draft_apply; worktree: it has a branch of its own; default: as this session\"},"
	    "\"deny_read\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"type\":\"string\",\"minLength\":1},\"description\":\"paths below its root, or absolute\"},"
	    "\"deny_write\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"type\":\"string\",\"minLength\":1},\"description\":\"the same\"},"
	    "\"domains\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"type\":\"string\",\"minLength\":1},\"description\":\"only these of this session's hosts\"},"
	    "\"network\":{\"type\":\"boolean\",\"default\":true}},"
	    "\"required\":[\"name\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"mode\":{\"type\":\"string\"},"
	    "\"root\":{\"type\":\"string\"},\"workspace\":{\"type\":\"string\"},\"command\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
	    "\"command_line\":{\"type\":\"string\"},\"seconds\":{\"type\":\"integer\",\"description\":\"how long the command line can be used\"}},"
	    "\"required\":[\"name\",\"mode\",\"root\",\"workspace\",\"command\",\"command_line\",\"seconds\"]}",
	    OWED_SMALL, tool_open_child },
	{ "close_child", "Close a child session", TOOL_DESTRUCTIVE,
	    "End a child session that open_child made: its commands, its searches and its own children.",
	    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1}},"
	    "\"required\":[\"name\"],\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}," CHILD_LEFT "},\"required\":[\"name\",\"drafts\",\"copies\"]}",
	    OWED_SMALL, tool_close_child },
	{ "list_children", "List child sessions", TOOL_READ_ONLY | TOOL_IDEMPOTENT,
	    "List the child sessions that this one has opened, and what they left.",
	    "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
	    "{\"type\":\"object\",\"properties\":{\"children\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	    "\"name\":{\"type\":\"string\"},\"mode\":{\"type\":\"string\"},\"root\":{\"type\":\"string\"},"
	    "\"workspace\":{\"type\":\"string\"},\"connected\":{\"type\":\"boolean\"},\"draft\":{\"type\":\"string\"}},"
	    "\"required\":[\"name\",\"mode\",\"root\",\"workspace\",\"connected\"]}}," CHILD_LEFT "},"
	    "\"required\":[\"children\",\"drafts\",\"copies\"]}",
	    OWED_SMALL, tool_list_children },
};
/* clang-format on */

const size_t n_tools = sizeof(tools) / sizeof(tools[0]);
