// Package process runs child programs and sees to it that none outlives the
// supervisor that started it.
//
// Invariants:
//
//   - A child gets its own process group, so Ctrl-C in a terminal reaches the
//     supervisor alone and the supervisor chooses the order of stopping.
//   - On Linux the kernel kills a child when the supervisor dies, even by
//     SIGKILL.
//   - A child inherits the lock file of its directory. The lock is free only
//     when the supervisor and every child are gone, which is how "nothing is
//     left" is decided everywhere: process ids can be reused, the lock cannot.
//
// Start reading at child.go, then lock.go.
package process
