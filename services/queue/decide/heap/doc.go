// Package heap provides a binary heap that knows the position of each of its items, so that an item can be removed or
// reordered without a search. Upstream's scheduling queue has one for the same purpose (pkg/scheduler/backend/heap).
//
// Start reading at Heap.
package heap
