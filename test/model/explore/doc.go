// Package explore visits every state that a small model can reach, breadth first, so that the first violation it
// finds has the shortest history there is.
//
// It is the checker behind the models of test/model. A model is a comparable value, a function that lists the
// possible next steps, and a check of a state.
//
// Run is for models of up to some million states. RunCompact is for larger ones: it keeps fingerprints instead of
// states, and the model defines which states behave alike.
package explore
