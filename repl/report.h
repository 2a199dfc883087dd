/* What a user reads about an error: message, the line with a mark, hint, calls. */
#ifndef TS_REPL_REPORT_H
#define TS_REPL_REPORT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/error.h"

/* The message handler of protected calls. */
int ts_report_handler(lua_State *L);
/* That of the library's own, which hand errors on: the message stays as it is, and a report
 * shows the calls that led to it. */
int ts_report_keep(lua_State *L);
/* The message of a failed load on the stack top becomes a report. */
void ts_report_load(lua_State *L, const char *chunkname);
/* Are the whole chain of calls of an error and its parts kept beside its report? _note does so, in the
 * handler; _push: two values of the last one, the chain and {message, place, code}, or nils. prefix:
 * the length of "file:line: " in the message. */
void ts_report_keep_chain(bool keep);
void ts_report_note_chain(lua_State *L);
void ts_report_note_parts(lua_State *L, const char *message, size_t prefix);
void ts_report_push_chain(lua_State *L);
/* An error that becomes one of Lua's, whose code would be lost. */
void ts_report_note_code(const TsError *e);
/* Pushes "file:line: " of the first frame, from `level` up, of the user's code. */
void ts_report_where(lua_State *L, int level);
/* That of what runs: of a coroutine without lines, as an operator is, that of who runs it. */
bool ts_report_place_of_program(lua_State *L, char *place, size_t room);
/* Is it one of the user's code? */
bool ts_report_is_users(const lua_Debug *ar);
/* The name of the function of op, made of operators, that the user's code called, if what is at
 * `level` was called by that. */
bool ts_report_function(lua_State *L, int level, char *name, size_t room);
/* As ts_report_where, without ": ", for a room of LUA_IDSIZE + 20 bytes; false, where there is none. It
 * changes nothing of Lua's. */
bool ts_report_place(lua_State *L, int level, char *place, size_t room);

#endif
