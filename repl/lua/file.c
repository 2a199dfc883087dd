/* Files of tensors for Lua: mapping a file, tensors over its bytes, writing a file
 * whole or not at all. The formats themselves are Lua (lib/lua/io.lua). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "lib/file.h"
#include "lib/inflate.h"
#include "lib/json.h"
#include "lib/text.h"
#include "repl/lua_api.h"
#include "repl/report_line.h"
#include "vm/core/mapped.h"
#include "lib/clock.h"

static const char FILE_TYPE[] = "tessera.file";

/* What was collected by hand is a file no more. */
static TsMapped *check_map(lua_State *L) {
  TsMapped *m = *(TsMapped **)luaL_checkudata(L, 1, FILE_TYPE);
  if (!m) ts_lua_fail(L, TS_ERR_argument, "the file is closed");
  return m;
}

/* why NULL: what errno says. */
static int io_failure(lua_State *L, const char *what, const char *path, const char *why) {
  char name[200];
  if (!why && errno == ENOMEM)
    return ts_lua_fail(L, TS_ERR_memory, "%s %s: out of memory", what,
                       ts_text_shown(path, name, sizeof name));
  return ts_lua_fail(L, TS_ERR_io, "%s %s: %s", what, ts_text_shown(path, name, sizeof name),
                     why ? why : strerror(errno));
}

static const char *check_path(lua_State *L, const char *function) {
  size_t len;
  if (lua_type(L, 1) != LUA_TSTRING)
    ts_lua_fail(L, TS_ERR_argument, "%s: a path is needed, not %s", function,
                lua_isnoneornil(L, 1) ? "nothing" : luaL_typename(L, 1));
  const char *path = lua_tolstring(L, 1, &len);
  if (!len) ts_lua_fail(L, TS_ERR_argument, "%s: the path is empty", function);
  if (strlen(path) != len) {
    char name[200];
    ts_lua_fail(L, TS_ERR_argument, "%s: a zero byte stands in the path, behind '%s'", function,
                ts_text_shown(path, name, sizeof name));
  }
  return path;
}

/* An object for Lua without a file yet. */
static TsMapped **new_file(lua_State *L) {
  TsMapped **box = lua_newuserdata(L, sizeof *box); /* may throw: before anything is open */
  *box = NULL;
  luaL_getmetatable(L, FILE_TYPE);
  lua_setmetatable(L, -2);
  return box;
}

static int map_file(lua_State *L) {
  const char *path = check_path(L, "load"), *why;
  size_t size;
  TsMapped **box = new_file(L);
  int fd = ts_file_open(path, &size, &why);
  if (fd < 0) return io_failure(L, "cannot open", path, why);
  *box = ts_mapped_open(fd, path, size);
  int saved = errno;
  close(fd);
  errno = saved;
  return *box ? 1 : io_failure(L, "cannot read", path, NULL);
}

/* read_file(path) -> its text: of a plain file. While it is open nothing is Lua's, whose errors would leave
 * it so. */
static int read_file(lua_State *L) {
  enum { PIECE = 1 << 16 };
  const char *path = check_path(L, luaL_optstring(L, 2, "read_file")), *why;
  char *piece = lua_newuserdata(L, PIECE);
  TsText text = {0};
  size_t size;
  int fd = ts_file_open(path, &size, &why);
  if (fd < 0) return io_failure(L, "cannot open", path, why);
  ssize_t n;
  while ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) ts_text_add(&text, piece, (size_t)n);
  int saved = errno;
  close(fd);
  errno = saved;
  if (n < 0) {
    ts_text_free(&text);
    return io_failure(L, "cannot read", path, NULL);
  }
  ts_lua_push_text(L, &text);
  return 1;
}

static int map_collect(lua_State *L) {
  TsMapped **box = luaL_checkudata(L, 1, FILE_TYPE);
  if (*box) ts_mapped_unref(*box);
  *box = NULL;
  return 0;
}

static int map_size(lua_State *L) {
  size_t len;
  ts_mapped_bytes(check_map(L), &len);
  lua_pushnumber(L, (double)len);
  return 1;
}

/* Where n bytes from `offset` on are, if they lie inside. */
static const char *check_range(lua_State *L, TsMapped *m, double offset, double n) {
  size_t len;
  const char *at = ts_mapped_bytes(m, &len);
  if (!(offset >= 0) || !(n >= 0) || offset + n > (double)len ||
      offset != (double)(size_t)offset)
    ts_lua_fail(L, TS_ERR_format, "bytes %.0f..%.0f lie outside the file of %zu bytes", offset,
                offset + n, len);
  return at + (size_t)offset;
}

/* Bytes [offset, offset + n) as a string; the range must lie inside the file. */
static int map_read(lua_State *L) {
  TsMapped *m = check_map(L);
  double offset = luaL_checknumber(L, 2), n = luaL_checknumber(L, 3);
  lua_pushlstring(L, check_range(L, m, offset, n), (size_t)n);
  if (ts_mapped_settle(ts_lua_context(L))) return ts_lua_raise(L);
  return 1;
}

static TsMeta check_meta(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 2, &len);
  TsDtype d = ts_dtype_parse(name, (int)len);
  if (d == TS_DT_none) ts_lua_fail(L, TS_ERR_dtype, "there is no dtype '%s'", name);
  luaL_checktype(L, 3, LUA_TTABLE);
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 0};
  size_t n = lua_objlen(L, 3);
  if (n > TS_MAX_RANK)
    ts_lua_fail(L, TS_ERR_shape, "a tensor of %zu axes; %d at most", n, TS_MAX_RANK);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 3, (int)i + 1);
    double v = lua_tonumber(L, -1);
    lua_pop(L, 1);
    if (!(v >= 0) || v > 0x1p53 || !ts_lua_whole(v, &m.dim[m.ndim++]))
      ts_lua_fail(L, TS_ERR_format, "a size of %.14g is no size", v);
  }
  if (ts_meta_check_size(&m, "load", &ts_lua_context(L)->err)) ts_lua_raise(L);
  return m;
}

static uint64_t element(const char *at, int size, bool swapped) {
  uint64_t v = 0;
  for (int i = 0; i < size; i++)
    v |= (uint64_t)(unsigned char)at[swapped ? size - 1 - i : i] << 8 * i;
  return v;
}

/* n elements, or parts of complex ones, as map_tensor says. */
static void widen(lua_State *L, int64_t n, char *to, int wide, const char *from, int size,
                  bool swapped, bool natural) {
  TS_CPU_LOOKING(i, 0, n) {
    uint64_t v = element(from + i * size, size, swapped);
    if (natural && size == 8 && v >> 63)
      ts_lua_fail(L, TS_ERR_value, "element %lld is %llu, which i64 cannot hold", (long long)i,
                  (unsigned long long)v);
    memcpy(to + i * wide, &v, (size_t)wide);
  }
  if (ts_cpu_interrupted()) ts_lua_fail(L, TS_ERR_interrupt, "load: interrupted");
}

/* map:tensor(dtype, shape, offset [, size, swapped, natural]): a tensor over the file's bytes,
 * without copying where they are its elements, and aligned to them. Else elements, or parts of
 * complex ones, have `size` bytes, the most significant one first if `turned`, and are unsigned if
 * `natural`: those of 16, 32, 64 bits become the next wider integers, or i64, and are refused
 * where that cannot hold them. */
static int map_tensor(lua_State *L) {
  TsMapped *f = check_map(L);
  TsContext *c = ts_lua_context(L);
  TsMeta m = check_meta(L);
  TsDtype d = (TsDtype)m.dtype;
  double offset = luaL_checknumber(L, 4);
  int parts = ts_dtype_is(d, TS_KIND_C) ? 2 : 1, wide = ts_dtypes[d].nbytes / parts,
      size = (int)luaL_optinteger(L, 5, wide);
  bool swapped = lua_toboolean(L, 6), natural = lua_toboolean(L, 7),
       same = size == wide && !swapped && !natural;
  if (!same && (size < 1 || size > wide || (size & (size - 1))))
    return ts_lua_fail(L, TS_ERR_argument, "elements of %d bytes are no %s", size,
                       ts_dtype_name(d));
  int64_t n = ts_meta_numel(&m) * parts, nbytes = same ? ts_meta_nbytes(&m) : n * size;
  const char *from = check_range(L, f, offset, (double)nbytes);
  if (d == TS_DT_bool) same &= ts_bools_are_tidy(from, nbytes);
  TsTensor *t = same ? ts_mapped_tensor(c, f, &m, (size_t)offset) : ts_tensor_new(c, &m);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  if (!same) widen(L, n, t->storage->host, wide, from, size, swapped, natural);
  if (!same && d == TS_DT_bool) ts_bools_tidy(t->storage->host, nbytes);
  return ts_mapped_settle(c) ? ts_lua_raise(L) : 1;
}

/* map:inflate(offset, n, size, crc) -> a file of `size` bytes in memory: what n bytes from
 * `offset` on are when they are unpacked. */
static int map_inflate(lua_State *L) {
  TsMapped *f = check_map(L);
  double offset = luaL_checknumber(L, 2), n = luaL_checknumber(L, 3),
         size = luaL_checknumber(L, 4);
  const char *from = check_range(L, f, offset, n);
  if (!(size >= 0 && size <= 1040 * n + 64)) /* deflate packs 1032 to 1 at best */
    return ts_lua_fail(L, TS_ERR_format, "%.0f packed bytes cannot be %.0f", n, size);
  TsMapped **box = new_file(L);
  if (!(*box = ts_mapped_memory((size_t)size)))
    return ts_lua_fail(L, TS_ERR_memory, "out of memory: %.0f bytes to unpack", size);
  size_t len;
  char *to = (char *)(uintptr_t)ts_mapped_bytes(*box, &len);
  const char *why = ts_inflate(from, (size_t)n, to, len, (uint32_t)luaL_checknumber(L, 5),
                               ts_cpu_interrupted);
  if (ts_cpu_interrupted()) return ts_lua_fail(L, TS_ERR_interrupt, "load: interrupted");
  if (ts_mapped_settle(ts_lua_context(L))) return ts_lua_raise(L);
  return why ? ts_lua_fail(L, TS_ERR_format, "%s", why) : 1;
}

/* ---- writing */
static bool write_pieces(TsContext *c, int fd, const char *s, size_t len) {
  enum { PIECE = 16 << 20 }; /* between looks for interrupts */
  for (size_t at = 0; at < len; at += PIECE) {
    if (ts_cpu_interrupted()) {
      ts_error_set(&c->err, TS_ERR_interrupt, "save: interrupted");
      return false;
    }
    if (!ts_file_write(fd, s + at, len - at < PIECE ? len - at : PIECE)) return false;
  }
  return true;
}

/* The part of the file on the stack: a string, or a tensor's bytes in row-major order. */
static bool write_part(lua_State *L, int fd) {
  size_t len = 0;
  const char *s = NULL;
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_tensor(L, -1), *y = NULL;
  if (t) {
    y = ts_tensor_contiguous(c, t);
    s = y ? ts_tensor_read(y) : NULL;
    len = (size_t)ts_meta_nbytes(&t->meta);
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    s = lua_tolstring(L, -1, &len);
  }
  bool good = s && write_pieces(c, fd, s, len);
  int saved = errno;
  if (!good && saved == EFAULT && t) ts_mapped_doubt(t);
  if (t && ts_mapped_changed() && ts_mapped_check(c, 1, &t)) good = false;
  ts_tensor_unref(y);
  errno = saved;
  return good;
}

/* write_file(path, {parts}): path is either the old file or the whole new one. A part is a string,
 * a tensor, or a function of nothing that gives one of them when its turn comes, so that not all of a
 * file has to be in memory at once. */
static int write_file(lua_State *L) {
  const char *path = check_path(L, "save");
  TsReplace r;
  luaL_checktype(L, 2, LUA_TTABLE);
  if (ts_replace_begin(&r, path)) return io_failure(L, "cannot write", path, r.why);
  int n = (int)lua_objlen(L, 2);
  bool good = true;
  for (int i = 1; i <= n && good; i++) {
    lua_rawgeti(L, 2, i);
    if (lua_isfunction(L, -1) && lua_pcall(L, 0, 1, 0)) {
      ts_replace_end(&r, false);
      return lua_error(L);
    }
    good = write_part(L, r.fd);
    lua_pop(L, 1);
  }
  if (!ts_replace_end(&r, good)) return 0;
  if (ts_lua_context(L)->err.code) return ts_lua_raise(L); /* a tensor could not be read */
  return io_failure(L, "cannot write", path, r.why);
}

/* shown(text [, most]): as a terminal may have it, cut to 400 bytes, or so many. */
static int shown(lua_State *L) {
  const char *text = ts_lua_word(L, 1);
  size_t most = (size_t)luaL_optinteger(L, 2, 400);
  char *to = lua_newuserdata(L, most);
  lua_pushstring(L, ts_text_shown(text, to, most));
  return 1;
}

static int is_utf8(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  lua_pushboolean(L, ts_text_is_utf8(s, len));
  return 1;
}

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* columns() -> those of the terminal that standard error is, or 0. */
static int columns(lua_State *L) {
  lua_pushinteger(L, ts_report_columns());
  return 1;
}

/* open_line(open): whether the terminal's line has text without an end, behind which a report begins
 * on the next one. */
static int open_line(lua_State *L) {
  ts_report_set_open_line(lua_toboolean(L, 1));
  return 0;
}

/* Seconds on a clock that only goes forward. */
static int now(lua_State *L) {
  lua_pushnumber(L, (double)ts_clock_nsec() * 1e-9);
  return 1;
}

/* ---- JSON, by a library that ends the process where memory runs out, and loses what it holds when
 * it is left: it gets a little more than there is, and the error comes behind it. Where that is not
 * enough, it is left by an error of Lua's. It must keep nothing from call to call. */
int luaopen_cjson_safe(lua_State *L);

static struct {
  lua_State *L;
  size_t beyond; /* bytes that it got */
} json;

enum { LITTLE = 1 << 20 };

static void json_refused(size_t n) {
  if (n <= LITTLE - json.beyond) return (void)(json.beyond += n);
  ts_memory_on_refusal(NULL);
  luaL_error(json.L, "out of memory");
}

/* Where byte `at` of a text is. */
static const char *push_place(lua_State *L, const char *s, const TsJsonFault *f) {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < f->at; i++)
    if (s[i] == '\n') line++, begin = i + 1;
  return lua_pushfstring(L, "line %d, byte %d: %s", (int)line, (int)(f->at - begin + 1),
                         f->why);
}

/* decode(text) -> the value, or nil and what is wrong, where; then what is wrong of the
 * first number that has more than digits, if there is one. The library takes much that is no
 * JSON, so it is asked only when the text is known to be some. */
static int decode_json(lua_State *L) {
  TsJsonFault fault, fraction;
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  int wrong = ts_json_check(s, n, &fault, &fraction);
  lua_settop(L, 1);
  if (wrong) {
    lua_pushnil(L);
    push_place(L, s, &fault);
    return 2;
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 2);
  if (!fraction.why) return 2;
  push_place(L, s, &fraction);
  return 3;
}

/* What is below its n arguments is called, with what the library may need. As lua_pcall. */
static int run_json(lua_State *L, int n) {
  json.L = L, json.beyond = 0;
  TsRefusal *before = ts_memory_on_refusal(json_refused);
  int status = lua_pcall(L, n, LUA_MULTRET, 0);
  ts_memory_on_refusal(before);
  if (!status && json.beyond) return luaL_error(L, "out of memory");
  return status;
}

static int call_json(lua_State *L) {
  int n = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  int status = run_json(L, n);
  bool raises = lua_toboolean(L, lua_upvalueindex(2));
  return status || (raises && lua_isnil(L, 1)) ? lua_error(L) : lua_gettop(L);
}

/* {encode, decode} */
static int open_json(lua_State *L) {
  lua_settop(L, 0);
  lua_pushcfunction(L, luaopen_cjson_safe);
  if (run_json(L, 0)) return lua_error(L);
  lua_settop(L, 1);
  lua_getfield(L, 1, "encode_keep_buffer");
  lua_pushboolean(L, 0);
  lua_call(L, 1, 0);
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "encode" : "decode";
    lua_getfield(L, 1, name);
    lua_pushboolean(L, i);
    lua_pushcclosure(L, call_json, 2);
    if (!i) lua_pushcclosure(L, decode_json, 1);
    lua_setfield(L, 1, name);
  }
  lua_settop(L, 1);
  return 1;
}

/* json_string(text): in quotes, with what is no UTF-8 as U+FFFD. */
static int json_string(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  TsText t = {0};
  ts_json_string(&t, "", s, n);
  ts_lua_push_text(L, &t);
  return 1;
}

void ts_lua_open_files(lua_State *L) {
  static const luaL_Reg method[] = {{"size", map_size},
                                    {"read", map_read},
                                    {"tensor", map_tensor},
                                    {"inflate", map_inflate},
                                    {"close", map_collect},
                                    {"__gc", map_collect},
                                    {NULL, NULL}};
  static const luaL_Reg function[] = {{"map_file", map_file},
                                      {"read_file", read_file},
                                      {"write_file", write_file},
                                      {"shown", shown},
                                      {"json_string", json_string},
                                      {"is_utf8", is_utf8},
                                      {"is_terminal", is_terminal},
                                      {"columns", columns},
                                      {"open_line", open_line},
                                      {"now", now},
                                      {NULL, NULL}};
  ts_lua_metatable(L, FILE_TYPE, method);
  luaL_register(L, NULL, function);
  lua_pushcfunction(L, open_json);
  lua_setfield(L, -2, "open_json");
}
