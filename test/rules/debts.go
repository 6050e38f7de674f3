package rules

import "regexp"

// The debts: excesses that existed before their ceiling.
var (
	methodDebt = debt{}
	lineDebt   = debt{}
	exportDebt = debt{}
)

// backDebt is in percent.
var backDebt = debt{}

// phrases are the words that a reader stumbles over, and two forms that Go readers expect. Standards are those of the
// projects that we admire.
var phrases = []phrase{
	{"\"told\" and \"tells\"", regexp.MustCompile(`(?i)\b(told|tells?|telling)\b`), 1, false, 0},
	{"\"is what\"", regexp.MustCompile(`(?i)\b(is|are|was) what\b`), 1, false, 0},
	{"\"says whether\"", regexp.MustCompile(`(?i)\b(says?|tells?) whether\b`), 0.5, false, 0},
	{"\"nobody\", \"somebody\"", regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), 0.5, false, 0},
	{"\"returns\"", regexp.MustCompile(`(?i)\breturns?\b`), 40, true, 0},
}
