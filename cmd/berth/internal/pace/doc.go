// Package pace sets how often the garbage collector of a process that runs services works: rarely while the process is
// busy and its heap small, often while it is idle.
//
// It keeps no goroutine. Tune sets the pace, and the end of each collection, which the cleanup of a marker object
// detects, sets it again. A busy process with a small heap is also checked every idleCycle by a timer. Without Tune,
// a process keeps the runtime's own pace.
//
// Start reading at Tune.
package pace
