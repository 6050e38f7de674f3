// Package seedtest says from which seed random tests begin, for all of them in one place: the
// environment's TEST_SEED. Without it that is a fixed one, so that a test which passes passes again;
// with TEST_SEED=random each test draws one and prints it, and with a number it begins there.
//
// Invariants:
//
//   - A test binary that imports this package has no other source of randomness in rapid: its init
//     sets the default of -rapid.seed. Flags are read later and win. test/rules wants the import
//     in every package whose tests import rapid.
//   - A seed that a test draws is in its log.
//
// Start reading at First.
package seedtest
