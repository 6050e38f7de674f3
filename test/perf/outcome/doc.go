// Package outcome is the result of a measurement: one file for each part of `make bench-full`, with the numbers that
// limits are about, tables and plots for the documents, and the conditions needed to measure again: machine,
// versions, command. It also has limits, their verdicts on an outcome, and the comparison of two outcomes of the same
// part.
//
// Nothing here measures or depends on how a number was measured: the measuring program and the file of limits agree
// on the names of values.
//
// Start reading at Outcome, then Limit.
package outcome
