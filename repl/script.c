/* Files of Lua code. See repl/script.h. */
#include "repl/script.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "repl/run.h"
#include "lib/file.h"

enum { MOST = 64 << 20 }; /* bytes of a text that a pipe gives */

bool ts_script_read(lua_State *L, FILE *f, const char *name) {
  luaL_Buffer b;
  size_t n, all = 0;
  luaL_buffinit(L, &b);
  do {
    char *space = luaL_prepbuffer(&b);
    n = fread(space, 1, LUAL_BUFFERSIZE, f);
    luaL_addsize(&b, n);
    all += n;
  } while (n > 0 && all <= MOST);
  int wrong = ferror(f) ? errno : 0;
  luaL_pushresult(&b);
  if (wrong) {
    lua_pop(L, 1);
    lua_pushfstring(L, "cannot read %s: %s", name, strerror(wrong));
    return false;
  }
  if (all <= MOST) return true;
  lua_pop(L, 1);
  lua_pushfstring(L, "cannot read %s: it goes on after %d MB; a script ends before", name,
                  MOST >> 20);
  return false;
}

FILE *ts_script_open(const char *path) {
  size_t size;
  const char *why;
  int fd = ts_file_open(path, &size, &why);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
  if (fd >= 0 && !f) close(fd);
  return f;
}

static int refuse(lua_State *L, const char *path, const char *why) {
  lua_pushfstring(L, "cannot read %s: %s", path, why);
  return LUA_ERRFILE;
}

/* Opened without waiting. A writer that says nothing yet is told from none by what a read
 * says. */
static int load_pipe(lua_State *L, const char *path, int fd) {
  char first;
  errno = 0;
  struct pollfd p = {.fd = fd, .events = POLLIN};
  bool quiet = poll(&p, 1, 0) == 0;
  ssize_t n = quiet ? read(fd, &first, 1) : 1;
  if (quiet && n == 0) return close(fd), refuse(L, path, "nobody writes to this pipe");
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  FILE *f = fdopen(fd, "r");
  if (!f) {
    int why = errno;
    close(fd);
    return refuse(L, path, strerror(why));
  }
  if (quiet && n == 1) ungetc((unsigned char)first, f);
  bool whole = ts_script_read(L, f, path);
  fclose(f);
  if (!whole) return LUA_ERRFILE;
  size_t size;
  const char *text = lua_tolstring(L, -1, &size);
  const char *name = lua_pushfstring(L, "@%s", path);
  ts_run_keep_text(L, name, text, size);
  int status = luaL_loadbuffer(L, text, size, name);
  lua_remove(L, -2), lua_remove(L, -2);
  return status;
}

int ts_script_load(lua_State *L, const char *path) {
  struct stat st;
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
  if (fd < 0 && errno == ENXIO && path) return refuse(L, path, "not a plain file");
  if (fd < 0 || fstat(fd, &st)) return luaL_loadfile(L, path); /* which says why */
  if (S_ISFIFO(st.st_mode)) return load_pipe(L, path, fd);
  close(fd);
  bool empty = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3); /* /dev/null */
  if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || empty) return luaL_loadfile(L, path);
  return refuse(L, path, "not a plain file");
}
