/* Checkpoints for Lua: a folder of files written as a whole, by the program's thread or beside it by
 * another, from a snapshot (vm/core/snapshot.h). What stands in the files is Lua's matter
 * (lib/lua/dist/checkpoint.lua); here are only bytes, their digests, and who waits for whom.
 *
 * One is written at a time: the next one waits for it and tells its error, as do who asks and the
 * end of the program. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "lib/clock.h"
#include "lib/commit.h"
#include "lib/digest.h"
#include "lib/text.h"
#include "lib/thread.h"
#include "repl/checkpoint.h"
#include "repl/lua_api.h"
#include "vm/core/snapshot.h"

static const char MARK[] = "complete", MANIFEST[] = "manifest.json",
                  HEAD[] = "{\"format\":\"tessera.checkpoint\"", TYPE[] = "tessera.saving";

typedef struct File {
  char *name, *header;
  size_t nheader;
  int first, npiece; /* tensors behind it, in order */
} File;

/* The manifest is texts, and behind each but the last the digest of a piece. */
typedef struct Saving {
  pthread_t thread;
  bool started, joined, told;
  atomic_bool done;
  char *dir, *name, *mark;
  TsSnapshot *snapshot;
  int nfile, npiece, ntext, nremove;
  File *file;
  uint64_t *digest;
  char **text, **remove;
  int *piece;         /* whose digest stands behind text i */
  bool interruptible; /* on the program's thread */
  bool interrupted;
  int64_t began, nbytes;
  double seconds, held; /* until it was written; of the program's time */
  int refs;
  char called[TS_FILE_NAME]; /* what its folder is called */
  char error[2 * TS_FILE_PATH];
} Saving;

static Saving *last; /* until the next one begins, and has told its error */
static bool lost;    /* something was not written, and nobody was told but stderr */

/* ---- writing, on any thread */
static int put(Saving *s, int fd, const char *at, size_t n) {
  enum { PIECE = 16 << 20 }; /* between looks for interrupts */
  for (size_t i = 0; i < n; i += PIECE) {
    if (s->interruptible && ts_cpu_interrupted()) return s->interrupted = true, -1;
    if (!ts_file_write(fd, at + i, n - i < PIECE ? n - i : PIECE)) return -1;
  }
  return 0;
}

static int put_file(Saving *s, TsCommit *c, const File *f) {
  int fd = ts_commit_open(c, f->name);
  if (fd < 0) return -1;
  int failed = put(s, fd, f->header, f->nheader);
  for (int i = f->first; i < f->first + f->npiece && !failed; i++) {
    int64_t n;
    const char *at = ts_snapshot_bytes(s->snapshot, i, &n);
    failed = put(s, fd, at, (size_t)n);
    s->digest[i] = ts_digest64(at, (size_t)n);
    s->nbytes += n;
  }
  if (!failed) return ts_commit_close(c, fd);
  int saved = errno;
  close(fd);
  return errno = saved, -1;
}

static int put_manifest(Saving *s, TsCommit *c, uint64_t *digest) {
  TsText t = {0};
  for (int i = 0; i < s->ntext; i++) {
    ts_text_str(&t, s->text[i]);
    if (i + 1 < s->ntext)
      ts_text_format(&t, "%016llx", (unsigned long long)s->digest[s->piece[i]]);
  }
  int fd = t.failed ? (errno = ENOMEM, -1) : ts_commit_open(c, MANIFEST);
  int failed = fd < 0 ? -1 : put(s, fd, t.at, t.len);
  *digest = failed ? 0 : ts_digest64(t.at, t.len);
  int saved = errno;
  ts_text_free(&t);
  if (!failed) return ts_commit_close(c, fd);
  if (fd >= 0) close(fd);
  return errno = saved, -1;
}

static int put_all(Saving *s, TsCommit *c) {
  uint64_t digest;
  char mark[400];
  for (int i = 0; i < s->nfile; i++)
    if (put_file(s, c, &s->file[i])) return -1;
  if (put_manifest(s, c, &digest)) return -1;
  int n =
      snprintf(mark, sizeof mark, "%smanifest %016llx\n", s->mark, (unsigned long long)digest);
  return ts_commit_end(c, s->name, MARK, mark, (size_t)n);
}

static bool is_whole_mark(const char *text, size_t n) {
  static const char form[] = "manifest 0123456789abcdef\n";
  size_t len = sizeof form - 1;
  return n >= len && !memcmp(text + n - len, form, 9) && text[n - 1] == '\n';
}

static void explain(Saving *s, const TsCommit *c) {
  char path[TS_FILE_PATH], shown[TS_FILE_PATH];
  int why = errno;
  snprintf(path, sizeof path, "%s%s%s%s%s", s->dir, c ? "/" : "", c ? s->name : "",
           c && c->at[0] ? "/" : "", c ? c->at : "");
  ts_text_shown(path, shown, 400);
  if (s->interrupted)
    snprintf(s->error, sizeof s->error, "interrupted; %s was not written", shown);
  else
    snprintf(s->error, sizeof s->error, "cannot write %s: %s", shown, strerror(why));
}

static void write_down(Saving *s) {
  TsCommit c;
  ts_commit_sweep(s->dir, MARK, MANIFEST, HEAD, is_whole_mark);
  if (ts_commit_begin(&c, s->dir)) {
    explain(s, NULL);
  } else if (put_all(s, &c)) {
    explain(s, &c);
    ts_commit_drop(&c);
  } else {
    snprintf(s->called, sizeof s->called, "%s", c.name);
    for (int i = 0; i < s->nremove; i++) ts_commit_remove(s->dir, s->remove[i]);
  }
  s->seconds = (double)(ts_clock_nsec() - s->began) * 1e-9;
}

enum { BEHIND = 10 }; /* of a thread's niceness */

static void *run(void *arg) {
  Saving *s = arg;
  TsError err = {0};
  if (ts_snapshot_copy(s->snapshot, &err)) {
    snprintf(s->error, sizeof s->error, "cannot fetch it: %s", err.message);
    s->done = true;
    return NULL;
  }
  setpriority(PRIO_PROCESS, (id_t)gettid(), BEHIND); /* nobody waits for the rest */
  write_down(s);
  s->done = true;
  return NULL;
}

/* ---- its life, on the program's thread */
static void release(Saving *s) {
  if (!s || --s->refs) return;
  for (int i = 0; i < s->nfile; i++) free(s->file[i].name), free(s->file[i].header);
  for (int i = 0; i < s->ntext; i++) free(s->text[i]);
  for (int i = 0; i < s->nremove; i++) free(s->remove[i]);
  ts_snapshot_free(s->snapshot);
  free(s->dir), free(s->name), free(s->mark), free(s->file), free(s->digest), free(s->text);
  free(s->remove), free(s->piece), free(s);
}

static void drop_snapshot(Saving *s) {
  if (!s->snapshot) return;
  s->held += (double)ts_snapshot_held_up(s->snapshot) * 1e-9;
  ts_snapshot_free(s->snapshot);
  s->snapshot = NULL;
}

/* It is over, or as good as. */
static void join(Saving *s) {
  if (s->started && !s->joined) pthread_join(s->thread, NULL);
  s->joined = true;
  drop_snapshot(s);
}

static bool look(Saving *s) {
  if (s->done && !s->joined) join(s);
  return s->done;
}

/* Waits for it, while Ctrl-C goes on working. */
static void await(lua_State *L, Saving *s) {
  while (!look(s)) {
    struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
    if (ts_cpu_interrupted())
      ts_lua_fail(L, TS_ERR_interrupt, "checkpoint: interrupted; it is written all the same");
  }
}

static void tell(lua_State *L, Saving *s, const char *before) {
  if (!s->error[0] || s->told) return;
  s->told = true;
  if (s->interrupted) ts_lua_fail(L, TS_ERR_interrupt, "checkpoint.save: %s", s->error);
  ts_lua_fail(L, TS_ERR_io, "checkpoint.save: %s%s", before, s->error);
}

void ts_checkpoint_finish(void) {
  Saving *s = last;
  if (!s) return;
  last = NULL;
  if (!s->done) signal(SIGINT, SIG_DFL); /* of who does not want to wait */
  join(s);
  if (s->error[0] && !s->told) {
    fprintf(stderr, "tessera: checkpoint.save: %s\n", s->error);
    lost = s->told = true;
  }
  release(s);
}

bool ts_checkpoint_lost(void) { return lost; }

/* ---- from Lua */
static char *copy_field(lua_State *L, int table, const char *key, size_t *n) {
  size_t len;
  lua_getfield(L, table, key);
  const char *from = luaL_checklstring(L, -1, &len);
  char *to = malloc(len + 1);
  if (!to) ts_lua_fail(L, TS_ERR_memory, "checkpoint.save: out of memory");
  memcpy(to, from, len + 1);
  lua_pop(L, 1);
  if (n) *n = len;
  return to;
}

static void *room(lua_State *L, int n, size_t each) {
  void *at = calloc((size_t)n + 1, each);
  if (!at) ts_lua_fail(L, TS_ERR_memory, "checkpoint.save: out of memory");
  return at;
}

static int open_list(lua_State *L, int table, const char *key) {
  lua_getfield(L, table, key);
  luaL_checktype(L, -1, LUA_TTABLE);
  return (int)lua_objlen(L, -1);
}

static char *copy_item(lua_State *L, int i) {
  lua_rawgeti(L, -1, i);
  char *to = strdup(luaL_checkstring(L, -1));
  if (!to) ts_lua_fail(L, TS_ERR_memory, "checkpoint.save: out of memory");
  lua_pop(L, 1);
  return to;
}

static void read_files(lua_State *L, Saving *s) {
  int n = open_list(L, 1, "files");
  s->file = room(L, n, sizeof *s->file);
  for (; s->nfile < n;) {
    File *f = &s->file[s->nfile++];
    lua_rawgeti(L, -1, s->nfile);
    int at = lua_gettop(L);
    f->name = copy_field(L, at, "name", NULL);
    f->header = copy_field(L, at, "header", &f->nheader);
    lua_getfield(L, at, "npiece");
    f->first = s->npiece, f->npiece = (int)luaL_checkinteger(L, -1);
    s->npiece += f->npiece;
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
  s->digest = room(L, s->npiece, sizeof *s->digest);
}

static void read_texts(lua_State *L, Saving *s) {
  int n = open_list(L, 1, "pieces");
  s->piece = room(L, n, sizeof *s->piece);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    int at = (int)luaL_checkinteger(L, -1) - 1;
    if (at < 0 || at >= s->npiece) luaL_error(L, "there is no piece %d", at + 1);
    s->piece[i] = at;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  int ntext = open_list(L, 1, "manifest");
  if (ntext != n + 1) luaL_error(L, "%d texts around %d digests", ntext, n);
  s->text = room(L, ntext, sizeof *s->text);
  for (; s->ntext < ntext; s->ntext++) s->text[s->ntext] = copy_item(L, s->ntext + 1);
  lua_pop(L, 1);
  int nremove = open_list(L, 1, "remove");
  s->remove = room(L, nremove, sizeof *s->remove);
  for (; s->nremove < nremove; s->nremove++)
    s->remove[s->nremove] = copy_item(L, s->nremove + 1);
  lua_pop(L, 1);
}

static Saving *check(lua_State *L) { return *(Saving **)luaL_checkudata(L, 1, TYPE); }

static Saving *new_saving(lua_State *L) {
  Saving **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  if (!(*box = calloc(1, sizeof **box)))
    ts_lua_fail(L, TS_ERR_memory, "checkpoint.save: out of memory");
  (*box)->refs = 1;
  (*box)->began = ts_clock_nsec();
  return *box;
}

/* What is not written beside the program is written now. */
static void write_here(lua_State *L, Saving *s) {
  TsError err = {0};
  s->interruptible = true;
  if (ts_snapshot_copy(s->snapshot, &err)) {
    snprintf(s->error, sizeof s->error, "cannot fetch it: %s", err.message);
  } else {
    write_down(s);
  }
  s->done = s->joined = true;
  drop_snapshot(s);
  tell(L, s, "");
}

/* checkpoint_save{dir, name, mark, files = {{name, header, npiece}..}, manifest = {text..},
 * pieces = {number..}, remove = {folder..}}, {tensor..}, aside: the saving. Tensors stand in the
 * order of files; the manifest's texts have digests of pieces between them. */
static int save(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  bool aside = lua_toboolean(L, 3);
  Saving *s = new_saving(L);
  int saving = lua_gettop(L);
  s->dir = copy_field(L, 1, "dir", NULL), s->name = copy_field(L, 1, "name", NULL);
  s->mark = copy_field(L, 1, "mark", NULL);
  if (strlen(s->mark) > 300 || strlen(s->dir) + strlen(s->name) > TS_FILE_PATH - 300)
    return ts_lua_fail(L, TS_ERR_argument, "checkpoint.save: the path is too long");
  read_files(L, s);
  read_texts(L, s);
  TsTensor **t, *none = NULL;
  int n = ts_lua_list(L, 2, NULL, &t);
  if (n < 0 || n != s->npiece) return luaL_error(L, "%d tensors in %d pieces", n, s->npiece);
  s->snapshot = ts_snapshot_take(c, n, n ? t : &none, aside);
  if (!s->snapshot && c->err.code) return ts_lua_raise(L);
  if (!s->snapshot && !(s->snapshot = ts_snapshot_take(c, n, n ? t : &none, false)))
    return ts_lua_raise(L);
  lua_settop(L, saving);
  if (aside) {
    s->held = (double)(ts_clock_nsec() - s->began) * 1e-9;
    s->started = ts_thread_start(&s->thread, 0, run, s);
  }
  if (!s->started) return write_here(L, s), 1;
  s->refs++;
  last = s;
  return 1;
}

/* checkpoint_settle(): waits for the one that is being written, and tells its error. */
static int settle(lua_State *L) {
  if (!last) return 0;
  await(L, last);
  tell(L, last, "the one before: ");
  release(last);
  last = NULL;
  return 0;
}

static int saving_done(lua_State *L) {
  lua_pushboolean(L, look(check(L)));
  return 1;
}

static int saving_wait(lua_State *L) {
  Saving *s = check(L);
  await(L, s);
  tell(L, s, "");
  return 0;
}

/* facts(): its error or nil, what its folder is called or nil, seconds that it took, seconds that
 * the program was held up, bytes of tensors. */
static int saving_facts(lua_State *L) {
  Saving *s = check(L);
  bool done = look(s);
  lua_pushstring(L, done && s->error[0] ? s->error : NULL); /* NULL: nil */
  lua_pushstring(L, done && s->called[0] ? s->called : NULL);
  lua_pushnumber(L, done ? s->seconds : 0);
  lua_pushnumber(L,
                 s->held + (s->snapshot ? (double)ts_snapshot_held_up(s->snapshot) * 1e-9 : 0));
  lua_pushnumber(L, done ? (double)s->nbytes : 0);
  return 5;
}

static int saving_gc(lua_State *L) {
  release(check(L));
  return 0;
}

/* checkpoint_names(dir): what stands in a folder, a list, or nil and why. */
static int names(lua_State *L) {
  DIR *d = opendir(luaL_checkstring(L, 1));
  if (!d) {
    lua_pushnil(L);
    lua_pushstring(L, strerror(errno));
    lua_pushboolean(L, errno == ENOENT);
    return 3;
  }
  TsText all = {0}; /* closed before anything of Lua's can fail */
  for (struct dirent *e; (e = readdir(d));)
    if (*e->d_name != '.') ts_text_add(&all, e->d_name, strlen(e->d_name) + 1);
  closedir(d);
  ts_lua_push_text(L, &all);
  size_t size;
  const char *at = lua_tolstring(L, -1, &size);
  lua_newtable(L);
  for (const char *end = at + size; at < end; at += strlen(at) + 1) {
    lua_pushstring(L, at);
    lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
  }
  return 1;
}

/* digest(text or tensor): 16 digits. */
static int digest(lua_State *L) {
  size_t n;
  char text[20];
  TsTensor *t = ts_lua_tensor(L, 1);
  const void *at = t ? ts_tensor_read(t) : luaL_checklstring(L, 1, &n);
  if (t && !t->contiguous) return luaL_error(L, "digest: rows do not adjoin");
  if (t && !at) return ts_lua_raise(L);
  if (t) n = (size_t)ts_meta_nbytes(&t->meta);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)ts_digest64(at, n));
  lua_pushstring(L, text);
  return 1;
}

/* What is written when the state is closed has to be done before tensors go. */
static int at_close(lua_State *L) {
  (void)L;
  ts_checkpoint_finish();
  return 0;
}

void ts_lua_open_checkpoint(lua_State *L) {
  static const luaL_Reg method[] = {{"done", saving_done},
                                    {"wait", saving_wait},
                                    {"facts", saving_facts},
                                    {"__gc", saving_gc},
                                    {NULL, NULL}};
  static const luaL_Reg function[] = {{"checkpoint_save", save},
                                      {"checkpoint_settle", settle},
                                      {"checkpoint_names", names},
                                      {"digest", digest},
                                      {NULL, NULL}};
  static const luaL_Reg end[] = {{"__gc", at_close}, {NULL, NULL}};
  ts_lua_metatable(L, TYPE, method);
  luaL_register(L, NULL, function);
  ts_lua_metatable(L, "tessera.saving.end", end);
  lua_newuserdata(L, 1);
  luaL_getmetatable(L, "tessera.saving.end");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, "tessera.saving.end.box");
}
