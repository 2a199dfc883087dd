/* See terminal.h. */
#include "tests/repl/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { ROOM = 1 << 16, SHOWN = 2000, SLICE_MS = 100 };

static char program[512], home[64] = "/tmp/tessera_prompt_XXXXXX", name[40];
static char shown[2 * SHOWN + 1]; /* the last that came from the program, matched or not */
static size_t nshown;
static int patience_s, status;
static bool has_ended;
char seen[ROOM];
static size_t nseen;
int terminal;
static int escape, checks, failed;
pid_t child;
void (*on_bytes)(const char *bytes, size_t size);

const char *home_folder(void) { return home; }

static bool is_over(void) {
  if (!has_ended && waitpid(child, &status, WNOHANG) == child) has_ended = true;
  return has_ended;
}

/* A line of the system on the program. */
static void tell_line(const char *file) {
  char path[60], line[80];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)child, file);
  FILE *f = fopen(path, "r");
  if (f && fgets(line, sizeof line, f))
    printf("  its %s: %.*s\n", file, (int)strcspn(line, "\n"), line);
  if (f) fclose(f);
}

/* What became of the program, and what it said; its errors come to the terminal too. */
static void tell_program(void) {
  if (!is_over()) {
    printf("  the program still runs\n");
    tell_line("stat"), tell_line("syscall");
  } else if (WIFSIGNALED(status)) {
    printf("  the program was ended by signal %d\n", WTERMSIG(status));
  } else {
    printf("  the program had ended, exit status %d\n", WEXITSTATUS(status));
  }
  printf("  its last output and errors: %s\n", nshown > SHOWN ? shown + nshown - SHOWN : shown);
}

void check(int good, const char *what) {
  checks++;
  if (good) return;
  failed++;
  printf("%s: %s\n  seen: %s\n", name, what, seen);
  tell_program();
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
    } else if (c >= ' ' || c == '\n') {
      if (nseen + 1 < ROOM) seen[nseen++] = (char)c;
      if (nshown == 2 * SHOWN) memmove(shown, shown + SHOWN, nshown = SHOWN);
      shown[nshown++] = (char)c;
    }
  }
  seen[nseen] = shown[nshown] = 0;
}

/* 0: nothing came; -1: nothing will. */
static int come(int ms) {
  char bytes[4096];
  struct pollfd p = {.fd = terminal, .events = POLLIN};
  if (poll(&p, 1, ms) <= 0) return 0;
  ssize_t n = read(terminal, bytes, sizeof bytes);
  if (n <= 0) return -1;
  if (on_bytes) on_bytes(bytes, (size_t)n);
  keep(bytes, n);
  return 1;
}

/* In slices, as of a time in which the machine stands still only one passes. Who waited in vain
 * waits no longer: what hangs costs the time once. */
int more(void) {
  int came = 0;
  for (int i = 0; came == 0 && i < patience_s * 1000 / SLICE_MS; i++) came = come(SLICE_MS);
  if (came == 0) {
    printf("%s: nothing came within %d s\n", name, patience_s);
    patience_s = PATIENCE_S / 60;
  }
  return came > 0;
}

void expect_editor(void) {
  struct termios mode;
  for (int i = 0; i < patience_s * 100 && !is_over(); i++) {
    if (!tcgetattr(terminal, &mode) && !(mode.c_lflag & ICANON)) return;
    come(10);
  }
  check(0, "expected the editor of lines");
}

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
  nseen = 0, seen[0] = 0, escape = 0, nshown = 0, shown[0] = 0, has_ended = false;
  patience_s = PATIENCE_S;
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
  while (more()) continue;
  for (int i = 0; i < patience_s * 1000 && !is_over(); i++) usleep(1000);
  if (!is_over()) {
    tell_program();
    kill(child, SIGKILL);
    has_ended = waitpid(child, &status, 0) == child;
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
