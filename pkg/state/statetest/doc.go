// Package statetest helps to test code built on pkg/state: objects in one line, facts in sequence, random histories
// of a cluster for property tests, and Twin, a store so simple that it is obviously correct.
package statetest
