/* os.execute. As system(), but Ctrl-C means something: the command has it, and if it ends of that,
 * so does what called it. A command that goes on, as an editor does, is waited for; the third of a
 * series, each within a second of the one before, ends it whatever it does. */
#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/clock.h"
#include "repl/interrupt.h"
#include "repl/report.h"
#include "repl/run.h"

extern char **environ;

static int start(const char *command, const sigset_t *mask, pid_t *pid) {
  const char *argv[] = {"sh", "-c", command, NULL};
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  posix_spawnattr_setsigmask(&attr, mask);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
  int failed =
      posix_spawn(pid, "/bin/sh", NULL, &attr, (char *const *)(uintptr_t)argv, environ);
  posix_spawnattr_destroy(&attr);
  return failed;
}

static pid_t parent_of(pid_t pid) {
  char path[40], text[512], *end;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  end = strrchr(text, ')'); /* behind the name: a letter, the parent */
  return end && strlen(end) > 4 ? (pid_t)atoi(end + 4) : 0;
}

enum { SERIES_MS = 1000, LAST = 3 };

/* To the command and whatever it has started: a shell that waits would not pass it on. */
static void tell(pid_t pid, int number) {
  DIR *proc = opendir("/proc");
  for (struct dirent *e; proc && (e = readdir(proc));) {
    pid_t other = (pid_t)atoi(e->d_name);
    if (other > 0 && parent_of(other) == pid) tell(other, number);
  }
  if (proc) closedir(proc);
  kill(pid, number);
}

/* Signals come one by one, so that none is missed. The terminal tells all of its processes;
 * somebody else may have told us alone. told: SIGINT came. */
static int wait_for(pid_t pid, const sigset_t *set, bool *told) {
  int status, series = 0;
  int64_t last = 0;
  pid_t done;
  while (!(done = waitpid(pid, &status, WNOHANG))) {
    siginfo_t info;
    if (sigwaitinfo(set, &info) != SIGINT) continue;
    int64_t now = ts_clock_nsec() / 1000000;
    series = now - last < SERIES_MS ? series + 1 : 1;
    last = now;
    *told = true;
    if (info.si_code <= 0) tell(pid, SIGINT);
    if (series == LAST) tell(pid, SIGKILL);
  }
  return done < 0 ? -1 : status;
}

static bool ended_by_interrupt(int status) {
  return (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGKILL)) ||
         (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
}

static int interrupted(lua_State *L) {
  ts_interrupt_raised(L);
  ts_report_where(L, 1);
  lua_pushliteral(L, "os.execute: interrupted");
  lua_concat(L, 2);
  return lua_error(L);
}

int ts_run_execute(lua_State *L) {
  const char *command = luaL_optstring(L, 1, NULL);
  if (ts_interrupt_wanted()) return interrupted(L);
  if (!command) return lua_pushinteger(L, 1), 1; /* there is a shell */
  sigset_t set, before;
  pid_t pid;
  bool told = false;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, &before);
  int status = start(command, &before, &pid) ? -1 : wait_for(pid, &set, &told);
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (told && ended_by_interrupt(status)) return raise(SIGINT), interrupted(L); /* it counts */
  lua_pushinteger(L, status);
  return 1;
}
