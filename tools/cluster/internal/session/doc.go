// Package session manages one directory of child programs: it starts them, reports when they are ready, watches over
// them, and stops them.
//
// A session is a supervisor process and its children. Everything about it lies in one directory: the lock,
// state.json, logs and data. "cluster up", "cluster store" and "cluster peer" are all sessions; they differ in the
// function that starts the children.
//
// A session ends on SIGINT or SIGTERM, when a process that owns it has ended, or when one of its children ends by
// itself. In every case the children are stopped in the reverse of the order they started in, so that none loses its
// dependencies: KWOK and the controllers before the API server, the API server before etcd. A supervisor that is
// killed takes its children along (see package process).
//
// Invariant: state.json says "ready" only after everything in it answers.
//
// Start reading at run.go; detach.go is the same run in the background.
package session
