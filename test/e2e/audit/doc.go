// Package audit checks where pods stand from the API server's objects alone. It shares no code
// with Berth: what a pod asks for is added up here once more, from the API's own definition, so
// that a mistake in Berth's arithmetic cannot hide itself.
//
// It speaks of pods as they stand, so it does not see two binds of one pod (the API server
// refuses the second) nor what was true at the moment of a decision; events tell the former.
//
// Start reading at Check.
package audit
