/* Storages: counted memory, and its copies on devices. What a tensor is made of; for all else
 * vm/core/tensor.h is the interface. */
#ifndef TS_VM_STORAGE_H
#define TS_VM_STORAGE_H

#include "vm/core/tensor.h"

/* One with a reference, for the next tensor of the context; NULL without an error where there is no memory. */
TsStorage *ts_storage_new(TsContext *c, int64_t nbytes); /* bytes on the host */
/* Without bytes anywhere; its first copy is the device's. */
TsStorage *ts_storage_remote(TsContext *c, int64_t nbytes, int device);
/* Over memory of others, which release(arg) gives back; NULL: it stays. */
TsStorage *ts_storage_around(TsContext *c, int64_t nbytes, void *host, void (*release)(void *),
                             void *arg);
void ts_storage_keep(void *arg); /* the release of memory that stays */
void ts_storage_free(TsStorage *s);

/* The address of the first copy of a remote storage from now on; what it held is forgotten. */
void ts_storage_place(TsStorage *s, void *at);
TsCopy *ts_storage_copy(const TsStorage *s, int device); /* valid or not, or NULL */
/* The device's copy, up to date; NULL with the error. */
TsCopy *ts_storage_fetch(TsStorage *s, int device);

#endif
