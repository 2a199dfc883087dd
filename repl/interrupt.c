/* Ctrl-C. The handler asks the operators to stop and sets a hook, which raises the error at the
 * next Lua instruction, or call: between those functions of C that LuaJIT does not compile are
 * compiled pieces. Loops that are compiled as a whole look at nothing: their machine code is changed
 * to leave them (interrupt_exits.h). What hears nothing all the same, such as a function of C that
 * takes long, a timer ends in scripts, and tells at the prompt what helps.
 *
 * Handlers run at any instruction. They write flags of one word, and call what may be called there:
 * write, alarm, sigaction, clock_gettime, _exit, and lua_sethook, which LuaJIT makes for it.
 *
 * Rejected: code that looks (LuaJIT's profiler makes it): calls of short functions then take five
 * times as long. */
#include "repl/interrupt.h"

#include <errno.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "repl/interrupt_exits.h"
#include "repl/interrupt_places.h"
#include "repl/report.h"
#include "repl/run.h"
#include "lib/clock.h"

enum {
  BOUNCE_MS = 150,  /* one Ctrl-C may be told twice */
  SERIES_MS = 1000, /* and these belong together */
  LAST_OF_SCRIPT = 3,
  LAST_OF_COMMAND = 2,
  PATIENCE_MS = 1000,
  TICK_MS = 20, /* compiled loops are looked for again */
  LEAVE_S = 2,
  GRACE = 1000, /* instructions that handlers of errors have */
  MOST_SPARED = 100000,
  SPARED_MS = 50
};

static struct {
  lua_State *volatile L;
  volatile sig_atomic_t pending; /* asked to stop, not raised yet */
  volatile sig_atomic_t through; /* raised until the call has ended */
  volatile sig_atomic_t kept;    /* asked to stop before anything ran */
  volatile sig_atomic_t series, told;
  volatile sig_atomic_t script;
  atomic_llong last, until;  /* Ctrl-C, the end of patience; in milliseconds */
  const char *volatile exit; /* the place of a compiled loop that is about to be left */
  struct sigaction before;
  bool raised, stopped, full, terminal;
  int grace, wait; /* instructions: of this time, left */
  int spared;      /* instructions of the library since */
  int64_t spared_since;
} control;

bool ts_interrupt_stopped(void) { return control.stopped; }
bool ts_interrupt_wanted(void) { return control.pending; }
void ts_interrupt_set_script(bool script) { control.script = script; }

bool ts_interrupt_drop(void) {
  bool kept = control.kept;
  control.kept = 0;
  return kept;
}

void ts_interrupt_keep(int number) {
  (void)number;
  control.kept = 1;
}

static int64_t now_ms(void) { return ts_clock_nsec() / 1000000; }

/* ---- raising */
/* table.remove is LuaJIT's own bytecode: whoever calls it is meant. */
static bool is_builtin(const lua_Debug *ar) { return !strncmp(ar->short_src, "[builtin:", 9); }

/* The library ends what it has begun, so that none of its own lines stand half done; should that
 * take long, it is stopped as well: a loop of the program that is all compiled shows the hook
 * nothing but the library's calls. Operators that it calls hear of Ctrl-C themselves. */
static bool is_spared(lua_State *L, const lua_Debug *at) {
  lua_Debug ar;
  int level = at->event == LUA_HOOKCALL; /* who calls */
  do
    if (!lua_getstack(L, level++, &ar) || !lua_getinfo(L, "S", &ar)) return false;
  while (*ar.what == 'C' || is_builtin(&ar));
  if (strncmp(ar.source, "=tessera", 8)) return false;
  if (!control.spared++) control.spared_since = now_ms();
  return control.spared < MOST_SPARED && now_ms() - control.spared_since < SPARED_MS;
}

static void close_exits(void) {
  ts_interrupt_close_exits();
  control.exit = NULL;
}

/* The program is told, and may go on; what catches the last one of all is left a little later. */
void ts_interrupt_raised(lua_State *L) {
  if (!control.pending) return;
  close_exits();
  control.raised = true;
  control.spared = 0;
  if (control.through) return (void)(control.wait = control.grace, control.grace /= 10);
  lua_sethook(L, NULL, 0, 0);
  ts_cpu_clear_interrupt();
  alarm(0);
  control.pending = 0; /* the next one may come now: what it sets stays */
}

/* In a thread in which only the library runs, that of its caller. */
void ts_interrupt_push_where(lua_State *L, int level) {
  char place[TS_PLACE_ROOM];
  bool found = ts_report_place(L, level, place, sizeof place) ||
               ts_report_place(control.L, 0, place, sizeof place);
  lua_pushfstring(L, "%s%s", found ? place : "", found ? ": " : "");
}

/* What must be done whole comes first (ts_cpu_hold_interrupts). */
static void stop_here(lua_State *L, lua_Debug *ar) {
  const char *place = control.exit; /* of a loop: nothing may run behind its exit */
  if (!place && (ts_cpu_holds_interrupts() || (control.wait && control.wait--))) return;
  if (!place && is_spared(L, ar)) return;
  bool full = control.full, pending = control.pending;
  control.full = false;
  control.spared = control.wait = 0;
  if (!pending) lua_sethook(L, NULL, 0, 0);
  if (!pending && !full) return;
  ts_interrupt_raised(L);
  if (place)
    lua_pushfstring(L, "%s: ", place);
  else
    ts_interrupt_push_where(L, 0);
  lua_pushstring(L, pending ? "interrupted" : "out of memory for values of Lua");
  lua_concat(L, 2);
  lua_error(L);
}

static void set_hook(void) {
  lua_sethook(control.L, stop_here, LUA_MASKCALL | LUA_MASKCOUNT, 1);
}

void ts_interrupt_ask(void) {
  control.pending = 1;
  ts_cpu_interrupt();
  set_hook();
}

void ts_interrupt_out_of_memory(void) {
  if (!control.L) return;
  control.full = true;
  set_hook();
}

static void ask_here(lua_State *L, lua_Debug *ar) {
  ts_interrupt_ask();
  stop_here(L, ar);
}

void ts_interrupt_ask_after(lua_State *L, int instructions) {
  lua_sethook(L, ask_here, LUA_MASKCOUNT, instructions);
}

/* ---- signals */
static void say(const char *text, size_t size) {
  ssize_t written = control.terminal ? write(STDERR_FILENO, "\n", 1) : 0; /* behind the "^C" */
  written = write(STDERR_FILENO, text, size);
  (void)written;
}

/* Lua's stack was looked at in the middle of something. */
static void on_fault(int number) {
  static const char text[] = "tessera: interrupted\n";
  (void)number;
  say(text, sizeof text - 1);
  _exit(TS_EXIT_INTERRUPTED);
}

static void end_process(const ucontext_t *at) {
  static const char rest[] = ": interrupted\n";
  char text[TS_PLACE_ROOM + sizeof rest] = "tessera";
  struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
  sigaction(SIGSEGV, &fault, NULL);
  sigaction(SIGBUS, &fault, NULL);
  ts_interrupt_place(control.L, at, text);
  strcat(text, rest);
  say(text, strlen(text));
  _exit(TS_EXIT_INTERRUPTED);
}

static void look_again_after(int ms) {
  struct itimerval v = {.it_value.tv_usec = ms * 1000, .it_interval.tv_usec = ms * 1000};
  setitimer(ITIMER_REAL, &v, NULL);
}

static void leave_loops(const ucontext_t *at) {
  if (!ts_cpu_holds_interrupts() && !control.wait) control.exit = ts_interrupt_open_exits(at);
}

static void handle_tick(const ucontext_t *at) {
  static const char text[] = "(still running; Ctrl-C again ends tessera)\n";
  if (!control.pending) return;
  leave_loops(at);
  if (now_ms() < control.until || control.told) return;
  /* What is done whole is done, and then it is heard. */
  if (control.script && !ts_cpu_holds_interrupts()) end_process(at);
  if (control.script) return;
  say(text, sizeof text - 1);
  control.told = 1;
}

static void handle_interrupt(const ucontext_t *at) {
  int64_t now = now_ms(), gap = now - control.last;
  if (gap < BOUNCE_MS) return;
  control.last = now;
  if (control.pending && (control.script || control.told)) end_process(at);
  control.series = control.script && gap >= SERIES_MS ? 1 : control.series + 1;
  control.through = control.series >= (control.script ? LAST_OF_SCRIPT : LAST_OF_COMMAND);
  control.told = 0;
  control.until = now + PATIENCE_MS;
  ts_interrupt_ask();
  leave_loops(at);
  look_again_after(TICK_MS);
  ts_cpu_leave();
}

/* The signal may leave what it came in by a jump, and what was there before is as it was. */
static void on_signal(int number, siginfo_t *info, void *at) {
  int before = errno;
  (void)info;
  if (number == SIGINT)
    handle_interrupt(at);
  else
    handle_tick(at);
  errno = before;
}

void ts_interrupt_forget(lua_State *L) {
  close_exits();
  control.pending = control.through = control.series = 0;
  control.full = false;
  control.spared = control.wait = 0;
  lua_sethook(L, NULL, 0, 0);
  ts_cpu_clear_interrupt();
  alarm(0);
}

void ts_interrupt_open(lua_State *L) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  control.L = L;
  control.pending = control.through = control.series = 0;
  control.raised = false;
  control.terminal = isatty(STDERR_FILENO);
  control.grace = GRACE;
  control.last = now_ms() - SERIES_MS;
  sigaction(SIGINT, NULL, &control.before);
  if (control.before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
  action.sa_flags |= SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  if (control.kept) raise(SIGINT);
  control.kept = 0;
}

/* An error that a program made of one that it caught is Ctrl-C's too. */
void ts_interrupt_close(lua_State *L, int status) {
  sigaction(SIGINT, &control.before, NULL);
  const char *said = status && control.raised ? lua_tostring(L, -1) : NULL;
  control.stopped = status && (control.pending || (said && strstr(said, "interrupted")));
  ts_cpu_let_interrupts(0);
  if (control.pending || control.full) ts_interrupt_forget(L);
}

static void on_leave(int number) {
  (void)number;
  _exit(TS_EXIT_INTERRUPTED);
}

void ts_interrupt_leave(int code) {
  if (code != TS_EXIT_INTERRUPTED) return;
  fflush(stdout);
  signal(SIGALRM, on_leave);
  alarm(LEAVE_S);
}
