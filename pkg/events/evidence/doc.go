// Package evidence holds the records of a decision about how it was made: the state that it was made on (Basis), the
// best candidates, and how the node was chosen (Way). A replay makes the decision again from it.
package evidence
