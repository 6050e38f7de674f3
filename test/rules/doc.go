// Package rules is the house rules of this repository as code: which imports are allowed, how long functions and
// files may get, which calls are forbidden where, which words stay out of the text.
//
// Load reads the whole checkout once into a Repo (a syntax tree per Go file, the lines of every other text file);
// each Rule is a pure function from a Repo to findings. All runs every rule and takes waivers into account. The test
// TestHouseRules fails on the first finding that is not waived and prints how many waivers there are, by rule.
//
// A waiver is a comment on the offending line, or on a line of its own just above it:
//
//	//nolint:funlen // the table of message kinds reads better in one piece
//
// A waiver above the package clause holds for the file. Without a reason it is a finding.
//
// Invariants: a rule looks at syntax only, so the checkout need not compile; every rule has a
// planted violation in a test (planted_test.go, release_test.go) that it must catch, so a rule cannot rot silently.
//
// Start reading at rule.go, then edges.go.
package rules
