package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// tally shows that the comparisons were about something.
type tally struct {
	total, placed, refused, failed, single int
	// rejects and ranks count, per plugin, the decisions in which it rejected a node, and
	// in which it told nodes apart by score.
	rejects, ranks map[string]int
}

func newTally() *tally { return &tally{rejects: map[string]int{}, ranks: map[string]int{}} }

func (s *tally) count(a answer) {
	s.total++
	feasible := 0
	rejected, scores := map[string]bool{}, map[string]map[int64]bool{}
	for _, n := range a.Nodes {
		if n.Code == "Success" {
			feasible++
		} else if n.Plugin != "" {
			rejected[n.Plugin] = true
		}
		for plugin, score := range n.Scores {
			if scores[plugin] == nil {
				scores[plugin] = map[int64]bool{}
			}
			scores[plugin][score] = true
		}
	}
	for plugin := range rejected {
		s.rejects[plugin]++
	}
	for plugin, different := range scores {
		if len(different) > 1 {
			s.ranks[plugin]++
		}
	}
	switch {
	case a.Failed:
		s.failed++
	case feasible == 0:
		s.refused++
	default:
		s.placed++
		if feasible == 1 {
			s.single++
		}
	}
}

// String is a table of what the plugins did, in percent of the decisions.
func (s *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d decisions: %d placed (%d with one choice), %d refused, %d failed\n%-36s rejects  ranks\n",
		s.total, s.placed, s.single, s.refused, s.failed, "plugin")
	for _, c := range placement.DefaultProfile("").Plugins {
		if s.rejects[c.Name]+s.ranks[c.Name] > 0 {
			fmt.Fprintf(&b, "%-36s %6.1f%% %5.1f%%\n", c.Name, s.percent(s.rejects[c.Name]), s.percent(s.ranks[c.Name]))
		}
	}
	return b.String()
}

func (s *tally) percent(count int) float64 { return 100 * float64(count) / float64(s.total) }

// What the plugins that look at the whole cluster must at least have done, in percent of
// the decisions, for a run to mean something.
const (
	leastRejects = 5
	leastRanks   = 20
)

// lopsided names what the input did not exercise.
func (s *tally) lopsided() []string {
	var missing []string
	if s.placed < s.total/10 || s.refused < s.total/10 {
		missing = append(missing, "too few placed or refused")
	}
	for _, plugin := range []string{placement.PodTopologySpread, placement.InterPodAffinity} {
		if s.percent(s.rejects[plugin]) < leastRejects || s.percent(s.ranks[plugin]) < leastRanks {
			missing = append(missing, "too little of "+plugin)
		}
	}
	slices.Sort(missing)
	return missing
}
