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

/* As lua_pcall. An error leaves its report, a string, on the stack. While it runs,
 * Ctrl-C ends the running operator and the Lua code with the error "interrupted".
 * A second one, while nothing stops, ends the process. */
int ts_run_call(lua_State *L, int nargs, int nresults);
int ts_run_execute(lua_State *L); /* os.execute */
/* What Ctrl-C does while ts_run_call runs, for tests; _forget: as if it had not been. */
void ts_run_interrupt(void);
/* A handler of SIGINT while nothing runs: the next ts_run_call is interrupted as it begins, unless
 * the interrupt is dropped before. */
void ts_run_keep_interrupt(int number);
void ts_run_drop_interrupt(void);
void ts_run_interrupt_after(lua_State *L, int instructions);
void ts_run_forget(lua_State *L);
/* Memory has run out in Lua: an error at the next instruction. */
void ts_run_out_of_memory(void);
/* An operator was interrupted and its error is about to be raised: handlers of errors in Lua have
 * some time before the code that goes on is stopped as well. */
void ts_run_stops(lua_State *L);
/* Did Ctrl-C end the last ts_run_call? */
bool ts_run_interrupted(void);
/* Scripts do not outlive Ctrl-C by more than a second, whatever they do. */
void ts_run_set_impatient(bool impatient);

/* Turns the message of a failed load on the stack top into a report. */
void ts_run_explain(lua_State *L, const char *chunkname);
/* Prints the report on the stack top to stderr, and pops it. */
void ts_run_print(lua_State *L);

/* Runs a file (NULL or "-": standard input) with the arguments argv[1..]; leaves its
 * results on the stack. Returns an exit code; errors are printed. */
int ts_run_script(lua_State *L, const char *path, char **argv);
/* Runs the code of one -e; `number` counts them. */
int ts_run_code(lua_State *L, const char *code, int number);
int ts_run_require(lua_State *L, const char *module);

/* --hash: one line for each tensor among the values from stack index `first` up. */
int ts_run_print_hashes(lua_State *L, int first);

#endif
