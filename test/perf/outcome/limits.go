package outcome

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Limit is a bound on one value of one part.
type Limit struct {
	Part  string `json:"part"`
	Value string `json:"value"`
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
	}
	return limits, nil
}

// Judge reports whether an outcome keeps the limit, and returns the value. A part that has not run is nil.
func (l Limit) Judge(o *Outcome) (State, float64) {
	switch {
	case o == nil:
		return NotRun, 0
	case o.Failure != "":
		return Failed, 0
	}
	seen, ok := o.Values[l.Value]
	switch {
	case !ok:
		return Missing, 0
	case l.AtLeast != nil && seen >= *l.AtLeast, l.AtMost != nil && seen <= *l.AtMost:
		return Met, seen
	}
	return NotMet, seen
}

// Reach returns the value of the limit's wall in an outcome; false if there is none.
func (l Limit) Reach(o *Outcome) (wall float64, ok bool) {
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

// Worse compares an outcome with an accepted one: an error in plain words when the value got worse
// by more than the tolerance. Absolute values are only compared on the same machine.
func (l Limit) Worse(accepted, now Outcome) error {
	before, known := accepted.Values[l.Value]
	if !known || accepted.Failure != "" || !l.Ratio && !accepted.Machine.Same(now.Machine) {
		return nil
	}
	seen, ok := now.Values[l.Value]
	if !ok {
		return fmt.Errorf("%s: %s: nothing was measured, accepted is %s%s", l.Part, l.Says, Number(before), l.Unit)
	}
	tolerance := l.Tolerance
	if tolerance == 0 {
		tolerance = usualTolerance
	}
	least, most := before*(1-tolerance), before*(1+tolerance)
	if l.AtLeast != nil && seen < least || l.AtMost != nil && seen > most {
		return fmt.Errorf("%s: %s: %s%s, accepted on %s is %s%s: worse by more than %s%%", l.Part, l.Says,
			Number(seen), l.Unit, accepted.Time.Format("2006-01-02"), Number(before), l.Unit, Number(tolerance*100))
	}
	return nil
}
