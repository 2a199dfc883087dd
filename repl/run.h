/* Running Lua code: chunks whose text stays known, protected calls that Ctrl-C
 * stops, reports of errors. */
#ifndef TS_REPL_RUN_H
#define TS_REPL_RUN_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* Exit codes: a script's own, or these. */
enum { TS_EXIT_OK = 0, TS_EXIT_ERROR = 1, TS_EXIT_INTERRUPTED = 130 };

/* Serves the modules inside the program, and adds the installed library's folder
 * to package.path. */
void ts_run_open(lua_State *L);
/* The state that is no coroutine, or NULL before _open. */
lua_State *ts_run_main(lua_State *L);
/* Is there an embedded module of that name? */
bool ts_run_embeds(const char *module);

/* Loads a chunk (repl/tail.h) and keeps its text for reports under chunkname ("=input 3"). 0, or
 * a Lua status with the message on the stack; nothing is kept then, and never by _compile. */
int ts_run_load(lua_State *L, const char *text, size_t size, const char *chunkname);
int ts_run_compile(lua_State *L, const char *text, size_t size, const char *chunkname);
void ts_run_keep_text(lua_State *L, const char *chunkname, const char *text, size_t size);
/* The text of a kept chunk or embedded module (chunkname with its "="), or NULL. */
const char *ts_run_text(lua_State *L, const char *chunkname, size_t *size);

/* As lua_pcall. An error leaves its report, a string, on the stack. While it runs, Ctrl-C is
 * what repl/interrupt.h says. */
int ts_run_call(lua_State *L, int nargs, int nresults);
int ts_run_execute(lua_State *L);     /* os.execute */
void ts_run_open_lines(lua_State *L); /* io.lines */
void ts_run_open_sort(lua_State *L);  /* table.sort */

/* Turns the message of a failed load on the stack top into a report. */
void ts_run_explain(lua_State *L, const char *chunkname);
/* Prints the report on the stack top to stderr, and pops it. */
void ts_run_print(lua_State *L);
/* The report on the stack top stays there, and is the last one. */
void ts_run_keep_report(lua_State *L);
/* The report that was printed or kept last, or NULL. */
const char *ts_run_last_report(void);

/* Runs a file (NULL or "-": standard input) with the arguments argv[1..]; leaves its
 * results on the stack. Returns an exit code; errors are printed. */
int ts_run_script(lua_State *L, const char *path, char **argv);
/* Runs the code of one -e; `number` counts them. */
int ts_run_code(lua_State *L, const char *code, int number);
int ts_run_require(lua_State *L, const char *module);

/* --hash: one line for each tensor among the values from stack index `first` up. */
int ts_run_print_hashes(lua_State *L, int first);

#endif
