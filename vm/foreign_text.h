/* The text of signatures (vm/foreign.h). */
#ifndef TS_VM_FOREIGN_TEXT_H
#define TS_VM_FOREIGN_TEXT_H

#include <ffi.h>

#include "vm/foreign.h"

/* Types as C knows them. */
typedef struct TsForeignType {
  const char *name;
  TsDtype dtype; /* of tensors of it and of its results; none: no tensor has it */
  TsDtype result;
  ffi_type *ffi;    /* NULL: only behind pointers */
  double low, high; /* of integers */
} TsForeignType;

extern const TsForeignType ts_foreign_type[];
enum { TS_FOREIGN_VOID = 0 };

typedef struct TsForeignText {
  int returns; /* type */
  bool status;
  int n;
  TsForeignParam param[TS_FOREIGN_PARAMS];
} TsForeignText;

int ts_foreign_read(TsForeignText *t, TsError *err, const char *symbol, const char *signature);

#endif
