// Package audit checks a cluster from the API server's own state alone: it lists nodes and
// pods, adds everything up again from scratch, and reports what should not be. It shares
// no state with the services, so that it can find their mistakes.
//
// Start reading at Run.
package audit
