// Package audit checks the placement of pods from the API server's objects alone. It shares no code with Berth: a
// pod's requests are added up here once more, from the API's own definition, so that a mistake in Berth's arithmetic
// cannot hide itself.
//
// It looks at the present state of pods, so it detects neither two binds of one pod (the API server refuses the
// second) nor the situation at the moment of a decision; events show the former.
//
// Start reading at Check.
package audit
