// Package priorities tells how a cluster's pods and what they ask for are spread over priorities,
// and whether preemption can still help anybody: when everything is important, nothing is.
//
// Of is a pure function of lists of the API server's objects. Start reading there.
package priorities
