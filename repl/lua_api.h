/* Tensors and operators in Lua: what the files of the binding share. Only repl/
 * includes LuaJIT headers. */
#ifndef TS_REPL_LUA_API_H
#define TS_REPL_LUA_API_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "vm/core/vm.h"

/* The state's context. One Lua state has one. */
TsContext *ts_lua_context(lua_State *L);

/* A tensor at a stack index, or NULL. */
TsTensor *ts_lua_tensor(lua_State *L, int index);
TsTensor *ts_lua_check_tensor(lua_State *L, int index, const char *function);
/* The tensor that a method was called of, with `most` arguments in all; more are an error. */
TsTensor *ts_lua_only(lua_State *L, int most, const char *method);
/* What is here for a name that other libraries have in a table, or NULL: repl/lua/elsewhere.def */
const char *ts_lua_elsewhere(const char *table, const char *name);
/* Pushes a tensor and takes the reference over. Never fails with the reference
 * lost: an out-of-memory error of Lua releases it. */
void ts_lua_push(lua_State *L, TsTensor *t);
/* Raises the context's error with the Lua position of the user's line. */
int ts_lua_raise(lua_State *L);
/* As luaL_error, with the same positions and no formatting of %. */
int ts_lua_fail(lua_State *L, TsErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- words, lists and types, repl/lua/list.c */
/* A name to look up. A zero byte, with which it would end, becomes \x00 at its place on the
 * stack, and no name has that. */
const char *ts_lua_word(lua_State *L, int at);
const char *ts_lua_word_or(lua_State *L, int at, const char *otherwise); /* of none or nil */
/* The tensors of a list; the array is on the stack. Where it has none: NULL, or, if a function is
 * named, an error. */
int ts_lua_list(lua_State *L, int table, const char *function, TsTensor ***out);
void ts_lua_push_sizes(lua_State *L, int n, const int64_t *size); /* a list */
void ts_lua_push_types(lua_State *L, int n, const TsMeta *m);     /* {{dtype, shape}...} */
void ts_lua_check_shape(lua_State *L, TsMeta *m,
                        const char *function); /* m's, of the list on top */
/* The metatable of a type whose methods stand in itself. */
void ts_lua_metatable(lua_State *L, const char *name, const luaL_Reg *methods);

/* Pushes the text and frees it; one that is incomplete is an error. */
struct TsText;
void ts_lua_push_text(lua_State *L, struct TsText *text);

/* Calls op with the arguments on the stack, from `first` to the top, and pushes
 * its outputs; returns their number. Raises on errors. `into`: the in-place form,
 * the first argument receives the result. */
int ts_lua_call(lua_State *L, TsOp op, int first, bool into);

/* The function at this index is the library's own of an operator: op.name, x:name or arithmetic;
 * with -1, its x[key]. */
bool ts_lua_is_usual(lua_State *L, int index, int op);
bool ts_lua_is_metamethod(lua_CFunction f);
bool ts_lua_is_getter(lua_CFunction f);

/* A whole number of 64 bits, and none that the IR takes for a symbolic size (ir/text/size.h). */
bool ts_lua_whole(double v, int64_t *out);
/* A tensor from a Lua value: number, boolean, nested tables; dtype may be
 * TS_DT_none. NULL with the context's error filled, its message headed by `what`. */
TsTensor *ts_lua_from_value(lua_State *L, int index, TsDtype dtype, const char *what);
/* An operand that is no tensor: a bare number, or as from_value but f64 and complex128 in
 * place of f32 and complex64, for the caller to narrow. */
TsTensor *ts_lua_operand(lua_State *L, int index, const char *what);
/* What is stored into x and is no tensor: a bare number, or a tensor of x's type. */
TsTensor *ts_lua_element(lua_State *L, int index, const TsTensor *x, const char *what);
/* x[key] for numbers, slices in strings and tensors; pushes the result. */
int ts_lua_index(lua_State *L, TsTensor *x, int key);
int ts_lua_assign(lua_State *L, TsTensor *x, int key, int value);
/* Pushes element `index` (row-major) as a Lua number, boolean, or int64/complex. */
void ts_lua_push_element(lua_State *L, TsTensor *x, int64_t index);

/* repl/lua/box.c: tensors that Lua no longer has are freed by the state's allocator. After
 * _close tensors that are alive stay so. _metatable takes the one on the stack. */
void ts_lua_open_box(lua_State *L);
void ts_lua_close_box(lua_State *L);
void ts_lua_box_metatable(lua_State *L);
void ts_lua_keep_memory(void);        /* for Lua, should there be no other */
int64_t ts_lua_fail_after(int64_t n); /* as ts_memory_fail_after, of what Lua asks for itself */
/* A full collection behind which LuaJIT's traces hold nothing; from a C function of Lua. */
void ts_lua_release_traces(lua_State *L);

/* Openers: each registers its part. tessera = module table on the stack top. */
void ts_lua_open(lua_State *L, TsContext *c); /* the module tessera.core in preload */
void ts_lua_open_tensor(lua_State *L);        /* metatable; leaves nothing */
void ts_lua_push_methods(lua_State *L);       /* the methods of tensors */
void ts_lua_open_ops(lua_State *L);           /* op table into the table on top */
void ts_lua_open_graph(lua_State *L);         /* capture and graphs */
void ts_lua_open_mesh(lua_State *L);          /* meshes and what is spread over them */
void ts_lua_open_world(lua_State *L);         /* several processes */
void ts_lua_open_checkpoint(lua_State *L);   /* folders of tensors, written beside the program */
void ts_lua_open_foreign(lua_State *L);       /* C functions */
void ts_lua_open_custom(lua_State *L);        /* functions from outside as operators */
void ts_lua_open_files(lua_State *L);         /* mapping and writing files */
void ts_lua_open_tokenizer(lua_State *L);     /* text as tokens */
void ts_lua_open_unicode(lua_State *L);       /* cases of letters */
void ts_lua_open_http(lua_State *L);          /* a server of HTTP */
void ts_lua_open_system(lua_State *L);        /* threads, memory, hash, isa, ... */
void ts_lua_open_ir(lua_State *L);            /* the text of graphs */
void ts_lua_open_choose(lua_State *L);        /* what is free in kernels */
void ts_lua_open_jit(lua_State *L);           /* the tiers */
void ts_lua_open_tile(lua_State *L);          /* kernels of Tile IR */
void ts_lua_open_kernel(lua_State *L);        /* kernels that a program writes */
void ts_lua_open_debug(lua_State *L);         /* the debugger of kernels */
struct TsTimes;
void ts_lua_push_times(lua_State *L, const struct TsTimes *t); /* repl/lua/times.c */
void ts_lua_open_profile(lua_State *L);       /* spans of what runs */
void ts_lua_open_fast(lua_State *L);          /* operators that compiled Lua code calls */

/* The target whose name is there; nothing: NULL; an error if there is none. */
const struct TsTarget *ts_lua_target(lua_State *L, int at);

/* A kernel that a program wrote, or NULL; sizes that a call gives, -1 of those it does not. */
struct TsUserKernel *ts_lua_kernel(lua_State *L, int at);
void ts_lua_kernel_sizes(lua_State *L, int at, int64_t *dim);
struct TsForeign *ts_lua_foreign(lua_State *L, int at); /* a C function, or an error */

/* Prints x for a terminal of `width` columns into text. */
void ts_display_tensor(TsContext *c, TsTensor *x, int width, struct TsText *text);

#endif
