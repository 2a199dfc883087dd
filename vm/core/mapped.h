/* Tensors over the bytes of a file, without copying them. The mapping is private and writable:
 * what is changed in place changes memory, never the file. Small files are read instead, in less
 * time than a mapping takes, and their tensors are as all others.
 *
 * Another program may change the file meanwhile. If it cuts it, pages are gone and reading them
 * is SIGBUS: the handler puts zeros in their place, stops what runs as Ctrl-C does, and the error
 * at the end of it says what happened. What was cut within a page, or written over, reads as
 * other bytes without a signal: inotify tells, and from then on reading such a tensor is an
 * error, too, until the file is loaded again. (Rejected: copies of all that is loaded, since
 * models are larger than what is left of memory; looking at the file's size before each use,
 * since it may be cut a moment later; leases, which hold up whoever writes.) Where inotify knows
 * nothing, on network file systems, what is cut within a page is not noticed. */
#ifndef TS_VM_MAPPED_H
#define TS_VM_MAPPED_H

#include "vm/core/tensor.h"

typedef struct TsMapped TsMapped;

/* A file of so many bytes, which is open; memory for what one is unpacked to. NULL with errno. */
TsMapped *ts_mapped_open(int fd, const char *path, size_t len);
TsMapped *ts_mapped_memory(size_t len);
void ts_mapped_unref(TsMapped *m); /* tensors over it have references of their own */
const char *ts_mapped_bytes(const TsMapped *m, size_t *len);
/* A tensor of m's bytes from `offset` on, which lie inside: over them, or a copy where they are not
 * aligned to its elements, or few in memory. */
TsTensor *ts_mapped_tensor(TsContext *c, TsMapped *m, const TsMeta *meta, size_t offset);

/* Whether a file may have changed since the last ts_mapped_settle. */
bool ts_mapped_changed(void);
/* The system could not read t, which raises no signal: its file is looked at. */
void ts_mapped_doubt(const TsTensor *t);
/* Looks after the files: tensors over those that have changed cannot be read any more. -1 with the
 * error, in place of any other, if what ran since the last time has read bytes that were gone. */
int ts_mapped_settle(TsContext *c);
/* The same; -1 also if one of these is such a tensor. */
int ts_mapped_check(TsContext *c, int n, TsTensor *const *in);
/* The error of a storage that is lost: which file it lay over. */
int ts_mapped_lost(const TsStorage *s);

#endif
