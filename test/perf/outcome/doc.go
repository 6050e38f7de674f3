// Package outcome is what a measurement leaves behind: one file for each part of `make bench-full`,
// with the numbers that limits are about, tables and plots for the documents, and what is needed to
// measure again: machine, versions, command. Beside it, limits and what they say of an outcome, and
// the comparison of two outcomes of the same part.
//
// Nothing here measures, and nothing knows how a number came about: names of values are agreed
// between the program that measures and the file of limits.
//
// Start reading at Outcome, then Limit.
package outcome
