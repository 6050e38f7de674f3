// Package resident tells what the memory of running processes holds: the kernel's account by kind of mapping, and, for
// a Berth that serves profiles, the live heap by the part of the program that allocated it.
//
// The two do not add up to one account by themselves. The kernel counts pages; a heap profile counts live objects, from
// samples. What is anonymous memory beyond the live objects is garbage that was not collected, room between objects,
// pages that were freed and not yet given back, stacks, and the runtime's own.
//
// Start reading at Of, then Heap.
package resident
