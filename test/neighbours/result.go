package neighbours

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Result is what one scenario came to beside one scheduler.
type Result struct {
	// Measures are in the order of the page, each name once.
	Measures []Measure `json:"measures,omitempty"`
	// Wrong are violations of what must hold beside any scheduler, one sentence each. kube-scheduler's are reported;
	// Berth's are differences.
	Wrong []string `json:"wrong,omitempty"`
}

// Measure is one number.
type Measure struct {
	Name string `json:"name"`
	// Unit is appended to the value, with a space; empty for a count.
	Unit  string  `json:"unit,omitempty"`
	Value float64 `json:"value"`
	// Margin is how far Berth's value may be from kube-scheduler's.
	Margin Margin `json:"margin"`
	// Ranks are values in descending order, which are compared rank by rank instead of Value: kube-scheduler's longest
	// with Berth's longest, the second with the second, and so on. Value is the first of them then.
	Ranks []float64 `json:"-"`
}

// Margin is how much smaller and how much larger than kube-scheduler's a value may be; nil means any.
type Margin struct {
	Less *float64 `json:"less,omitempty"`
	More *float64 `json:"more,omitempty"`
}

// Within allows a difference of so much in either direction.
func Within(difference float64) Margin { return Margin{Less: &difference, More: &difference} }

// AtMost allows any smaller value, and one that is larger by so much.
func AtMost(more float64) Margin { return Margin{More: &more} }

// AtLeast allows any larger value, and one that is smaller by so much.
func AtLeast(less float64) Margin { return Margin{Less: &less} }

// Anything compares nothing: the measure is for readers.
func Anything() Margin { return Margin{} }

// String returns the margin as the page has it.
func (m Margin) String() string {
	switch {
	case m.Less == nil && m.More == nil:
		return "any"
	case m.Less == nil:
		return "at most " + number(*m.More) + " more"
	case m.More == nil:
		return "at most " + number(*m.Less) + " less"
	case *m.Less == 0 && *m.More == 0:
		return "the same"
	case *m.Less == *m.More:
		return "± " + number(*m.More)
	default:
		return number(*m.Less) + " less to " + number(*m.More) + " more"
	}
}

// String returns the value with its unit.
func (m Measure) String() string {
	if m.Unit == "" {
		return number(m.Value)
	}
	return number(m.Value) + " " + m.Unit
}

// number has at most one digit after the point.
func number(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) } //nolint:mnd // one digit

// Differences returns what is wrong with Berth's result, compared with kube-scheduler's, one sentence each.
func Differences(upstream, berth Result) []string {
	found := slices.Clone(berth.Wrong)
	for _, b := range berth.Measures {
		at := slices.IndexFunc(upstream.Measures, func(u Measure) bool { return u.Name == b.Name })
		if at < 0 {
			found = append(found, b.Name+": kube-scheduler's run has no such measure")
			continue
		}
		if text := b.differs(upstream.Measures[at]); text != "" {
			found = append(found, text)
		}
	}
	for _, u := range upstream.Measures {
		if !slices.ContainsFunc(berth.Measures, func(b Measure) bool { return b.Name == u.Name }) {
			found = append(found, u.Name+": Berth's run has no such measure")
		}
	}
	return found
}

// differs returns how a measure of Berth is outside its margin, empty if it is not.
func (m Measure) differs(upstream Measure) string {
	if len(m.Ranks) == 0 && len(upstream.Ranks) == 0 {
		return m.outside(m.Name, m.Value, upstream.Value)
	}
	for i := range max(len(m.Ranks), len(upstream.Ranks)) {
		if text := m.outside(fmt.Sprintf("%s, rank %d", m.Name, i+1), at(m.Ranks, i), at(upstream.Ranks, i)); text != "" {
			return text
		}
	}
	return ""
}

func (m Measure) outside(what string, berth, upstream float64) string {
	more := berth - upstream
	if (m.Margin.More == nil || more <= *m.Margin.More) && (m.Margin.Less == nil || -more <= *m.Margin.Less) {
		return ""
	}
	here, there := m, m
	here.Value, there.Value = berth, upstream
	return fmt.Sprintf("%s: %s, with kube-scheduler %s; accepted is %s", what, here, there, m.Margin)
}

// at returns 0 beyond the end: a rank that one side does not have took no time there.
func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return 0
}
