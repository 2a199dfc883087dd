/* The one error slot of a context: code, message, hint, place. A function that
 * can fail returns 0, or -1 with the slot filled; callers release what they
 * hold and return on. */
#ifndef TS_LIB_ERROR_H
#define TS_LIB_ERROR_H

typedef enum TsErrorCode {
  TS_OK,
#define ERR(name, text) TS_ERR_##name,
#include "lib/errors.def"
#undef ERR
} TsErrorCode;

typedef struct TsError {
  TsErrorCode code;
  char message[480]; /* "matmul: inner sizes differ: f32[2,3] x f32[4,5] (3 vs 4)" */
  char hint[240];    /* the nearest legal fix, or "" */
} TsError;

/* Fills the slot and returns -1, so that a failure is one statement. */
int ts_error_set(TsError *e, TsErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int ts_error_memory(TsError *e); /* the same, "out of memory" */
/* Adds the hint; returns -1 as well. */
int ts_error_hint(TsError *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds function and place of the program, " (in f, model.lua:12)", unless there is one; -1. */
int ts_error_where(TsError *e, const char *function, const char *place);
void ts_error_clear(TsError *e);

/* For defects of ours: prints what is broken and where, then aborts. */
_Noreturn void ts_bug(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define TS_BUG(...)  ts_bug(__FILE__, __LINE__, __VA_ARGS__)
#define TS_ASSERT(x) ((x) ? (void)0 : TS_BUG("assertion failed: %s", #x))

#endif
