// Package exploretest has what the tests of all models share: a protocol holds in every scenario, and breaks in one
// scenario without each of its parts.
package exploretest
