package outcome

import (
	"cmp"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Limit is a bound on one value of one part, or on its quotient by another value.
type Limit struct {
	Part  string `json:"part"`
	Value string `json:"value"`
	// By is what Value is divided by; nil if Value is bounded itself.
	By *Divisor `json:"by,omitempty"`
	// Says describes the measure, Unit follows the number.
	Says string `json:"says"`
	Unit string `json:"unit,omitempty"`
	// AtLeast or AtMost is the bound; exactly one is set.
	AtLeast *float64 `json:"atLeast,omitempty"`
	AtMost  *float64 `json:"atMost,omitempty"`
	// Wall names a value of the same outcome: the best that this limit's value could be on that machine if the
	// measured software cost nothing. Empty if no value gives that.
	Wall string `json:"wall,omitempty"`
	// Ratio marks a value that compares two things within one run, so that runs on different machines can be compared
	// by it.
	Ratio bool `json:"ratio,omitempty"`
	// Tolerance is by which part of the accepted value a new one may be worse; 0 is usualTolerance.
	Tolerance float64 `json:"tolerance,omitempty"`
	// Evidence is where the bound comes from.
	Evidence string `json:"evidence"`
}

// Divisor names a value of an outcome.
type Divisor struct {
	// Part is that of the limit when empty. Another part ran at another time: the quotient says something only if
	// both ran on the same machine, with the same version of Berth.
	Part  string `json:"part,omitempty"`
	Value string `json:"value"`
}

// usualTolerance is a little more than what runs on a quiet machine differ by.
const usualTolerance = 0.15

// State of a limit in view of an outcome.
type State string

// States.
const (
	Met     State = "met"
	NotMet  State = "not met"
	NotRun  State = "not run"
	Failed  State = "failed"
	Missing State = "not measured by this run"
	Unlike  State = "not comparable: the parts ran on different machines or versions"
)

// ReadLimits reads a file of limits.
func ReadLimits(path string) ([]Limit, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var limits []Limit
	if err := yaml.UnmarshalStrict(raw, &limits); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, l := range limits {
		if l.Part == "" || l.Value == "" || l.Says == "" || l.Evidence == "" || (l.AtLeast == nil) == (l.AtMost == nil) {
			return nil, fmt.Errorf("%s: limit %d, %s %s: want part, value, says, evidence, and one of atLeast and atMost",
				path, i+1, l.Part, l.Value)
		}
		if l.By != nil && l.By.Value == "" {
			return nil, fmt.Errorf("%s: limit %d, %s %s: by: want a value", path, i+1, l.Part, l.Value)
		}
	}
	return limits, nil
}

// versionOfBerth is the name of Berth's version among those of an outcome.
const versionOfBerth = "berth"

// Judge reports whether outcomes, by part, keep the limit, and returns the value. A part that has not run has none.
func (l Limit) Judge(of map[string]*Outcome) (State, float64) {
	seen, state := l.seen(of)
	switch {
	case state != Met:
		return state, 0
	case l.AtLeast != nil && seen >= *l.AtLeast, l.AtMost != nil && seen <= *l.AtMost:
		return Met, seen
	}
	return NotMet, seen
}

// seen is the limit's value; the state is Met if there is one, else why there is none.
func (l Limit) seen(of map[string]*Outcome) (float64, State) {
	value, state := of[l.Part].value(l.Value)
	if l.By == nil || state != Met {
		return value, state
	}
	other := of[l.divisorPart()]
	by, state := other.value(l.By.Value)
	switch {
	case state != Met:
		return 0, state
	case by == 0:
		return 0, Missing
	case !of[l.Part].Machine.Same(other.Machine), of[l.Part].Versions[versionOfBerth] != other.Versions[versionOfBerth]:
		return 0, Unlike
	}
	return value / by, Met
}

// divisorPart is the part of the divisor.
func (l Limit) divisorPart() string { return cmp.Or(l.By.Part, l.Part) }

// Parts are the parts that the limit needs outcomes of.
func (l Limit) Parts() []string {
	if l.By == nil || l.divisorPart() == l.Part {
		return []string{l.Part}
	}
	return []string{l.Part, l.divisorPart()}
}

// value of an outcome; the state is Met if it has one. The outcome is nil if the part has not run.
func (o *Outcome) value(name string) (float64, State) {
	switch {
	case o == nil:
		return 0, NotRun
	case o.Failure != "":
		return 0, Failed
	}
	if value, ok := o.Values[name]; ok {
		return value, Met
	}
	return 0, Missing
}

// Reach returns the value of the limit's wall in the outcomes; false if there is none.
func (l Limit) Reach(of map[string]*Outcome) (wall float64, ok bool) {
	o := of[l.Part]
	if o == nil || l.Wall == "" {
		return 0, false
	}
	wall, ok = o.Values[l.Wall]
	return wall, ok
}

// Bound is the limit in words.
func (l Limit) Bound() string {
	if l.AtLeast != nil {
		return "at least " + Number(*l.AtLeast) + l.Unit
	}
	return "at most " + Number(*l.AtMost) + l.Unit
}

// Share is by how much seen keeps the limit: above 1 is better than asked for. 0 when it cannot be said.
func (l Limit) Share(seen float64) float64 {
	switch {
	case l.AtLeast != nil && *l.AtLeast != 0:
		return seen / *l.AtLeast
	case l.AtMost != nil && seen != 0:
		return *l.AtMost / seen
	}
	return 0
}

// Worse compares outcomes, by part, with accepted ones: an error in plain words when the value got worse by more than
// the tolerance. Absolute values are only compared on the same machine, and only values that were accepted. A quotient
// of parts that cannot be compared, as only one of them has run anew, is no worse.
func (l Limit) Worse(accepted, now map[string]*Outcome) error {
	before, known := l.seen(accepted)
	if known != Met || !l.Ratio && (now[l.Part] == nil || !accepted[l.Part].Machine.Same(now[l.Part].Machine)) {
		return nil
	}
	seen, state := l.seen(now)
	if state == NotRun || state == Unlike {
		return nil
	}
	if state != Met {
		return fmt.Errorf("%s: %s: %s, accepted is %s%s", l.Part, l.Says, state, Number(before), l.Unit)
	}
	tolerance := l.Tolerance
	if tolerance == 0 {
		tolerance = usualTolerance
	}
	least, most := before*(1-tolerance), before*(1+tolerance)
	if l.AtLeast != nil && seen < least || l.AtMost != nil && seen > most {
		return fmt.Errorf("%s: %s: %s%s, accepted on %s is %s%s: worse by more than %s%%", l.Part, l.Says,
			Number(seen), l.Unit, accepted[l.Part].Time.Format("2006-01-02"), Number(before), l.Unit, Number(tolerance*100))
	}
	return nil
}
