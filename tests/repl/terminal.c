/* See terminal.h. */
#include "tests/repl/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

static char program[512], home[64] = "/tmp/tessera_prompt_XXXXXX", name[40];
char seen[ROOM];
static size_t nseen;
int terminal;
static int escape, checks, failed;
pid_t child;
void (*on_bytes)(const char *bytes, size_t size);

const char *home_folder(void) { return home; }

void check(int good, const char *what) {
  checks++;
  if (good) return;
  failed++;
  printf("%s: %s\n  seen: %s\n", name, what, seen);
}

/* Keeps printable bytes and line ends; ESC [ ... letter and ESC letter go. */
static void keep(const char *bytes, ssize_t n) {
  for (ssize_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (escape == 1) {
      escape = c == '[' ? 2 : 0;
    } else if (escape == 2) {
      if (c >= '@' && c <= '~') escape = 0;
    } else if (c == 27) {
      escape = 1;
    } else if ((c >= ' ' || c == '\n') && nseen + 1 < ROOM) {
      seen[nseen++] = (char)c;
    }
  }
  seen[nseen] = 0;
}

int more_within(int ms) {
  char bytes[4096];
  struct pollfd p = {.fd = terminal, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0) return 0;
  ssize_t n = read(terminal, bytes, sizeof bytes);
  if (n <= 0) return 0;
  if (on_bytes) on_bytes(bytes, (size_t)n);
  keep(bytes, n);
  return 1;
}

int more(void) { return more_within(PATIENCE_MS); }

void expect(const char *text) {
  char *at;
  while (!(at = strstr(seen, text)) && more()) continue;
  char what[200];
  snprintf(what, sizeof what, "expected \"%s\"", text);
  check(at != NULL, what);
  if (!at) return;
  at += strlen(text);
  nseen -= (size_t)(at - seen);
  memmove(seen, at, nseen + 1);
}

void type(const char *keys) {
  size_t n = strlen(keys);
  if (write(terminal, keys, n) != (ssize_t)n) check(0, "cannot type");
}

void start_with(int columns, int rows, const char *term, const char *option) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
  nseen = 0, seen[0] = 0, escape = 0;
  child = forkpty(&terminal, NULL, NULL, &size);
  if (child == 0) {
    setenv("HOME", home, 1);
    setenv("TERM", term, 1);
    unsetenv("XDG_STATE_HOME"), unsetenv("LUA_INIT"), unsetenv("COLUMNS"), unsetenv("PAGER");
    signal(SIGINT, SIG_DFL);
    execl(program, program, option, (char *)NULL);
    _exit(127);
  }
}

void start(int columns, int rows, const char *term) { start_with(columns, rows, term, NULL); }

/* The terminal is closed last, since that sends
 * SIGHUP, even to a process on its way out. */
int finish(void) {
  int status = 0;
  while (more()) continue;
  for (int i = 0; i < PATIENCE_MS && waitpid(child, &status, WNOHANG) == 0; i++) {
    if (i == PATIENCE_MS - 1) kill(child, SIGKILL);
    usleep(1000);
  }
  close(terminal);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int open_terminals(const char *self, const char *of) {
  const char *variant = strstr(self, "/tests/");
  snprintf(name, sizeof name, "%s", of);
  snprintf(program, sizeof program, "%.*s/tessera", variant ? (int)(variant - self) : 1,
           variant ? self : ".");
  if (access(program, X_OK)) snprintf(program, sizeof program, "bin/tessera");
  if (mkdtemp(home)) return 1;
  perror("mkdtemp");
  return 0;
}

int close_terminals(void) {
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", home);
  if (system(command)) failed++;
  printf("checks %d failed %d\n", checks, failed);
  return failed != 0;
}
