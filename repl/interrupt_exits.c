/* A compiled loop is left by what LuaJIT itself leaves it by: the stub of an exit, which goes back to
 * the interpreter. Its machine code is changed so that it jumps there, and back when Ctrl-C has been
 * heard:
 *
 *   entry   behind the instruction that tells which trace runs. Everything is on Lua's stack then,
 *           and the first exit, whose snapshot restores nothing, goes on where the trace begins.
 *   end     of a loop. Where it is a guard that jumps back (jcc loop; jmp exit), the guard fails. Where
 *           it is a jump, it is one to the first exit. Locals of the loop's own call are then on the
 *           stack what they were when the trace was entered: that call ends by the error of Ctrl-C,
 *           and only a closure that has them could see it.
 *
 * Nothing may run behind such an exit but the hook, so nobody opens them while interrupts are held, and
 * traces that begin in the library stay as they are. The bytes are checked to be what LuaJIT's
 * assembler for x86-64 makes, or are left alone; other machines have no such exits.
 *
 * Rejected: code that looks (repl/interrupt.c), and an error raised out of the handler, of which
 * Lua's stack knows nothing. */
#include "repl/interrupt_exits.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "repl/interrupt_places.h"

#if defined __x86_64__

enum { MOST = 2048, LONGEST = 6, JUMP = 5, HEAD = 32 };

/* The handler fills it, and it is emptied between two instructions of Lua. */
static struct {
  uint8_t *at, old[LONGEST];
  int size;
} patch[MOST];
static volatile sig_atomic_t npatch;

/* Handlers may call it: it is one system call. */
static bool protect(const uint8_t *at, int size, int how) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at & ~(page - 1);
  return !mprotect((void *)from, (uintptr_t)at + (uintptr_t)size - from, how);
}

static bool write_code(uint8_t *at, const uint8_t *bytes, int size) {
  if (!protect(at, size, PROT_READ | PROT_WRITE)) return false;
  memcpy(at, bytes, (size_t)size);
  return protect(at, size, PROT_READ | PROT_EXEC);
}

/* Not where the program stands in the midst of these bytes, or returns to there. */
static void change(const ucontext_t *here, uint8_t *at, const uint8_t *bytes, int size) {
  if (npatch == MOST || !memcmp(at, bytes, (size_t)size)) return;
  if (ts_interrupt_is_between(here, (uintptr_t)at + 1, (uintptr_t)at + (uintptr_t)size)) return;
  patch[npatch].at = at, patch[npatch].size = size;
  memcpy(patch[npatch].old, at, (size_t)size);
  npatch++;
  if (!write_code(at, bytes, size)) npatch--;
}

static int32_t word(const uint8_t *at) {
  int32_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

static void jump(const ucontext_t *here, uint8_t *at, uintptr_t target) {
  int64_t distance = (int64_t)target - (int64_t)(uintptr_t)at - JUMP;
  uint8_t bytes[JUMP] = {0xe9};
  int32_t near = (int32_t)distance;
  memcpy(bytes + 1, &near, sizeof near);
  if (near == distance) change(here, at, bytes, JUMP);
}

/* Behind "mov dword [r14 + d], number", which stands in the head of each trace; NULL: there is
 * none. */
static uint8_t *entry_of(const TsMachineCode *t) {
  uint8_t *code = (uint8_t *)t->start;
  for (int i = 0; i + 11 + JUMP <= HEAD && t->start + (uintptr_t)i + 11 + JUMP <= t->end; i++) {
    uint8_t *p = code + i;
    if (p[0] == 0x41 && p[1] == 0xc7 && p[2] == 0x86 && word(p + 7) == t->number) return p + 11;
    if (p[0] == 0x41 && p[1] == 0xc7 && p[2] == 0x46 && word(p + 4) == t->number) return p + 8;
  }
  return NULL;
}

static void leave_loop(const ucontext_t *here, const TsMachineCode *t, uint8_t *entry) {
  static const uint8_t nop2[] = {0x66, 0x90}, nop6[] = {0x66, 0x0f, 0x1f, 0x44, 0, 0};
  uint8_t *end = (uint8_t *)t->end, *loop = (uint8_t *)t->start + t->loop, *p = end - JUMP;
  if (t->end - t->start < 24) return;
  if (*p == 0xe9 && p + JUMP + word(p + 1) == loop) return jump(here, p, t->exit);
  if (*p == 0xe9 && (p[-2] & 0xf0) == 0x70 && p + (int8_t)p[-1] == loop)
    return change(here, p - 2, nop2, 2);
  if (*p == 0xe9 && p[-6] == 0x0f && (p[-5] & 0xf0) == 0x80 && p + word(p - 4) == loop)
    return change(here, p - 6, nop6, 6);
  if (end[-2] != 0xeb || end + (int8_t)end[-1] != loop) return;
  /* A short jump goes by what stands before the loop, which has been run, or by the entry. */
  uint8_t *by = loop - JUMP >= entry + JUMP ? loop - JUMP : entry;
  uint8_t bytes[2] = {0xeb, (uint8_t)(by - end)};
  if (by - end < -128) return;
  jump(here, by, t->exit);
  if (*by == 0xe9 && (uintptr_t)by + JUMP + (uintptr_t)(intptr_t)word(by + 1) == t->exit)
    change(here, end - 2, bytes, 2);
}

const char *ts_interrupt_open_exits(const ucontext_t *at) {
  const TsMachineCode *t, *running = ts_interrupt_running(at);
  int n = running ? ts_interrupt_traces(&t) : 0;
  for (int i = 0; i < n; i++) {
    uint8_t *entry = t[i].exit ? entry_of(&t[i]) : NULL;
    if (entry && t[i].loop) leave_loop(at, &t[i], entry);
    if (entry) jump(at, entry, t[i].exit);
  }
  return npatch ? running->place : NULL;
}

void ts_interrupt_close_exits(void) {
  while (npatch) {
    int last = npatch - 1;
    write_code(patch[last].at, patch[last].old, patch[last].size);
    npatch = last;
  }
}

#else

const char *ts_interrupt_open_exits(const ucontext_t *at) {
  (void)at;
  return NULL;
}

void ts_interrupt_close_exits(void) {}

#endif
