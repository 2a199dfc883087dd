/* Files of tensors for Lua: mapping a file, tensors over its bytes, writing a file
 * whole or not at all. The formats themselves are Lua (lib/lua/io.lua). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "repl/lua_api.h"
#include "vm/scratch.h"

/* A mapped file, kept while anybody uses it: the Lua object and each tensor. */
typedef struct Map {
  int refs;
  char *at;
  size_t len;
} Map;

static void map_unref(void *arg) {
  Map *m = arg;
  if (--m->refs) return;
  if (m->len) munmap(m->at, m->len);
  ts_work_give(m);
}

static const char FILE_TYPE[] = "tessera.file";

/* What was collected by hand is a file no more. */
static Map *check_map(lua_State *L) {
  Map *m = *(Map **)luaL_checkudata(L, 1, FILE_TYPE);
  if (!m) ts_lua_fail(L, TS_ERR_argument, "the file is closed");
  return m;
}

static int io_failure(lua_State *L, const char *what, const char *path) {
  return ts_lua_fail(L, TS_ERR_io, "%s %s: %s", what, path, strerror(errno));
}

/* Private and writable: in-place operators on loaded tensors change memory, never
 * the file. NULL with errno set. */
static Map *map_bytes(int fd, size_t len) {
  Map *m = ts_work_take(sizeof *m);
  if (!m) {
    errno = ENOMEM;
    return NULL;
  }
  *m = (Map){.refs = 1, .len = len};
  if (len) m->at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (m->at != MAP_FAILED) return m;
  int saved = errno;
  ts_work_give(m);
  errno = saved;
  return NULL;
}

static int map_file(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  struct stat st;
  Map **box = lua_newuserdata(L, sizeof *box); /* may throw: before anything is open */
  *box = NULL;
  luaL_getmetatable(L, FILE_TYPE);
  lua_setmetatable(L, -2);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_failure(L, "cannot open", path);
  if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
    close(fd);
    return ts_lua_fail(L, TS_ERR_io, "cannot read %s: not a plain file", path);
  }
  *box = map_bytes(fd, (size_t)st.st_size);
  int why = errno;
  close(fd);
  if (*box) return 1;
  errno = why;
  if (why == ENOMEM) return ts_lua_fail(L, TS_ERR_memory, "cannot map %s: out of memory", path);
  return io_failure(L, "cannot map", path);
}

static int map_collect(lua_State *L) {
  Map **box = luaL_checkudata(L, 1, FILE_TYPE);
  if (*box) map_unref(*box);
  *box = NULL;
  return 0;
}

static int map_size(lua_State *L) {
  lua_pushnumber(L, (double)check_map(L)->len);
  return 1;
}

/* Bytes [offset, offset + n) as a string; the range must lie inside the file. */
static int map_read(lua_State *L) {
  Map *m = check_map(L);
  double offset = luaL_checknumber(L, 2), n = luaL_checknumber(L, 3);
  if (!(offset >= 0) || !(n >= 0) || offset + n > (double)m->len)
    return ts_lua_fail(L, TS_ERR_format, "bytes %.0f..%.0f lie outside the file of %zu bytes",
                       offset, offset + n, m->len);
  lua_pushlstring(L, m->len ? m->at + (size_t)offset : "", (size_t)n);
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

/* map:tensor(dtype, shape, offset): a tensor over the file's bytes, without copying
 * where they are aligned to its elements. */
static int map_tensor(lua_State *L) {
  Map *f = check_map(L);
  TsContext *c = ts_lua_context(L);
  TsMeta m = check_meta(L);
  double offset = luaL_checknumber(L, 4);
  int64_t nbytes = ts_meta_nbytes(&m);
  if (!(offset >= 0) || offset + (double)nbytes > (double)f->len)
    return ts_lua_fail(L, TS_ERR_format, "bytes %.0f..%.0f lie outside the file of %zu bytes",
                       offset, offset + (double)nbytes, f->len);
  char *at = f->at + (size_t)offset;
  int align = m.dtype == TS_DT_mxfp4 ? 1 : ts_dtypes[m.dtype].nbytes;
  bool odd = m.dtype == TS_DT_bool && !ts_bools_are_tidy(at, nbytes);
  TsTensor *t;
  if (nbytes && !odd && (uintptr_t)at % (uintptr_t)align == 0) {
    t = ts_tensor_wrap(c, &m, at, map_unref, f);
    if (t) f->refs++;
  } else {
    t = ts_tensor_new(c, &m);
    if (t && nbytes) memcpy(t->storage->host, at, (size_t)nbytes);
    if (t && odd) ts_bools_tidy(t->storage->host, nbytes);
  }
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

/* One part of the file: a string, or a tensor's bytes in row-major order. */
static int write_part(lua_State *L, FILE *out) {
  size_t len;
  const char *s;
  TsTensor *t = ts_lua_tensor(L, -1), *y = NULL;
  if (t) {
    y = ts_tensor_contiguous(ts_lua_context(L), t);
    s = y ? ts_tensor_read(y) : NULL;
    len = (size_t)ts_meta_nbytes(&t->meta);
  } else {
    s = lua_tolstring(L, -1, &len);
  }
  int failed = !s || fwrite(s, 1, len, out) != len;
  ts_tensor_unref(y);
  return failed;
}

/* write_file(path, {parts}): under a temporary name beside path, then renamed, so
 * that path is either the old file or the whole new one. */
static int write_file(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  char temporary[4096];
  if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >=
      (int)sizeof temporary)
    return ts_lua_fail(L, TS_ERR_io, "the path is too long: %s", path);
  FILE *out = fopen(temporary, "wb");
  if (!out) return io_failure(L, "cannot write", path);
  int n = (int)lua_objlen(L, 2), failed = 0;
  for (int i = 1; i <= n && !failed; i++) {
    lua_rawgeti(L, 2, i);
    failed = write_part(L, out);
    lua_pop(L, 1);
  }
  failed |= fflush(out) != 0 || fsync(fileno(out)) != 0;
  failed |= fclose(out) != 0;
  if (failed || rename(temporary, path)) {
    int saved = errno;
    unlink(temporary);
    errno = saved;
    if (ts_lua_context(L)->err.code) return ts_lua_raise(L); /* a tensor could not be read */
    return io_failure(L, "cannot write", path);
  }
  return 0;
}

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* Seconds on a clock that only goes forward. */
static int now(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  return 1;
}

int luaopen_cjson_safe(lua_State *L);

void ts_lua_open_files(lua_State *L) {
  static const luaL_Reg method[] = {
      {"size", map_size}, {"read", map_read}, {"tensor", map_tensor}, {NULL, NULL}};
  static const luaL_Reg function[] = {{"map_file", map_file},
                                      {"write_file", write_file},
                                      {"is_terminal", is_terminal},
                                      {"now", now},
                                      {NULL, NULL}};
  luaL_newmetatable(L, FILE_TYPE);
  lua_pushcfunction(L, map_collect);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  luaL_register(L, NULL, method);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  luaL_register(L, NULL, function);
  lua_pushcfunction(L, luaopen_cjson_safe);
  lua_setfield(L, -2, "open_json");
}
