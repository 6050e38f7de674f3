package rules

import "regexp"

// The debts: what was there before its ceiling.
var (
	methodDebt = debt{
		"pkg/audit.replay": 93,
	}
	lineDebt   = debt{}
	exportDebt = debt{}
)

// backDebt is in percent.
var backDebt = debt{
	"pkg/audit":                         21,
	"pkg/descheduling":                  25,
	"pkg/placement":                     25,
	"pkg/placement/config":              21,
	"pkg/placement/devices":             27,
	"pkg/placement/engine":              29,
	"services/binder/decide/bind":       29,
	"services/queue":                    25,
	"services/scheduler/decide":         25,
	"services/scheduler/decide/preempt": 28,
}

// The debts of the house's measures, see House.
const (
	commentDebt = 13
	branchDebt  = 25
)

// phrases are the words that a reader stumbles over, and two forms that Go readers expect. Standards are those of the
// projects that we admire.
var phrases = []phrase{
	{"\"told\" and \"tells\"", regexp.MustCompile(`(?i)\b(told|tells?|telling)\b`), 1, false, 3},
	{"\"is what\"", regexp.MustCompile(`(?i)\b(is|are|was) what\b`), 1, false, 3},
	{"\"says whether\"", regexp.MustCompile(`(?i)\b(says?|tells?) whether\b`), 0.5, false, 0},
	{"\"nobody\", \"somebody\"", regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), 0.5, false, 0},
	{"\"returns\"", regexp.MustCompile(`(?i)\breturns?\b`), 40, true, 0},
}
